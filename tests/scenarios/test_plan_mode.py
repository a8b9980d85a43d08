"""Plan mode over real sockets: the real openai SDK, encodings, disconnects, look-alike paths."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from pathlib import Path
from typing import Any

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard
from openai import AsyncOpenAI, BadRequestError

from support.playbook import DONE, call, chunk, read_stream, request, said, stream, text
from support.raw_upstream import Act, Piece, RawUpstream, chunked, head, whole
from support.raw_upstream import chunk as http_chunk
from support.running import TOKEN, Running, client, exchange, post, running
from support.sdk_clients import openai_client

WRITE = stream(text("a"), call("write", '{"path":"S3CRET"}'))
TOOLS: Any = request("read", "write")["tools"]
MESSAGES: Any = [{"role": "user", "content": "rename foo"}]
JSON_WRITE = json.dumps(
    {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "c1",
                            "type": "function",
                            "function": {"name": "write", "arguments": '{"path":"S3CRET"}'},
                        }
                    ],
                },
            }
        ],
    }
).encode()
JSON_TEXT = json.dumps(
    {
        "id": "y",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
).encode()


def sdk(proxy: Running) -> AsyncOpenAI:
    """Return a client as an agent has it."""
    return openai_client(proxy.base())


async def test_openai_sdk_streamed(tmp_path: Path) -> None:
    """The SDK sees one answer without the call; the model saw the refusal; the log has all of it."""
    async with RawUpstream(chunked(WRITE)) as up, running(tmp_path, up.base_url) as proxy:
        up.enqueue(chunked(WRITE), chunked(said("Then a plan.")))
        await proxy.set_mode("plan")
        async with sdk(proxy) as openai:
            answer = openai.chat.completions.stream(model="m", messages=MESSAGES, tools=TOOLS)
            async with answer as events:
                async for _ in events:
                    pass
                message = (await events.get_final_completion()).choices[0].message
        assert message.content == "a\n\nThen a plan."
        assert not message.tool_calls
        kinds = [event["type"] for event in await proxy.events()]
    first, second = (json.loads(one.body) for one in up.requests)
    assert [tool["function"]["name"] for tool in first["tools"]] == ["read"]
    assert first["messages"][0] == {"role": "system", "content": "PLAN-SECTION"}
    assert "refused" in second["messages"][-1]["content"]
    assert kinds == ["mode/set", "session/open", "request/header", "call/judged", "turn/withheld"]


async def test_openai_sdk_whole(tmp_path: Path) -> None:
    """The same, not streamed."""
    async with RawUpstream(whole(JSON_WRITE)) as up, running(tmp_path, up.base_url) as proxy:
        up.enqueue(whole(JSON_WRITE), whole(JSON_TEXT))
        await proxy.set_mode("plan")
        async with sdk(proxy) as openai:
            answer = await openai.chat.completions.create(model="m", messages=MESSAGES, tools=TOOLS)
    assert answer.choices[0].message.content == "ok"
    assert answer.choices[0].finish_reason == "stop"
    assert not answer.choices[0].message.tool_calls


async def test_refusals_are_400_in_the_apis_own_shape(tmp_path: Path) -> None:
    """The SDK shows the message; what the gate cannot read does not pass in a mode."""
    async with RawUpstream(whole(JSON_TEXT)) as up, running(tmp_path, up.base_url) as proxy:
        await proxy.set_mode("plan")
        async with sdk(proxy) as openai:
            with pytest.raises(BadRequestError, match="plan"):
                await openai.completions.create(model="m", prompt="x")
    assert up.requests == []


PATHS = [
    "/v1/messages/batches", "/v1/completions",
    "/v1/realtime", "/v1/batches",
    "/v1//chat/completions", "//v1/chat/completions", "/v1/chat/completions//", "/v1/chat%2Fcompletions",
    "/v1/Chat/completions", "/v1/./chat/completions", "/v1/chat/completions;x", "/api/chat",
    "/openai/deployments/x/chat/completions", "/v1/threads/t/runs", "/v1beta/models/m:generateContent",
]  # fmt: skip


async def test_paths_that_cannot_be_gated_are_refused_in_a_mode(tmp_path: Path) -> None:
    """Look-alikes included; each passes in default mode."""
    async with RawUpstream(whole(JSON_TEXT)) as up, running(tmp_path, up.base_url) as proxy:
        for path in PATHS:
            assert b" 200 " in await exchange(proxy.port, post(f"/s/s{path}", b"{}"))
        passed = len(up.requests)
        await proxy.set_mode("plan")
        for path in PATHS:
            answer = await exchange(proxy.port, post(f"/s/s{path}", b"{}"))
            assert b" 400 " in answer.split(b"\r\n")[0], path
            assert b"endpoint_not_gated" in answer or b"plan" in answer
    assert len(up.requests) == passed


HARMLESS = [("GET", "/v1/models"), ("HEAD", "/v1/models"), ("HEAD", "/"), ("POST", "/v1/embeddings"),
            ("GET", "/v1/models/a%2Fb"), ("OPTIONS", "/v1/chat/completions")]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), HARMLESS)
async def test_harmless_paths_pass_in_a_mode(tmp_path: Path, method: str, path: str) -> None:
    """Models, embeddings, probes and preflights give a model no tools."""
    async with RawUpstream(whole(b"" if method == "HEAD" else b"{}")) as up:
        async with running(tmp_path, up.base_url) as proxy:
            await proxy.set_mode("plan")
            raw = f"{method} /s/s{path} HTTP/1.1\r\nHost: p\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            assert b" 200 " in (await exchange(proxy.port, raw.encode())).split(b"\r\n")[0]
    assert up.requests[0].target == path.encode()


def encodings(body: bytes) -> dict[str, bytes]:
    """Return a body in every content coding."""
    return {
        "gzip": gzip.compress(body), "br": brotli.compress(body), "zstd": zstandard.compress(body),
    }  # fmt: skip


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_b103_b106_encoded_bodies_are_gated(
    tmp_path: Path, coding: str, *, streamed: bool
) -> None:
    """Compressed requests and answers are read; what goes out is plain and says so."""
    lines = [("Content-Encoding", coding)]
    kinds = [*lines, ("Content-Type", "text/event-stream" if streamed else "application/json")]
    first, second = (WRITE, said()) if streamed else (JSON_WRITE, JSON_TEXT)
    async with RawUpstream(whole()) as up, running(tmp_path, up.base_url) as proxy:
        up.enqueue(*(whole(encodings(one)[coding], headers=kinds) for one in (first, second)))
        await proxy.set_mode("plan")
        body = encodings(json.dumps(request("read", "write", stream=streamed)).encode())[coding]
        raw = post(
            "/s/s/v1/chat/completions", body, f"Content-Encoding: {coding}", "Accept-Encoding: br"
        )
        answer = await exchange(proxy.port, raw)
    assert b"S3CRET" not in answer
    assert b"ok" in answer
    assert b"content-encoding" not in answer.lower()
    sent = json.loads(up.requests[0].body)
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["read"]
    assert up.requests[0].header("content-encoding") == []
    assert up.requests[0].header("accept-encoding") == [b"identity"]


async def test_b108_lengths_are_right_after_an_edit(tmp_path: Path) -> None:
    """Content-Length follows what is sent, both ways; never beside Transfer-Encoding."""
    async with RawUpstream(whole(JSON_WRITE)) as up, running(tmp_path, up.base_url) as proxy:
        await proxy.set_mode("plan")
        body = json.dumps(request("read", "write")).encode()
        answer = await exchange(proxy.port, post("/s/s/v1/chat/completions", body))
    top, _, sent = answer.partition(b"\r\n\r\n")
    assert f"content-length: {len(sent)}".encode() in top.lower()
    assert b"transfer-encoding" not in top.lower()
    for one in up.requests:
        assert one.header("content-length") == [str(len(one.body)).encode()]
        assert one.header("transfer-encoding") == []


@pytest.mark.parametrize("hold", [False, True], ids=["text", "call-held"])
async def test_b110_a_client_that_leaves_ends_the_upstream(tmp_path: Path, *, hold: bool) -> None:
    """Upstream sees the close at once, also while a call is held back; the mode stays."""
    first = text("a") + (call("write") if hold else b"")
    answer = [*chunked(first)[:2], Act.HANG]
    async with RawUpstream(answer) as up, running(tmp_path, up.base_url) as proxy:
        await proxy.set_mode("plan")
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        body = json.dumps(request("read", "write", stream=True)).encode()
        writer.write(post("/s/s/v1/chat/completions", body))
        await reader.readuntil(b"\n\n")
        writer.close()
        await up.gone(0)
        types = [event["type"] for event in await proxy.events()]
    assert types.count("mode/set") == 1
    assert "turn/withheld" not in types


async def test_b072_text_is_not_held(tmp_path: Path) -> None:
    """A delta reaches the client before upstream sends the next."""
    second = asyncio.Event()
    answer = chunked(text("one"), second, text("two"), chunk(None, "stop") + DONE)
    async with RawUpstream(answer) as up, running(tmp_path, up.base_url) as proxy:
        await proxy.set_mode("plan")
        async with client() as http:
            body = request("read", stream=True)
            async with http.stream("POST", f"{proxy.base()}/chat/completions", json=body) as got:
                assert got.headers["x-modegate-mode"] == "plan"
                pieces = got.aiter_raw()
                assert await anext(pieces) == text("one")
                second.set()
                assert b"".join([piece async for piece in pieces]).endswith(DONE)


async def test_held_call_is_released_at_its_finish_not_at_the_end(tmp_path: Path) -> None:
    """Upstream keeps the connection open behind [DONE]: the client has everything all the same."""
    body = stream(call("read"))
    lines = [("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")]
    answer: list[Piece] = [head(200, lines), http_chunk(body), Act.HANG]
    async with RawUpstream(answer) as up, running(tmp_path, up.base_url) as proxy:
        await proxy.set_mode("plan")
        async with client() as http:
            got = await http.post(
                f"{proxy.base()}/chat/completions", json=request("read", stream=True)
            )
    assert got.content == body


async def test_b021_b169_the_mode_of_the_next_request(tmp_path: Path) -> None:
    """Set, it is in force with the next request; left, the next one passes."""
    async with RawUpstream(chunked(WRITE)) as up, running(tmp_path, up.base_url) as proxy:
        async with client() as http:

            async def ask() -> bytes:
                body = request("read", "write", stream=True)
                return (await http.post(f"{proxy.base()}/chat/completions", json=body)).content

            assert await ask() == WRITE
            for _ in range(3):
                await proxy.set_mode("plan")
                assert b"S3CRET" not in await ask()
                await proxy.set_mode("default")
                assert b"S3CRET" in await ask()


async def test_b133_session_ids(tmp_path: Path) -> None:
    """Odd ids are refused, and never lead around a mode."""
    async with RawUpstream(chunked(WRITE)) as up, running(tmp_path, up.base_url) as proxy:
        await proxy.set_mode("plan", "s1")
        body = json.dumps(request("read", "write", stream=True)).encode()
        for lines in (
            ["X-Modegate-Session: s1", "X-Modegate-Session: s2"],
            ["X-Modegate-Session: s1/../x"],
            ["X-Modegate-Session: "],
        ):
            answer = await exchange(proxy.port, post("/v1/chat/completions", body, *lines))
            assert b" 400 " in answer.split(b"\r\n")[0], lines
        odd = await exchange(proxy.port, post("/s/s1%00/v1/chat/completions", body))
        assert b" 400 " in odd.split(b"\r\n")[0]
        held = await exchange(
            proxy.port, post("/v1/chat/completions", body, "X-Modegate-Session: s1")
        )
        assert b"S3CRET" not in held
    assert all(not one.header("x-modegate-session") for one in up.requests)


@pytest.mark.parametrize(
    ("path", "warns"),
    [("/s/named/v1", False), ("/v1", True)],
    ids=["OpenCode as documented", "none"],
)
async def test_o16_a_session_that_is_named_on_purpose_is_no_reason_to_warn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str, warns: bool
) -> None:
    """OpenCode sends ids of its own with every request, beside the one in its base URL."""
    async with running(tmp_path, "http://127.0.0.1:9") as proxy, client() as http:
        with caplog.at_level(logging.WARNING):
            headers = {"x-session-id": "ses_1", "x-session-affinity": "ses_2"}
            body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
            await http.post(f"{proxy.url}{path}/chat/completions", json=body, headers=headers)
    told = [one.getMessage() for one in caplog.records]
    assert any("these name another" in one for one in told) is warns


async def test_b003_children_follow_their_parent(tmp_path: Path) -> None:
    """A sub-agent's session needs its parent's release, until a person sets its own mode."""
    async with RawUpstream(chunked(WRITE)) as up, running(tmp_path, up.base_url) as proxy:
        await proxy.set_mode("plan", "ses_p")
        body = json.dumps(request("read", "write", stream=True)).encode()

        async def ask(*lines: str) -> bytes:
            return await exchange(proxy.port, post("/v1/chat/completions", body, *lines))

        assert b"S3CRET" not in await ask("X-Session-Id: ses_c", "X-Parent-Session-Id: ses_p")
        # The parent was claimed once: leaving the header out is no way out.
        assert b"S3CRET" not in await ask("X-Session-Id: ses_c")
        await proxy.set_mode("plan", "ses_c")
        await proxy.set_mode("default", "ses_c")
        assert b"S3CRET" in await ask("X-Session-Id: ses_c")
        assert b"S3CRET" in await ask("X-Session-Id: ses_other")


async def test_b132_a_derived_session_is_no_way_out(tmp_path: Path) -> None:
    """An agent that edits its first message gets another id, and begins in the mode of its kin."""
    async with RawUpstream(chunked(WRITE)) as up, running(tmp_path, up.base_url) as proxy:

        async def ask(first: str, agent: str = "cli/1") -> bytes:
            messages = [{"role": "user", "content": first}]
            body = json.dumps(request("read", "write", messages=messages, stream=True)).encode()
            raw = post("/v1/chat/completions", body, f"User-Agent: {agent}")
            return await exchange(proxy.port, raw)

        async def listed() -> list[str]:
            rows = (await proxy.control("GET", "/sessions")).json()["sessions"]
            return [row["id"] for row in rows]

        assert b"S3CRET" in await ask("one")
        assert proxy.composed is not None
        await proxy.composed.services.batch_writer.flush()
        await proxy.set_mode("plan", (await listed())[0])
        assert b"S3CRET" not in await ask("one")
        assert b"S3CRET" not in await ask("compacted: one")
        assert b"S3CRET" in await ask("one, by another agent", "other/2")


async def test_put_back_over_the_wire(tmp_path: Path) -> None:
    """Parallel calls: the released one runs, the withheld one is in the history that follows."""
    both = stream(call("read", '{"p":1}'), call("write", '{"path":"S3CRET"}', at=1))
    async with RawUpstream(chunked(said())) as up, running(tmp_path, up.base_url) as proxy:
        up.enqueue(chunked(both))
        await proxy.set_mode("plan")
        async with client() as http:
            url = f"{proxy.base()}/chat/completions"
            first = await http.post(url, json=request("read", "write", stream=True))
            calls = read_stream(first.content)[0]["calls"]
            assert [one["name"] for one in calls.values()] == ["read"]
            function = {"name": "read", "arguments": '{"p": 1}'}
            released = {"id": "c0", "type": "function", "function": function}
            history = [
                *MESSAGES,
                {"role": "assistant", "content": None, "tool_calls": [released]},
                {"role": "tool", "tool_call_id": "c0", "content": "file"},
            ]
            await http.post(url, json=request("read", "write", messages=history, stream=True))
    turn = json.loads(up.requests[1].body)["messages"]
    assert [one["function"]["name"] for one in turn[2]["tool_calls"]] == ["read", "write"]
    assert turn[2]["tool_calls"][0]["function"]["arguments"] == '{"p": 1}'
    roles = [message["role"] for message in turn]
    assert roles == ["system", "user", "assistant", "tool", "tool"]
    assert {m["tool_call_id"] for m in turn[3:]} == {one["id"] for one in turn[2]["tool_calls"]}


async def test_h21_what_a_model_makes_up_is_no_label(tmp_path: Path) -> None:
    """Declared tools have a label, and so has the exit tool; all other names share one."""
    made = stream(call("Invented_By_A_Model", "{}"))
    async with RawUpstream(lambda _one: chunked(made)) as up:
        async with running(tmp_path, up.base_url) as proxy:
            await proxy.set_mode("plan")
            body = json.dumps(request("read", "write") | {"stream": True}).encode()
            await exchange(proxy.port, post("/s/s/v1/chat/completions", body))
            headers = {"authorization": f"Bearer {TOKEN}"}
            async with client() as http:
                page = (await http.get(f"{proxy.url}/metrics", headers=headers)).text
    assert 'tool="undeclared",verdict="answer"' in page
    assert "Invented" not in page

"""litellm's own translation, against back ends that speak the native formats of Anthropic and Gemini.

Importing litellm takes seconds, so that all tests that need it are here, and share one event loop.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from modegate.core.dialects.registered import DIALECTS
from modegate.core.errors import BadRequest, DialectName, UpstreamFailed, UpstreamTimeout
from modegate.core.policy.file.problems import PolicyProblems
from modegate.core.policy.upstreams import Timeouts, UpstreamSpec, Value
from modegate.server.upstream.http import HttpUpstream
from modegate.server.upstream.litellm import Library, LitellmUpstream
from modegate.server.upstream.pool import Upstreams
from modegate.server.upstream.protocol import Headers, Upstream, UpstreamAnswer, UpstreamRequest
from support import native
from support.collected import GOT, events
from support.dialect_facts import api
from support.policies import parse
from support.raw_upstream import Act, RawUpstream
from support.running import POLICIES, client, policies_file, running
from support.waiting import PATIENCE

# Of pydantic, about a type of litellm's own; nothing here mutates such an item.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Items? '.*' on TypedDict class:UserWarning"),
    pytest.mark.timeout(180),  # the first test also waits for the import
]

KEY = "sk-secret-0123456789"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Keep one event loop for all tests of this file: litellm keeps clients, and they belong to a loop."""
    return "asyncio"


@pytest.fixture(scope="module")
async def library() -> AsyncIterator[Library]:
    """Yield litellm, loaded once."""
    loaded = Library()
    await loaded.load()
    yield loaded
    await loaded.close()


PATHS: dict[DialectName, bytes] = {
    "chat": b"/v1/chat/completions",
    "responses": b"/v1/responses",
    "messages": b"/v1/messages",
}
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
TOOLS: dict[DialectName, dict[str, Any]] = {
    "chat": {"type": "function", "function": {"name": "read", "parameters": SCHEMA}},
    "responses": {"type": "function", "name": "read", "parameters": SCHEMA},
    "messages": {"name": "read", "input_schema": SCHEMA},
}


def body(dialect: DialectName, **more: Any) -> bytes:
    """Return a request; `messages` or `input` by `history`."""
    asked: dict[str, Any] = {"model": "gemini-2.5-pro", "tools": [TOOLS[dialect]]}
    history = more.pop("history", [{"role": "user", "content": "hi"}])
    asked["input" if dialect == "responses" else "messages"] = history
    if dialect == "messages":
        asked["max_tokens"] = 4000
    if dialect == "chat" and more.get("stream"):
        asked["stream_options"] = {"include_usage": True}
    return json.dumps(asked | more).encode()


def request(dialect: DialectName, content: bytes, *lines: tuple[bytes, bytes]) -> UpstreamRequest:
    headers: Headers = [(b"authorization", f"Bearer {KEY}".encode()), *lines]
    return UpstreamRequest("POST", PATHS[dialect], headers, content)


async def read(answer: UpstreamAnswer) -> bytes:
    content = b"".join([chunk async for chunk in answer.chunks()])
    await answer.close()
    return content


def upstream(library: Library, pattern: str, url: str, **more: Any) -> LitellmUpstream:
    return LitellmUpstream(
        UpstreamSpec(name="u", litellm=pattern, url=url, **more), library, DIALECTS
    )


# What a client gets


FINISH = {"chat": "tool_calls", "responses": "completed", "messages": "tool_use"}
CALM = {"chat": "stop", "responses": "completed", "messages": "end_turn"}
PAIRS: list[tuple[DialectName, str]] = [
    ("chat", "anthropic/*"),
    ("chat", "gemini/*"),
    ("responses", "anthropic/*"),
    ("responses", "gemini/*"),
    ("messages", "gemini/*"),
]
SHAPES = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
PAIRED = pytest.mark.parametrize(("dialect", "pattern"), PAIRS)


@SHAPES
@PAIRED
async def test_thinking_text_parallel_calls_and_usage_come_in_the_clients_dialect(
    library: Library, dialect: DialectName, pattern: str, streamed: bool
) -> None:
    async with RawUpstream(native.answer) as raw:
        up = upstream(library, pattern, raw.base_url)
        answer = await up.send(request(dialect, body(dialect, stream=streamed)))
        got = GOT[dialect](await read(answer), streamed=streamed)
    kind = b"text/event-stream; charset=utf-8" if streamed else b"application/json"
    assert (answer.status, answer.headers[0]) == (200, (b"content-type", kind))
    assert got.thought == native.THOUGHT
    assert got.text == native.TEXT
    assert got.calls == native.CALLS
    assert got.finish == FINISH[dialect]
    assert got.usage == native.USAGE
    assert len(set(got.ids)) == 2
    assert (native.SIGNATURE in got.ids[0]) is (pattern == "gemini/*")
    key = b"x-goog-api-key" if pattern == "gemini/*" else b"x-api-key"
    (asked,) = raw.requests
    assert asked.header(key.decode()) == [KEY.encode()]
    assert asked.header("authorization") == []


@PAIRED
async def test_this_machine_is_never_reached_by_a_proxy(
    library: Library, dialect: DialectName, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with RawUpstream() as proxy, RawUpstream(native.answer) as raw:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.base_url)
        monkeypatch.setenv("no_proxy", "company.example")
        # Its clients are kept by their time limits, and a new one is wanted here.
        up = upstream(library, pattern, raw.base_url, timeouts=Timeouts(connect=7.5, read=77.5))
        answer = await up.send(request(dialect, body(dialect)))
        await read(answer)
        assert (answer.status, proxy.requests) == (200, [])


async def test_frames_come_one_by_one(library: Library) -> None:
    async with RawUpstream(native.held) as raw:
        up = upstream(library, "gemini/*", raw.base_url)
        answer = await up.send(request("chat", body("chat", stream=True)))
        chunks = answer.chunks()
        said = b"".join([await anext(chunks) for _ in range(3)])
        assert got_texts(said) == native.TEXT
        await answer.close()


def got_texts(content: bytes) -> str:
    deltas = [event["choices"][0]["delta"] for event in events(content)]
    return "".join(delta.get("content") or "" for delta in deltas)


# What a provider gets

RESULTS: dict[DialectName, list[dict[str, Any]]] = {
    "chat": [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": f"c1__thought__{native.SIGNATURE}",
                    "type": "function",
                    "function": {"name": "read", "arguments": '{"path": "a"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": f"c1__thought__{native.SIGNATURE}", "content": "RESULT"},
    ],
    "responses": [
        {"role": "user", "content": "hi"},
        {
            "type": "reasoning",
            "id": "rs_0b5fa5b2-0d6b-4d3c-8d5a-0a7c1e8f4f55",
            "summary": [],
            "encrypted_content": json.dumps(
                [{"type": "thinking", "thinking": "t", "signature": native.SIGNATURE}]
            ),
        },
        {
            "type": "function_call",
            "call_id": f"c1__thought__{native.SIGNATURE}",
            "name": "read",
            "arguments": '{"path": "a"}',
        },
        {
            "type": "function_call_output",
            "call_id": f"c1__thought__{native.SIGNATURE}",
            "output": "RESULT",
        },
    ],
    "messages": [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": [
                {
                    "type": "tool_use",
                    "id": f"c1__thought__{native.SIGNATURE}",
                    "name": "read",
                    "input": {"path": "a"},
                }
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": f"c1__thought__{native.SIGNATURE}",
                    "content": "RESULT",
                }
            ],
        },
    ],
}


@PAIRED
async def test_tool_results_of_the_history_arrive_in_the_native_format(
    library: Library, dialect: DialectName, pattern: str
) -> None:
    async with RawUpstream(native.answer) as raw:
        up = upstream(library, pattern, raw.base_url)
        await read(await up.send(request(dialect, body(dialect, history=RESULTS[dialect]))))
    sent = json.loads(raw.requests[0].body)
    if pattern == "gemini/*":
        _, call, result = sent["contents"]
        (part,) = [part for part in call["parts"] if "function_call" in part]
        assert part["function_call"] == {"name": "read", "args": {"path": "a"}}
        assert part["thoughtSignature"] == native.SIGNATURE
        assert "RESULT" in json.dumps(result["parts"])
        assert sent["tools"][0]["function_declarations"][0]["name"] == "read"
    else:
        _, call, result = sent["messages"]
        (block,) = [block for block in call["content"] if block["type"] == "tool_use"]
        assert (block["name"], block["input"]) == ("read", {"path": "a"})
        (given,) = [block for block in result["content"] if block["type"] == "tool_result"]
        assert given["tool_use_id"] == block["id"]
        assert "RESULT" in json.dumps(given["content"])
        assert sent["tools"][0]["name"] == "read"


@pytest.mark.parametrize("dialect", ["chat", "responses"])
async def test_s11_where_the_provider_wants_a_tool_an_empty_one_is_put_in(
    library: Library, dialect: DialectName
) -> None:
    """As the docs say; and nothing where the request declares tools, or its history holds no call."""
    docs = (Path(__file__).parents[4] / "docs" / "operations.md").read_text(encoding="utf-8")
    async with RawUpstream(native.answer) as raw:
        up = upstream(library, "anthropic/*", raw.base_url)
        for more in ({"history": RESULTS[dialect]}, {}):
            asked = json.loads(body(dialect, **more))
            del asked["tools"]
            await read(await up.send(request(dialect, json.dumps(asked).encode())))
        await read(await up.send(request(dialect, body(dialect, history=RESULTS[dialect]))))
    sent = [json.loads(one.body) for one in raw.requests]
    names = [[tool["name"] for tool in one.get("tools", ())] for one in sent]
    assert names == [["dummy_tool"], [], ["read"]]
    assert "`dummy_tool`" in docs


async def test_signed_thinking_finds_its_way_back_through_responses(library: Library) -> None:
    """What Anthropic signed goes out with the reasoning item as it ends, and comes back as it was."""
    async with RawUpstream(native.answer) as raw:
        up = upstream(library, "anthropic/*", raw.base_url)
        answer = await up.send(request("responses", body("responses", stream=True)))
        done = [e["item"] for e in events(await read(answer)) if e["type"].endswith("item.done")]
        order = ["reasoning", "message", "function_call", "function_call"]
        items = sorted(done, key=lambda item: order.index(item["type"]))
        results = [
            {"type": "function_call_output", "call_id": item["call_id"], "output": "x"}
            for item in items
            if item["type"] == "function_call"
        ]
        history = [{"role": "user", "content": "hi"}, *items, *results]
        more = {"history": history, "reasoning": {"effort": "low"}}
        await read(await up.send(request("responses", body("responses", **more))))
    turn = json.loads(raw.requests[1].body)["messages"][1]
    signed = {"type": "thinking", "thinking": native.THOUGHT, "signature": native.SIGNATURE}
    assert turn["role"] == "assistant"
    assert turn["content"][0] == signed


async def test_what_a_body_says_of_addresses_and_keys_is_left_out(library: Library) -> None:
    more = {
        "api_base": "http://127.0.0.1:9",
        "base_url": "http://127.0.0.1:9",
        "api_key": "other",
        "custom_llm_provider": "openai",
        "mock_response": "mocked",
        "extra_headers": {"x-a": "1"},
        "extra_body": {"x": 1},
        "fallbacks": ["openai/x"],
        "num_retries": 3,
        "metadata": {"user_id": "me", "tags": ["x"]},
        "drop_params": False,
        "litellm_params": {"x": 1},
    }
    async with RawUpstream(native.answer) as raw:
        for dialect, pattern in PAIRS:
            up = upstream(library, pattern, raw.base_url)
            answer = await up.send(request(dialect, body(dialect, **more)))
            got = GOT[dialect](await read(answer), streamed=False)
            assert got.text == native.TEXT
    for asked in raw.requests:
        assert KEY.encode() in b"".join(asked.header("x-api-key") + asked.header("x-goog-api-key"))
        assert asked.header("x-a") == []
        assert b"mocked" not in asked.body
        assert b'"tags"' not in asked.body


async def test_the_policys_model_and_headers_go_out(library: Library) -> None:
    spec = UpstreamSpec(
        name="u", litellm="gemini/gemini-2.5-flash", headers=(("x-team", Value("t")),)
    )
    async with RawUpstream(native.answer) as raw:
        up = LitellmUpstream(replace(spec, url=raw.base_url), library, DIALECTS)
        sent = request("chat", gzip.compress(body("chat")), (b"x-team", b"t"))
        sent.headers.append((b"content-encoding", b"gzip"))
        await read(await up.send(sent))
    assert raw.requests[0].target == b"/models/gemini-2.5-flash:generateContent"
    assert raw.requests[0].header("x-team") == [b"t"]


class Listening(Library):
    """litellm that only listens."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: dict[str, Any] = {}

    async def load(self) -> Any:
        async def acompletion(**arguments: Any) -> dict[str, Any]:
            self.heard = arguments
            return {"choices": []}

        functions = dict.fromkeys(("aresponses", "anthropic_messages"), acompletion)
        return SimpleNamespace(acompletion=acompletion, httpx=httpx, **functions)


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def test_an_identity_of_the_process_needs_no_key_and_no_address() -> None:
    listening = Listening()
    up = LitellmUpstream(UpstreamSpec(name="u", litellm="bedrock/*"), listening, DIALECTS)
    raw = body("chat", tools=None)
    await read(await up.send(UpstreamRequest("POST", PATHS["chat"], [], pieces(raw[:9], raw[9:]))))
    assert listening.heard.keys() == {
        "messages",
        "model",
        "custom_llm_provider",
        "max_retries",
        "num_retries",
        "timeout",
    }
    assert listening.heard["max_retries"] == listening.heard["num_retries"] == 0
    await up.close()


@pytest.mark.parametrize("encoding", [b"gzip", b"unheard-of"])
async def test_a_body_that_cannot_be_decoded_is_refused(encoding: bytes) -> None:
    up = LitellmUpstream(UpstreamSpec(name="u", litellm="gemini/*"), Listening(), DIALECTS)
    with pytest.raises(BadRequest, match="cannot be decoded"):
        await up.send(request("chat", b"{}", (b"content-encoding", encoding)))


async def test_an_image_of_this_network_is_not_fetched(library: Library) -> None:
    """litellm fetches images for providers that take no addresses; not from where only we can reach."""
    async with RawUpstream() as inside, RawUpstream(native.answer) as raw:
        image = {"type": "image_url", "image_url": {"url": f"{inside.base_url}/secret.png"}}
        history = [{"role": "user", "content": [image]}]
        up = upstream(library, "gemini/*", raw.base_url)
        answer = await up.send(request("chat", body("chat", history=history)))
        assert answer.status == 400
        assert (inside.connections, raw.connections) == (0, 0)


# Errors

ERROR_KINDS: dict[tuple[DialectName, int], str] = {
    ("chat", 400): "invalid_request_error",
    ("chat", 429): "rate_limit_error",
    ("chat", 500): "server_error",
    ("responses", 400): "invalid_request_error",
    ("responses", 429): "rate_limit_error",
    ("responses", 500): "server_error",
    ("messages", 400): "invalid_request_error",
    ("messages", 429): "rate_limit_error",
    ("messages", 500): "api_error",
}


@pytest.mark.parametrize("status", [400, 429, 500])
@SHAPES
@PAIRED
async def test_a_providers_error_comes_in_the_clients_format_and_is_not_retried(
    library: Library, dialect: DialectName, pattern: str, streamed: bool, status: int
) -> None:
    async with RawUpstream(native.error(status)) as raw:
        up = upstream(library, pattern, raw.base_url)
        answer = await up.send(request(dialect, body(dialect, stream=streamed)))
        told = json.loads(await read(answer))
        assert len(raw.requests) == 1
    assert answer.status == status
    assert (b"retry-after", b"17") in answer.headers
    assert told["error"]["message"] == f"said {status}"
    assert told["error"]["type"] == ERROR_KINDS[dialect, status]
    assert ("type" in told) is (dialect == "messages")


@pytest.mark.parametrize("act", [Act.CLOSE, Act.RESET], ids=["closed", "reset"])
@SHAPES
@PAIRED
async def test_no_answer_is_a_failed_upstream(
    library: Library, dialect: DialectName, pattern: str, streamed: bool, act: Act
) -> None:
    async with RawUpstream([act]) as raw:
        up = upstream(library, pattern, raw.base_url)
        with pytest.raises(UpstreamFailed, match=r"upstream u: no answer") as caught:
            await up.send(request(dialect, body(dialect, stream=streamed)))
        assert len(raw.requests) == 1
    assert KEY not in str(caught.value)


async def gather(answer: UpstreamAnswer, seen: list[bytes]) -> None:
    async for chunk in answer.chunks():
        seen.append(chunk)  # noqa: PERF401 -- what came before it broke off counts


@PAIRED
async def test_a_stream_that_breaks_off_is_no_silent_end(
    library: Library, dialect: DialectName, pattern: str
) -> None:
    async with RawUpstream(native.cut) as raw:
        up = upstream(library, pattern, raw.base_url)
        answer = await up.send(request(dialect, body(dialect, stream=True)))
        seen: list[bytes] = []
        with pytest.raises(UpstreamFailed, match="broke off"):
            await gather(answer, seen)
        await answer.close()
    assert native.TEXT[:6].encode() in b"".join(seen)
    for end in (b"[DONE]", b"response.completed", b"message_stop"):
        assert end not in b"".join(seen)


async def test_silence_ends_at_the_read_limit(library: Library) -> None:
    async with RawUpstream([Act.HANG]) as raw:
        up = upstream(library, "gemini/*", raw.base_url, timeouts=Timeouts(1.0, 0.2))
        with pytest.raises(UpstreamTimeout):
            await up.send(request("chat", body("chat")))


# A client that goes


@PAIRED
async def test_closing_a_stream_ends_the_providers(
    library: Library, dialect: DialectName, pattern: str
) -> None:
    async with RawUpstream(native.held) as raw:
        up = upstream(library, pattern, raw.base_url)
        answer = await up.send(request(dialect, body(dialect, stream=True)))
        await anext(answer.chunks())
        await answer.close()
        await answer.close()
        await raw.gone()


@SHAPES
@PAIRED
async def test_cancelling_a_request_that_waits_ends_the_providers(
    library: Library, dialect: DialectName, pattern: str, streamed: bool
) -> None:
    async with RawUpstream([Act.HANG]) as raw:
        up = upstream(library, pattern, raw.base_url)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(up.send(request(dialect, body(dialect, stream=streamed))))
            await raw.received()
            waiting.cancel()
        async with asyncio.timeout(PATIENCE):
            await raw.gone()


# What is refused, or passed on without translation


@pytest.mark.parametrize(
    ("dialect", "more", "words"),
    [
        ("responses", {"previous_response_id": "resp_1"}, "previous_response_id is not possible"),
        ("responses", {"conversation": "conv_1"}, "conversation is not possible"),
        ("responses", {"background": True}, "background is not possible"),
        ("chat", {"model": None}, "names no model"),
    ],
)
async def test_what_cannot_be_translated_is_refused_before_anybody_is_asked(
    library: Library, dialect: DialectName, more: dict[str, Any], words: str
) -> None:
    async with RawUpstream() as raw:
        up = upstream(library, "gemini/*", raw.base_url)
        with pytest.raises(BadRequest, match=words):
            await up.send(request(dialect, body(dialect, **more)))
    assert raw.connections == 0


async def test_without_a_credential_none_is_looked_for(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "somebody's")
    async with RawUpstream() as raw:
        up = upstream(library, "gemini/*", raw.base_url)
        with pytest.raises(BadRequest, match="no credential for upstream u"):
            await up.send(UpstreamRequest("POST", PATHS["chat"], [], body("chat")))
    assert raw.connections == 0


async def test_other_endpoints_are_not_found() -> None:
    answer = await upstream(Library(), "gemini/*", "http://127.0.0.1:9").send(
        UpstreamRequest("GET", b"/v1/models?limit=1", [], b"")
    )
    assert (answer.status, "only" in json.loads(await read(answer))["error"]["message"]) == (
        404,
        True,
    )


@pytest.mark.parametrize(
    ("pattern", "sent", "expected"),
    [
        ("anthropic/*", b'{ "model":"m", "n":1.0}', b'{ "model":"m", "n":1.0}'),
        ("anthropic/claude-x", b'{ "model":"m", "n":1.0}', b'{ "model":"claude-x", "n":1.0}'),
    ],
)
@pytest.mark.parametrize("path", [b"/v1/messages", b"/v1/messages/count_tokens?beta=true"])
async def test_messages_to_anthropic_are_not_translated(
    pattern: str, sent: bytes, expected: bytes, path: bytes
) -> None:
    async with RawUpstream() as raw:
        up = LitellmUpstream(
            UpstreamSpec(name="u", litellm=pattern, url=raw.base_url),
            Library(),
            DIALECTS,
            {"messages": HttpUpstream(raw.base_url)},
        )
        headers = [(b"x-api-key", KEY.encode()), (b"anthropic-beta", b"x")]
        assert await read(await up.send(UpstreamRequest("POST", path, headers, sent))) == b"{}"
        await up.close()
    (asked,) = raw.requests
    assert (asked.body, asked.target) == (expected, path)
    assert asked.header("x-api-key") == [KEY.encode()]
    assert asked.header("anthropic-beta") == [b"x"]


# The whole of it


def without_schema(dialect: DialectName, name: str) -> dict[str, Any]:
    tool = json.loads(json.dumps(TOOLS[dialect]).replace('"read"', f'"{name}"'))
    assert isinstance(tool, dict)
    return tool


@SHAPES
@pytest.mark.parametrize("dialect", PATHS)
async def test_a_mode_holds_a_model_behind_litellm(
    tmp_path: Path,
    library: Library,
    monkeypatch: pytest.MonkeyPatch,
    dialect: DialectName,
    streamed: bool,
) -> None:
    """Both calls are refused, the provider is asked again, and the client gets one answer without them."""
    monkeypatch.setenv("LITELLM_TEST_KEY", KEY)
    async with RawUpstream() as raw:
        raw.enqueue(native.answer, native.done)
        routes = f"""
upstreams:
  gemini: {{litellm: "gemini/*", url: "{raw.base_url}", key: {{env: LITELLM_TEST_KEY}}}}
routes: [{{model: "gemini*", upstream: gemini}}]
"""
        policies = policies_file(tmp_path, POLICIES.replace("[read, grep]", "[view]") + routes)
        async with running(tmp_path, "http://127.0.0.1:9", policies=policies) as proxy:
            await proxy.set_mode("plan")
            async with client() as http:
                tools = [TOOLS[dialect], without_schema(dialect, "view")]
                asking = body(dialect, tools=tools, stream=streamed)
                url = proxy.base().removesuffix("/v1") + PATHS[dialect].decode()
                answer = await http.post(url, content=asking, timeout=40)
            assert answer.status_code == 200, answer.text
            log = await proxy.events()
    got = GOT[dialect](answer.content, streamed=streamed)
    assert (got.calls, got.finish) == ([], CALM[dialect])
    assert got.text.startswith(native.TEXT)
    assert got.text.endswith(native.DONE)
    first, second = (json.loads(asked.body) for asked in raw.requests)
    offered = [one["name"] for one in first["tools"][0]["function_declarations"]]
    assert offered == ["view"]
    assert "PLAN-SECTION" in json.dumps(first)
    assert [event["type"] for event in log].count("call/judged") == 2
    refused = [part for turn in second["contents"] for part in turn["parts"]]
    assert len([part for part in refused if "function_response" in part]) == 2
    signed = [part for part in refused if part.get("thoughtSignature") == native.SIGNATURE]
    assert [part["function_call"]["name"] for part in signed] == ["read"], "as it came (N014)"


@SHAPES
@pytest.mark.parametrize("dialect", ["chat", "responses"])
async def test_n014_what_claude_thought_goes_back_with_its_refused_calls(
    library: Library,
    dialect: DialectName,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    streamed: bool,
) -> None:
    """Signed, and in front of the calls."""
    monkeypatch.setenv("LITELLM_TEST_KEY", KEY)
    async with RawUpstream() as raw:
        raw.enqueue(native.answer, native.told)
        routes = f"""
upstreams:
  claude: {{litellm: "anthropic/*", url: "{raw.base_url}", key: {{env: LITELLM_TEST_KEY}}}}
routes: [{{upstream: claude}}]
"""
        policies = policies_file(tmp_path, POLICIES.replace("[read, grep]", "[view]") + routes)
        async with running(tmp_path, "http://127.0.0.1:9", policies=policies) as proxy:
            await proxy.set_mode("plan")
            async with client() as http:
                tools = [TOOLS[dialect], without_schema(dialect, "view")]
                more: dict[str, Any] = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
                more = more if dialect == "chat" else {"reasoning": {"effort": "low"}}
                asking = body(dialect, tools=tools, stream=streamed, model="claude-x", **more)
                url = proxy.base().removesuffix("/v1") + PATHS[dialect].decode()
                answer = await http.post(url, content=asking, timeout=40)
            assert answer.status_code == 200, answer.text
    turn = json.loads(raw.requests[1].body)["messages"][1]
    assert turn["role"] == "assistant"
    kinds = [block["type"] for block in turn["content"]]
    assert kinds == ["thinking", "text", "tool_use", "tool_use"]
    assert turn["content"][0]["signature"] == native.SIGNATURE
    assert turn["content"][0]["thinking"] == native.THOUGHT


WITH_LITELLM = """
modes: {plan: {section: s, tools: [read]}}
upstreams: {u: {litellm: "gemini/*", key: {env: K}}}
routes: [{upstream: u}]
"""
NOT_IMPORTED = """
import asyncio, sys
from pathlib import Path
from support.raw_upstream import RawUpstream, whole
from support.running import client, running

async def main(folder):
    async with RawUpstream(whole()) as raw, running(folder, raw.base_url) as proxy:
        async with client() as http:
            url = f"{proxy.base()}/chat/completions"
            assert (await http.post(url, json={"model": "m"})).status_code == 200
            await proxy.set_mode("plan")
            asked = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
            await http.post(url, json=asked)
    assert len(raw.requests) == 2

asyncio.run(main(Path(sys.argv[1])))
heavy = [name for name in sys.modules if name.partition(".")[0] in ("litellm", "tokenizers", "boto3")]
assert not heavy, heavy
print("served")
"""


def test_litellm_is_not_imported_where_no_policy_wants_it(tmp_path: Path) -> None:
    tests = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", NOT_IMPORTED, str(tmp_path)],
        cwd=tests,
        env={"PYTHONPATH": str(tests), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert (done.stdout, done.returncode) == ("served\n", 0), done.stderr


class Broken(Library):
    """litellm, wrongly installed."""

    def __init__(self) -> None:
        super().__init__()
        self.tried = asyncio.Event()

    async def load(self) -> Any:
        self.tried.set()
        raise UpstreamFailed("litellm cannot be imported")


async def test_litellm_is_loaded_once_a_policy_wants_it_so_that_no_request_waits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """If that fails it is told in the log, and to whoever asks."""
    never: Upstream = HttpUpstream("http://127.0.0.1:9")
    library = Broken()
    upstreams = Upstreams(lambda _dialect: never, {"K": "k"}, DIALECTS, library)
    async with asyncio.TaskGroup() as group:
        tidying = group.create_task(upstreams.tidy())
        upstreams.adopt(parse(WITH_LITELLM))
        async with asyncio.timeout(PATIENCE):
            await library.tried.wait()
        tidying.cancel()
    assert "litellm cannot be imported" in caplog.text
    with upstreams.pick(api("chat"), None) as picked:
        with pytest.raises(UpstreamFailed, match="litellm cannot be imported"):
            await picked.send(request("chat", body("chat")))
    await upstreams.close()


async def test_what_is_wrong_with_an_installation_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_name: str) -> None:
        raise ImportError("libxyz.so is missing")

    monkeypatch.setattr("modegate.server.upstream.litellm.importlib.import_module", broken)
    with pytest.raises(UpstreamFailed, match="is missing"):
        await Library().load()


async def test_a_policy_that_wants_litellm_says_so_where_it_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    never: Upstream = HttpUpstream("http://127.0.0.1:9")
    upstreams = Upstreams(lambda _dialect: never, {"K": "k"}, DIALECTS)
    policy = parse(WITH_LITELLM)
    with pytest.raises(PolicyProblems, match=r"pip install '\.\[litellm\]'"):
        upstreams.adopt(policy)


@pytest.mark.parametrize(
    ("pattern", "key", "credential"),
    [
        ("gemini/*", "", False),
        ("gemini/*", ", key: {env: K}", True),
        ("bedrock/*", "", True),
    ],
)
async def test_an_identity_of_the_process_is_a_credential_of_modegate(
    pattern: str, key: str, credential: bool
) -> None:
    never: Upstream = HttpUpstream("http://127.0.0.1:9")
    upstreams = Upstreams(lambda _dialect: never, {"K": "k"}, DIALECTS)
    policy = parse(
        "modes: {plan: {section: s, tools: [read]}}\n"
        f'upstreams: {{u: {{litellm: "{pattern}"{key}}}}}\nroutes: [{{upstream: u}}]'
    )
    upstreams.adopt(policy)
    with upstreams.pick(api("chat"), None) as picked:
        assert picked.adds_credential is credential
    await upstreams.close()

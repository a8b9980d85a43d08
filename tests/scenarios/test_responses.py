"""Responses over real sockets: the real SDK in plan mode, answers that are kept, and compaction."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError

from support.raw_upstream import RawUpstream, Received, chunked, whole
from support.responses import answer, call, message, response, tool
from support.running import POLICIES, Running, client, policies_file, running
from support.sdk_clients import openai_client

TOOLS: Any = [tool("read"), tool("write")]
WRITE, READ = call("write", '{"path":"S3CRET"}'), call("read", "{}", 2)


def sdk(proxy: Running) -> AsyncOpenAI:
    """Return a client as an agent has it."""
    return openai_client(proxy.base())


def sent(request: Received) -> Any:
    """Return what the provider was asked."""
    return json.loads(request.body)


async def streamed(openai: AsyncOpenAI, **more: Any) -> Any:
    """Ask and read a stream to its end."""
    async with openai.responses.stream(model="m", tools=TOOLS, **more) as events:
        return await events.get_final_response()


async def test_the_sdk_goes_on_from_an_answer_of_several_hops(tmp_path: Path) -> None:
    """Calls are refused, their results owed, and the client's own id is enough all along."""
    async with RawUpstream() as up, running(tmp_path, up.base_url) as proxy:
        up.enqueue(
            chunked(answer(message("I write."), WRITE)),
            chunked(answer(message("I look.", "m2"), READ, call("write", '{"n":2}', 3), n=2)),
            chunked(answer(message("Done.", "m3"), n=3)),
        )
        await proxy.set_mode("plan")
        async with sdk(proxy) as openai:
            first = await streamed(openai, input="rename foo")
            output = {"type": "function_call_output", "call_id": READ["call_id"], "output": "x"}
            second = await streamed(openai, input=[output], previous_response_id=first.id)
        assert first.id == "resp_1"
        assert first.output_text == "I write.I look."
        assert [item.type for item in first.output] == ["message", "message", "function_call"]
        assert second.output_text == "Done."
        last = sent(up.requests[-1])
        assert last["previous_response_id"] == "resp_2"
        assert [item["call_id"] for item in last["input"]] == [
            "call_of_this_answer_3",
            READ["call_id"],
        ]
        types = [event["type"] for event in await proxy.events()]
        assert "answer/mapped" in types
        assert types.count("turn/withheld") == 1


async def test_a_stored_answer_is_fetched_through_the_gate(tmp_path: Path) -> None:
    """It is asked for under the last hop's id and shown under the client's, without what was refused."""
    async with RawUpstream() as up, running(tmp_path, up.base_url) as proxy:
        up.enqueue(
            chunked(answer(message("a"), WRITE)),
            chunked(answer(READ, call("write", '{"path":"S3CRET"}', 3), n=2)),
        )
        await proxy.set_mode("plan")
        async with sdk(proxy) as openai:
            first = await streamed(openai, input="rename foo")
            for mode in ("plan", "default"):
                await proxy.set_mode(mode)
                stored = response([READ, call("write", '{"path":"S3CRET"}', 3)], n=2)
                up.enqueue(whole(json.dumps(stored).encode()))
                fetched = await openai.responses.retrieve(first.id)
                assert fetched.id == first.id
                assert [item.type for item in fetched.output] == ["function_call"]
                assert "S3CRET" not in fetched.to_json()
                assert up.requests[-1].target == b"/v1/responses/resp_2"
            await proxy.set_mode("plan")
            with pytest.raises(BadRequestError, match="only answers can be fetched"):
                await openai.responses.retrieve("resp_of_somebody_else")
            asked = [
                {"type": "message", "role": "user", "content": []},
                call("write", '{"path":"S3CRET"}'),
            ]
            up.enqueue(whole(json.dumps({"object": "list", "data": asked}).encode()))
            listed = await openai.responses.input_items.list(first.id)
            assert [item.type for item in listed.data] == ["message"]
            assert up.requests[-1].target == b"/v1/responses/resp_1/input_items"
            before = len(up.requests)
            up.enqueue(whole(b'{"error":{"message":"gone"}}', status=404))
            async with client() as http:
                missing = await http.delete(f"{proxy.base()}/responses/{first.id}")
            assert (missing.status_code, missing.json()) == (404, {"error": {"message": "gone"}})
            assert up.requests[before].method == b"DELETE"


async def test_a_fetched_answer_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """Nothing of it passes."""
    async with RawUpstream() as up, running(tmp_path, up.base_url) as proxy:
        up.enqueue(chunked(answer(WRITE)), chunked(answer(message("b"), n=2)))
        await proxy.set_mode("plan")
        async with sdk(proxy) as openai:
            first = await streamed(openai, input="hi")
            up.enqueue(
                chunked(answer(WRITE)),
                whole(b"x", headers=[("Content-Encoding", "gzip")]),
                whole(b"S3CRET", 302, [("Location", "/S3CRET")]),
                # H7: an error that is an answer.
                whole(json.dumps(response([call("write", '{"path":"S3CRET"}')])).encode(), 500),
            )
            async with client() as http:
                for query in ("?%73tream=true", "", "", ""):
                    broken = await http.get(f"{proxy.base()}/responses/{first.id}{query}")
                    assert broken.status_code == 502
                    assert b"S3CRET" not in broken.content
                    assert "location" not in broken.headers


async def test_compaction_keeps_what_was_withheld(tmp_path: Path) -> None:
    """The provider sees the refused call and its result."""
    user = {"type": "message", "role": "user", "content": "hi"}
    async with RawUpstream() as up, running(tmp_path, up.base_url) as proxy:
        up.enqueue(chunked(answer(WRITE, READ)))
        await proxy.set_mode("plan")
        async with sdk(proxy) as openai:
            first = await streamed(openai, input=[user], store=False)
        items = [item.to_dict() for item in first.output]
        output = {"type": "function_call_output", "call_id": READ["call_id"], "output": "x"}
        made = {"object": "response.compaction", "id": "c", "created_at": 1, "output": [user]}
        up.enqueue(whole(json.dumps(made).encode()))
        async with client() as http:
            body = {"model": "m", "input": [user, *items, output]}
            compacted = await http.post(f"{proxy.base()}/responses/compact", json=body)
        assert compacted.json() == made
        names = [item.get("name") for item in sent(up.requests[-1])["input"]]
        assert names == [None, "write", "read", None, None]


async def test_a_chain_without_a_session_stays_in_the_one_that_it_began_in(tmp_path: Path) -> None:
    """What goes on from an answer needs not repeat the first message, of which the id was made."""
    policies = policies_file(tmp_path, POLICIES + "sessions: {initial_mode: plan}\n")
    async with RawUpstream() as up, running(tmp_path, up.base_url, policies=policies) as proxy:
        up.enqueue(chunked(answer(WRITE, READ)), chunked(answer(message("Done.", "m3"), n=2)))
        base = f"{proxy.url}/v1"
        async with openai_client(base) as openai:
            first = await streamed(openai, input="rename foo")
            output = {"type": "function_call_output", "call_id": READ["call_id"], "output": "x"}
            await streamed(openai, input=[output], previous_response_id=first.id)
            assert [item["call_id"] for item in sent(up.requests[-1])["input"]] == [
                WRITE["call_id"],
                READ["call_id"],
            ]
            up.enqueue(whole(json.dumps(response([WRITE, READ])).encode()))
            fetched = await openai.responses.retrieve(first.id)
            assert [item.type for item in fetched.output] == ["function_call"]

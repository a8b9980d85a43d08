"""What a step took is given back the moment it ends: nothing waits for the cyclic collector (S2)."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from modegate.core.step.answer.streamed import Streamed
from modegate.core.step.answer.whole import Whole
from modegate.core.step.exchange import Exchange
from modegate.core.step.request.hop_requests import HopRequests
from modegate.server.proxy.drive import Drive
from modegate.server.proxy.step import Step
from support.acp import eventually
from support.playbook import call, chunk, request, stream, text
from support.raw_upstream import Act, Piece, RawUpstream, chunked, whole
from support.running import Running, client, exchange, policies_file, post, running

OURS = (Step, Drive, Exchange, HopRequests, Streamed, Whole)
"""What holds a step's bytes, directly or by what it refers to."""

SMALL = "limits: {body: 1MiB}\n"
PATH = "/s/s/v1/chat/completions"
STREAM = json.dumps(request("read", "write") | {"stream": True}).encode()
WHOLE = json.dumps(request("read", "write") | {"stream": False}).encode()
ZSTD = zstandard.compress(bytes(256 * 2**20))


def answer(*calls: dict[str, Any]) -> bytes:
    """Return a whole answer that makes these calls."""
    message = {"role": "assistant", "content": None, "tool_calls": list(calls)}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    return json.dumps({"id": "x", "object": "chat.completion", "choices": [choice]}).encode()


def made(name: str, call_id: str) -> dict[str, Any]:
    """Return a call of a whole answer."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}


TWO = [
    chunk({"tool_calls": [made(name, f"call_{at}") | {"index": at}]})
    for at, name in enumerate(("read", "write"))
]
CASES: dict[str, tuple[bytes, tuple[str, ...], list[Piece]]] = {
    "a stream with a released and a refused call": (
        STREAM,
        (),
        chunked(stream(text("a"), *TWO, chunk({}, "tool_calls"))),
    ),
    "a stream refused to the end": (
        STREAM,
        (),
        chunked(stream(text("a"), call("write", '{"path":"x"}'))),
    ),
    "a whole answer": (WHOLE, (), whole(answer(made("read", "a1"), made("write", "a2")))),
    "an answer that cannot be read": (
        STREAM,
        (),
        chunked(b"data: {\n\n", headers=[("Content-Type", "text/event-stream")]),
    ),
    "a whole answer that cannot be read": (WHOLE, (), whole(b"{")),
    "a request that cannot be read": (b'{"messages":[],"messages":[]}', (), whole()),
    "a body over its limit once decoded": (ZSTD, ("Content-Encoding: zstd",), whole()),
    "an upstream that breaks off": (STREAM, (), [*chunked(text("a"))[:2], Act.RESET]),
    "an upstream that gives no answer": (STREAM, (), [Act.RESET]),
}


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Keep the cyclic collector away."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def held() -> list[str]:
    """Return the kinds of what some step has left behind."""
    return [type(one).__name__ for one in gc.get_objects() if isinstance(one, OURS)]


async def begun() -> bool:
    """Return whether some step is there."""
    return bool(held())


async def over() -> bool:
    """Return whether nothing is left of any."""
    return not held()


@contextlib.asynccontextmanager
async def gated(folder: Path, upstream: str, mode: str) -> AsyncIterator[Running]:
    """Run a proxy with a small limit of bodies, and a session in a mode."""
    text = "modes:\n  plan: {section: PLAN, tools: [read]}\n" + SMALL
    async with running(folder, upstream, policies=policies_file(folder, text)) as proxy:
        if mode != "raw":
            await proxy.set_mode("plan")
        if mode == "restored":
            await proxy.set_mode("default")
        yield proxy


@pytest.mark.parametrize("mode", ["raw", "plan", "restored"])
@pytest.mark.parametrize("name", CASES)
async def test_s2_a_step_that_is_over_holds_nothing(tmp_path: Path, name: str, mode: str) -> None:
    """Success, refusal, errors of either side: no reference cycle keeps any of it."""
    body, lines, answered = CASES[name]
    async with (
        RawUpstream(lambda _one: answered) as up,
        gated(tmp_path, up.base_url, mode) as proxy,
    ):
        with uncollected():
            got = await exchange(proxy.port, post(PATH, body, *lines))
            assert got.startswith(b"HTTP/1.1 ")
            await eventually(over)


@pytest.mark.parametrize("mode", ["raw", "plan"])
async def test_s2_a_body_over_its_limit_leaves_nothing(tmp_path: Path, mode: str) -> None:
    """Its length alone is told; none of it was sent."""
    long = post(PATH, b"").replace(b"Content-Length: 0", b"Content-Length: 2000000")
    async with RawUpstream() as up, gated(tmp_path, up.base_url, mode) as proxy:
        with uncollected():
            assert b" 413 " in await exchange(proxy.port, long)
            await eventually(over)


@pytest.mark.parametrize("mode", ["raw", "plan"])
@pytest.mark.parametrize("when", ["in its body", "in the answer"])
async def test_s2_a_client_that_goes_leaves_nothing(tmp_path: Path, mode: str, when: str) -> None:
    """Whether it goes while it sends or while it is answered."""
    hangs = [*chunked(text("a"))[:2], Act.HANG]
    async with RawUpstream(lambda _one: hangs) as up, gated(tmp_path, up.base_url, mode) as proxy:
        with uncollected():
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            whole_request = post(PATH, STREAM)
            writer.write(whole_request[:-5] if when == "in its body" else whole_request)
            await writer.drain()
            if when == "in the answer":
                await reader.readuntil(b"\n\n")
            else:
                await eventually(begun)
            writer.close()
            await eventually(over)


OVERTAKEN: dict[str, tuple[bytes, bytes]] = {
    "goes on": (text("a"), call("write", '{"path":"x"}') + b"data: [DONE]\n\n"),
    "is cut off": (text("a") + TWO[1], chunk({}, "tool_calls")),
    "breaks off": (text("a")[:9], text("a")[9:] + TWO[1]),
}


@pytest.mark.parametrize("mode", ["raw", "restored"])
@pytest.mark.parametrize("name", OVERTAKEN)
async def test_s2_an_answer_that_is_overtaken_leaves_nothing(
    tmp_path: Path, name: str, mode: str
) -> None:
    """A person sets a mode while it passes."""
    front, back = OVERTAKEN[name]
    go = asyncio.Event()
    async with RawUpstream() as up, gated(tmp_path, up.base_url, mode) as proxy:
        up.enqueue(chunked(front, go, back))
        up.enqueue(chunked(stream(text("b"), finish="stop")))
        with uncollected():
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            writer.write(post(PATH, STREAM))
            # Where it is read, what is no whole event waits.
            await reader.readuntil(front[:9] if mode == "raw" else b"\r\n\r\n")
            await proxy.set_mode("plan")
            go.set()
            await reader.read()
            writer.close()
            await eventually(over)


LIMITED = """
modes: {plan: {section: PLAN, tools: [read]}}
limits: {memory: 300KiB}
"""


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages"])
async def test_s2_all_steps_together_hold_no_more_than_the_limit(tmp_path: Path, path: str) -> None:
    """A request for which there is no room is told when to come again, and finds room later."""
    policies = policies_file(tmp_path, LIMITED)
    body = json.dumps(
        request("read") | {"input": "x", "max_tokens": 1, "pad": "x" * 200_000}
    ).encode()
    async with RawUpstream() as up, running(tmp_path, up.base_url, policies=policies) as proxy:
        # Without an id it is read for the session's name.
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(post(path, body)[:-1])
        await writer.drain()
        assert proxy.composed is not None
        held_bytes = proxy.composed.steps.memory

        async def read() -> bool:
            return held_bytes.held >= 190_000

        await eventually(read)
        async with client() as http:
            refused = await http.post(proxy.url + path, content=body)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert "limits.memory" in refused.text
        assert ("type" in refused.json()) == (path == "/v1/messages")
        writer.write(b"}")
        assert b" 200 " in await reader.readline()
        writer.close()
        assert b" 200 " in await exchange(proxy.port, post(path, body))
        await eventually(over)
        assert held_bytes.held == 0


async def test_s2_what_a_gated_step_copies_counts_too(tmp_path: Path) -> None:
    """A body for which there is room once is refused where it would be there four times."""
    policies = policies_file(tmp_path, LIMITED)
    body = json.dumps(request("read") | {"pad": "x" * 100_000}).encode()
    async with RawUpstream() as up, running(tmp_path, up.base_url, policies=policies) as proxy:
        assert b" 200 " in await exchange(proxy.port, post(PATH, body))
        await proxy.set_mode("plan")
        assert b" 503 " in await exchange(proxy.port, post(PATH, body))
        assert len(up.requests) == 1


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_s2_what_is_held_of_an_answer_counts_too(tmp_path: Path, kind: str) -> None:
    """An answer that would take more than there is ends with the error."""
    policies = policies_file(tmp_path, LIMITED)
    answered = chunked(b"data: " + b"x" * 400_000, headers=[("Content-Type", kind)])
    async with RawUpstream(lambda _one: answered) as up:
        async with running(tmp_path, up.base_url, policies=policies) as proxy:
            await proxy.set_mode("plan")
            assert b"limits.memory" in await exchange(proxy.port, post(PATH, STREAM))
            assert proxy.composed is not None
            assert proxy.composed.steps.memory.held == 0

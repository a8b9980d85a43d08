"""N011: no client waits in silence: real sockets, a slow upstream, and a proxy whose 8 s are shorter here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from modegate.scripted.model import ScriptedCall, Turn
from modegate.server.proxy.sending import KEEPALIVE_S
from support.raw_upstream import RawUpstream, chunk, head
from support.running import client, policies_file, running
from support.speech import Speech
from support.speeches import SPEECHES

POLICIES = """
modes:
  plan:
    section: PLAN-SECTION
    tools: [read, grep]
"""
TOOLS = ("read", "grep", "write")
PATHS = {"chat": "chat/completions", "responses": "responses", "messages": "messages"}
SIGNS = {
    "chat": '"delta":{},"finish_reason":null',
    "responses": '"type":"keepalive"',
    "messages": "event: ping",
}
"""What idle timers count in each API."""
READ = ScriptedCall("read", json.dumps({"path": "a" * 400}))
WRITE = ScriptedCall("write", json.dumps({"path": "a" * 400}))
STREAMED = [speech for speech in SPEECHES if speech.streamed]
STREAM = [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")]


def test_a_silence_is_shorter_than_ten_seconds() -> None:
    """Which clients and proxies bear."""
    assert KEEPALIVE_S < 9


def slowly(body: bytes, at: int, go_on: asyncio.Event) -> list[Any]:
    """Return an answer that stops at a place until it may go on."""
    return [head(200, STREAM), chunk(body[:at]), go_on, chunk(body[at:]), chunk(b"")]


async def until(lines: AsyncIterator[str], sign: str) -> list[str]:
    """Read lines until one has the sign, twice."""
    seen: list[str] = []
    while sum(sign in line for line in seen) < 2:
        seen.append(await anext(lines))
    return seen


@pytest.mark.parametrize("mode", ["plan", "default"])
@pytest.mark.parametrize("name", ["allowed", "refused"])
@pytest.mark.parametrize("speech", STREAMED, ids=str)
async def test_n011_while_the_arguments_of_a_held_call_come_slowly(
    tmp_path: Path, speech: Speech, name: str, mode: str
) -> None:
    """In plan, and on the path that restores, where calls are read too; the call then leaves or does not."""
    asked = speech.api.request([speech.api.user("x")], TOOLS, streamed=True)
    raw = json.dumps(asked).encode()
    call = READ if name == "allowed" else WRITE
    body = speech.reply(Turn("I look.", calls=(call,)), raw).body
    end = speech.reply(Turn("Done."), raw).body
    go_on, at_once = asyncio.Event(), asyncio.Event()
    at_once.set()
    policies = policies_file(tmp_path, POLICIES)
    async with (
        RawUpstream() as upstream,
        running(tmp_path, upstream.base_url, policies=policies, keepalive=0.01) as proxy,
        client() as http,
    ):
        upstream.enqueue(slowly(body, body.index(b"aaa") + 50, go_on), slowly(end, 1, at_once))
        await proxy.set_mode("plan")
        if mode == "default":
            await proxy.set_mode("default")
        url = f"{proxy.base()}/{PATHS[speech.name]}"
        async with http.stream("POST", url, json=asked) as answer:
            assert answer.status_code == 200
            lines = answer.aiter_lines()
            first = await until(lines, SIGNS[speech.name])
            assert not any("aaa" in line for line in first)
            go_on.set()
            rest = [line async for line in lines]
    assert any("aaa" in line for line in rest) is (name == "allowed" or mode == "default")
    assert any("Done." in line for line in rest) is (name == "refused" and mode == "plan")


@pytest.mark.parametrize("speech", STREAMED, ids=str)
async def test_n011_while_a_further_hop_has_not_begun(tmp_path: Path, speech: Speech) -> None:
    """The model was told that its call is refused, and thinks about it before a head comes."""
    asked = speech.api.request([speech.api.user("x")], TOOLS, streamed=True)
    raw = json.dumps(asked).encode()
    refused = speech.reply(Turn("I write.", calls=(WRITE,)), raw).body
    end = speech.reply(Turn("Done."), raw).body
    go_on, at_once = asyncio.Event(), asyncio.Event()
    at_once.set()
    policies = policies_file(tmp_path, POLICIES)
    async with (
        RawUpstream() as upstream,
        running(tmp_path, upstream.base_url, policies=policies, keepalive=0.01) as proxy,
        client() as http,
    ):
        upstream.enqueue(slowly(refused, 1, at_once), [go_on, *slowly(end, 1, at_once)])
        await proxy.set_mode("plan")
        url = f"{proxy.base()}/{PATHS[speech.name]}"
        async with http.stream("POST", url, json=asked) as answer:
            lines = answer.aiter_lines()
            await upstream.received(2)
            await until(lines, SIGNS[speech.name])
            go_on.set()
            rest = [line async for line in lines]
    assert any("Done." in line for line in rest)


@pytest.mark.parametrize("speech", STREAMED, ids=str)
async def test_l1_in_default_mode_nothing_is_put_in(tmp_path: Path, speech: Speech) -> None:
    """The upstream's silence is its own, to the byte: what it sends next is what the client gets next."""
    asked = speech.api.request([speech.api.user("x")], TOOLS, streamed=True)
    body = speech.reply(Turn("I look.", calls=(READ,)), json.dumps(asked).encode()).body
    go_on = asyncio.Event()
    policies = policies_file(tmp_path, POLICIES)
    async with (
        RawUpstream() as upstream,
        running(tmp_path, upstream.base_url, policies=policies, keepalive=0.0) as proxy,
        client() as http,
    ):
        upstream.enqueue(slowly(body, 40, go_on))
        url = f"{proxy.base()}/{PATHS[speech.name]}"
        async with http.stream("POST", url, json=asked) as answer:
            pieces = answer.aiter_raw()
            got = await anext(pieces)
            for _ in range(50):
                await asyncio.sleep(0)
            go_on.set()
            async for piece in pieces:
                got += piece
    assert got == body

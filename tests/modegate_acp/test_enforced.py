"""What is set over ACP is enforced on the wire: no client is shown a mode that the gate does not know of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support.acp import Client, Connect, Json, socket, streams
from support.playbook import call, request, stream, text
from support.raw_upstream import Piece, RawUpstream, chunked
from support.running import Running, client, running

WRITE = stream(call("write", '{"path":"S3CRET"}'))
SETTERS: dict[str, Json] = {
    "session/set_mode": {"modeId": "plan"},
    "session/set_config_option": {"configId": "mode", "value": "plan"},
    "session/prompt": {"prompt": [{"type": "text", "text": "/mode plan"}]},
}


@asynccontextmanager
async def writing(folder: Path, *pieces: Piece) -> AsyncIterator[Running]:
    """Run a proxy whose model calls `write`."""
    async with RawUpstream(chunked(*(pieces or (WRITE,)))) as up:
        async with running(folder, up.base_url) as proxy:
            yield proxy


async def step(proxy: Running, session: str) -> bytes:
    body = request("read", "write", stream=True)
    async with client() as http:
        return (await http.post(f"{proxy.base(session)}/chat/completions", json=body)).content


async def left(client: Client, session: str) -> None:
    wish = await client.start("session/set_mode", sessionId=session, modeId="default")
    await client.choose(await client.question(), "confirm")
    await client.answer(wish)


@pytest.mark.parametrize("method", SETTERS)
async def test_b164_a_mode_that_is_set_is_enforced(
    tmp_path: Path, connect: Connect, method: str
) -> None:
    """codex-acp #450, ggcode #1145: an id that is echoed and not enforced."""
    async with writing(tmp_path) as proxy, connect(proxy) as acp:
        session = await acp.new()
        assert await step(proxy, session) == WRITE
        await acp.call(method, sessionId=session, **SETTERS[method])
        assert b"S3CRET" not in await step(proxy, session)


async def test_b168_what_load_shows_is_enforced(tmp_path: Path, connect: Connect) -> None:
    async with writing(tmp_path) as proxy:
        async with connect(proxy) as acp:
            session = await acp.new()
            await acp.set_mode(session, "plan")
        async with connect(proxy) as acp:
            assert (await acp.load(session))["modes"]["currentModeId"] == "plan"
            assert b"S3CRET" not in await step(proxy, session)


async def test_b169_the_next_request_is_judged_in_the_new_mode(
    tmp_path: Path, connect: Connect
) -> None:
    async with writing(tmp_path) as proxy, connect(proxy) as acp:
        session = await acp.new()
        await acp.set_mode(session, "plan")
        assert b"S3CRET" not in await step(proxy, session)
        await left(acp, session)
        assert b"S3CRET" in await step(proxy, session)
        await acp.set_mode(session, "plan")
        assert b"S3CRET" not in await step(proxy, session)


async def test_a_switch_in_mid_turn_reaches_the_gate(tmp_path: Path) -> None:
    """Fx #184: the call is still streaming when the person switches to a mode that forbids it."""
    paused, goes_on = asyncio.Event(), asyncio.Event()
    rest = stream(call("bash", '{"command":"S3CRET"}'))
    async with writing(tmp_path, text("I run."), goes_on, rest) as proxy, socket(proxy) as acp:
        session = await acp.new()
        await acp.set_mode(session, "review")  # allows bash
        async with client() as http, asyncio.TaskGroup() as group:
            got: list[bytes] = []

            async def read() -> None:
                body = request("read", "bash", stream=True)
                url = f"{proxy.base(session)}/chat/completions"
                async with http.stream("POST", url, json=body) as answer:
                    async for piece in answer.aiter_bytes():
                        got.append(piece)
                        paused.set()

            reading = group.create_task(read())
            await paused.wait()
            wish = await acp.start("session/set_mode", sessionId=session, modeId="plan")
            await acp.choose(await acp.question(), "confirm")
            await acp.answer(wish)
            goes_on.set()
            await reading
    assert b"I run." in b"".join(got)
    assert b"S3CRET" not in b"".join(got)


async def test_b163_a_client_that_cannot_be_told_undoes_nothing(tmp_path: Path) -> None:
    """The transition stands though its caller has no stream and goes away; the others are told."""
    async with writing(tmp_path) as proxy, streams(proxy) as acp, socket(proxy) as other:
        session = await acp.new()
        await other.load(session)
        await acp.drop(session)
        await acp.drop(None)
        params = {"sessionId": session, "modeId": "plan"}
        await acp.post({"jsonrpc": "2.0", "id": 9, "method": "session/set_mode", "params": params})
        await acp.http.delete(acp.url, headers=acp.headers)
        await other.update("current_mode_update", currentModeId="plan")
        await other.update("config_option_update")
        assert b"S3CRET" not in await step(proxy, session)


async def test_a_client_that_options_break_gets_none(tmp_path: Path, connect: Connect) -> None:
    """JetBrains 2026.1 (codex-acp PR 179): it follows `modes`."""
    async with writing(tmp_path) as proxy, connect(proxy, begin=False) as acp:
        await acp.initialize("JetBrains.IntelliJ IDEA", "2026.1")
        new = await acp.call("session/new", cwd="/work", mcpServers=[])
        loaded = await acp.load(new["sessionId"])
        await acp.set_mode(new["sessionId"], "plan")
        await acp.update("current_mode_update", currentModeId="plan")
        await acp.settled()
        assert "configOptions" not in new.keys() | loaded.keys()
        assert acp.updates("config_option_update") == []

"""The mode survives kill -9 of the proxy, on both stores; a second process sees it at once."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.playbook import call, request, stream
from support.raw_upstream import RawUpstream, chunked
from support.redis_server import RedisServer
from support.running import Running, client, process

WRITE = stream(call("write", '{"path":"S3CRET"}'))


@pytest.fixture(params=["sqlite", "redis"])
def log_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Yield the URL of a log that outlives the proxy."""
    if request.param == "sqlite":
        yield f"sqlite:{tmp_path / 'log.db'}"
        return
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(Path(folder), "--appendonly", "yes")
        server.start()
        try:
            yield server.url
        finally:
            server.kill()


async def ask(proxy: Running) -> bytes:
    """Send a step of the session."""
    async with client() as http:
        body = request("read", "write", stream=True)
        return (await http.post(f"{proxy.base()}/chat/completions", json=body)).content


async def test_b006_plan_survives_kill_9(tmp_path: Path, log_url: str) -> None:
    """Killed between setting plan and the next request: still plan; and killed again after it."""
    async with RawUpstream(chunked(WRITE)) as up:
        with process(tmp_path, up.base_url, log=log_url) as first:
            assert await ask(first.running) == WRITE
            await first.running.set_mode("plan")
            first.kill()
        for _ in range(2):
            with process(tmp_path, up.base_url, log=log_url) as again:
                assert b"S3CRET" not in await ask(again.running)
                again.kill()
        with process(tmp_path, up.base_url, log=log_url) as last:
            types = [event["type"] for event in await last.running.events()]
            assert types.count("mode/set") == 1
            assert types.count("turn/withheld") == 2
            await last.running.set_mode("default")
            last.kill()
        with process(tmp_path, up.base_url, log=log_url) as left:
            assert await ask(left.running) == WRITE


async def test_b024_two_processes_agree_at_once(tmp_path: Path, log_url: str) -> None:
    """What one process acknowledged is in force for the next request at the other, both ways."""
    async with RawUpstream(chunked(WRITE)) as up:
        with (
            process(tmp_path, up.base_url, log=log_url) as one,
            process(tmp_path, up.base_url, log=log_url) as two,
        ):
            assert await ask(two.running) == WRITE
            for setter, asked in ((one, two), (two, one)):
                await setter.running.set_mode("plan")
                assert b"S3CRET" not in await ask(asked.running)
                last = json.loads(up.requests[-1].body)
                assert "PLAN-SECTION" in last["messages"][0]["content"]
                assert [tool["function"]["name"] for tool in last["tools"]] == ["read"]
                await setter.running.set_mode("default")
                assert await ask(asked.running) == WRITE

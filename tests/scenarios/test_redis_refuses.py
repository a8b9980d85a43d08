"""N024: a Redis that answers but takes nothing: no mode is said to be set, nothing leaks, and it heals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from modegate.scripted.model import Turn
from support.acp import eventually
from support.beginnings import admin
from support.faults import ENDED, TEXT, WRITE, answering, ask, heard
from support.raw_upstream import RawUpstream
from support.redis_server import RedisServer, free_port, redis_server
from support.running import Running, policies_file, running
from support.speech import Speech
from support.speeches import SPEECHES

Commands = tuple[tuple[str | int, ...], tuple[str | int, ...]]

FAULTS: dict[str, Commands] = {
    "a replica of a dead master": (
        ("REPLICAOF", "127.0.0.1", free_port()),
        ("REPLICAOF", "NO", "ONE"),
    ),
    "no memory": (("CONFIG", "SET", "maxmemory", 1), ("CONFIG", "SET", "maxmemory", 0)),
    "too few replicas": (
        ("CONFIG", "SET", "min-replicas-to-write", 1),
        ("CONFIG", "SET", "min-replicas-to-write", 0),
    ),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Run a server for all tests of this file."""
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


async def set_mode(proxy: Running, session: str, mode: str) -> tuple[int, str]:
    """Set a mode, and give the status and the error's code."""
    answer = await proxy.control("PUT", f"/sessions/{session}/mode", json={"mode": mode})
    error = answer.json().get("error") or {}
    return answer.status_code, error.get("code", "")


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_n024_redis_answers_but_refuses_to_write(
    tmp_path: Path, server: RedisServer, fault: Commands, speech: Speech
) -> None:
    breaks, mends = fault
    policies, held, other = policies_file(tmp_path), f"held-{tmp_path.name}", tmp_path.name
    async with RawUpstream() as up:
        up.answer = answering(
            speech, Turn(TEXT, calls=(WRITE,)), ENDED["with its length"], part=False
        )
        async with running(tmp_path, up.base_url, policies=policies, log=server.url) as proxy:
            await proxy.set_mode("plan", held)
            await admin(server, *breaks)
            try:
                for session in (held, other):
                    assert await set_mode(proxy, session, "review") == (503, "log_unavailable")
                sight = await ask(proxy, speech, held)
                assert not sight.leaks
                assert heard(speech, sight).error
            finally:
                await admin(server, *mends)

            async def settable() -> bool:
                return (await set_mode(proxy, other, "plan"))[0] == 200

            # Nobody does anything more: it goes on by itself.
            await eventually(settable)
            for session in (held, other):
                sight = await ask(proxy, speech, session)
                assert (sight.status, sight.leaks) == (200, False)
                assert not heard(speech, sight).error

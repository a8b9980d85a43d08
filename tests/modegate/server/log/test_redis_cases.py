"""Reported faults of programs that keep their state in Redis, tried on the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from modegate.core.errors import AnotherLog, LogUnavailable
from modegate.core.ids import ModeId
from modegate.server.clock import SystemClock
from modegate.server.log import redis_clients
from modegate.server.log.folds import Folds
from modegate.server.log.protocol import Change, Changes
from modegate.server.log.redis import RedisLog
from support.redis_server import RedisServer, redis_server
from support.stores import key_of, mode_set

S = key_of("s")
PLAN = ModeId("plan")
MANY = 50


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_server(tmp_path) as server:
        yield server


@pytest.fixture
async def log(server: RedisServer) -> AsyncIterator[RedisLog]:
    log = RedisLog(server.url)
    yield log
    await log.close()


@pytest.fixture
async def raw(server: RedisServer) -> AsyncIterator[Any]:
    client = Redis.from_url(server.admin_url, protocol=2)
    yield client
    await client.aclose()


async def used(raw: Any) -> dict[str, int]:
    """Return how often each command was carried out."""
    stats = await raw.info("commandstats")
    return {name.removeprefix("cmdstat_"): each["calls"] for name, each in stats.items()}


async def blocked(raw: Any, count: int) -> None:
    """Wait until so many reads wait for the feed."""
    while (await used(raw)).get("xread", 0) < count:  # noqa: ASYNC110 -- the server is asked each time
        await asyncio.sleep(0)


def unavailable(results: list[Any]) -> bool:
    """Return whether everything failed, and for want of the log."""
    return all(isinstance(result, LogUnavailable) for result in results)


async def set_many(folds: Folds) -> list[Any]:
    """Set the mode of many sessions at the same time."""
    setting = (folds.set_mode(key_of(f"s{n}"), PLAN, "person:cli") for n in range(MANY))
    return await asyncio.gather(*setting, return_exceptions=True)


async def test_b142_without_the_replicas_that_are_asked_for_nothing_is_claimed(
    server: RedisServer, log: RedisLog, raw: Any
) -> None:
    """It is the server that counts them, at the write itself: no WAIT on whatever connection comes next."""
    await raw.config_set("min-replicas-to-write", 1)
    assert unavailable(await set_many(Folds(log, SystemClock())))
    await raw.config_set("min-replicas-to-write", 0)
    for n in range(MANY):
        assert await log.read(key_of(f"s{n}")) == []
    assert "wait" not in await used(raw)


async def test_b142_a_server_that_hangs_is_no_success(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is told that it is not known to be durable."""
    monkeypatch.setattr(redis_clients, "ANSWER_TIMEOUT_S", 0.2)
    log = RedisLog(server.url)
    await log.ping()
    server.pause()
    try:
        assert unavailable(await set_many(Folds(log, SystemClock())))
    finally:
        server.resume()
    await log.close()


async def test_b140_a_server_that_has_become_a_replica_takes_nothing(
    log: RedisLog, raw: Any
) -> None:
    """`READONLY` is the log's failure, not a crash; as a master again it goes on."""
    await log.append(S, [mode_set("plan")])
    await raw.replicaof("127.0.0.1", "1")
    with pytest.raises(LogUnavailable):
        await log.append(S, [mode_set("default")])
    await raw.replicaof("NO", "ONE")
    assert [record.seq for record in await log.read(S)] == [1]
    assert await log.append(S, [mode_set("default")]) == 2


async def test_o1_no_list_says_that_there_is_nothing_where_the_log_is_gone(
    log: RedisLog, raw: Any
) -> None:
    """`modegate sessions` and `modegate approvals` said so, while every step was refused."""
    await log.append(S, [mode_set("plan")])
    assert [row.key for row in (await log.sessions(S.tenant)).rows] == [S]
    assert await log.questions(S.tenant, 0) == []
    await raw.flushall()
    with pytest.raises(AnotherLog):
        await log.sessions(S.tenant)
    with pytest.raises(AnotherLog):
        await log.questions(S.tenant, 0)


async def test_b143_followers_of_a_feed_that_is_gone_wait_as_before(
    server: RedisServer, log: RedisLog, raw: Any
) -> None:
    """There are no groups to be lost with it; each is told of a gap, once, and then waits for the next."""
    await log.append(S, [mode_set("plan")])
    position = (await log.changes(None)).position

    async def follow() -> tuple[Changes, Changes]:
        first = await log.changes(position, wait=20)
        return first, await log.changes(first.position, wait=20)

    async with asyncio.TaskGroup() as group:
        following = [group.create_task(follow()) for _ in range(20)]
        await blocked(raw, 20)
        await raw.flushall()
        await raw.config_resetstat()
        await log.append(key_of("t"), [mode_set("plan")])
        await blocked(raw, 20)
        await log.append(key_of("u"), [mode_set("plan")])
    for one in following:
        first, second = one.result()
        assert (first.gap, second.gap) == (True, False)
        assert [change.key for change in second.changes] == [key_of("u")]
        assert isinstance(second.changes[0], Change)
    commands = await used(raw)
    assert "xreadgroup" not in commands
    assert commands["xread"] == 20


async def test_b143_many_sessions_do_not_storm_a_server_that_is_down(
    server: RedisServer, log: RedisLog
) -> None:
    """All steps share one try to connect, and are refused with it."""
    folds = Folds(log, SystemClock())
    await folds.set_mode(S, PLAN, "person:cli")
    server.kill()
    tries = 0

    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal tries
        tries += 1
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", server.port):
        reads = (folds.state(key_of(f"s{n}")) for n in range(200))
        assert unavailable(await asyncio.gather(*reads, return_exceptions=True))
    assert 1 <= tries <= 4

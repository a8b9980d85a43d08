"""What holds for the log in Redis alone: failures of the server, trimming, timeouts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from modegate.core.errors import LogUnavailable, SessionUnreadable
from modegate.core.ids import Seq
from modegate.server.log import redis_clients
from modegate.server.log.protocol import Change
from modegate.server.log.redis import RedisLog
from modegate.server.log.redis_clients import RedisClients
from modegate.server.log.redis_keys import FEED
from support.redis_server import RedisServer, redis_server
from support.stores import key_of, mode_set

S = key_of("s")
EVENTS = "modegate:{local/s}:events"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_server(tmp_path, "--appendonly", "yes", "--appendfsync", "always") as server:
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


async def test_an_event_is_the_entry_of_its_seq(log: RedisLog, raw: Any) -> None:
    await log.append(S, [mode_set("plan"), mode_set("default")])
    assert [id_ for id_, _ in await raw.xrange(EVENTS)] == [b"1-0", b"2-0"]


async def test_an_append_survives_kill_9_of_the_server(server: RedisServer, log: RedisLog) -> None:
    assert await log.append(S, [mode_set("plan")]) == 1
    server.kill()
    server.start()
    assert [record.seq for record in await log.read(S)] == [1]


async def test_a_server_that_is_down_is_reported_and_its_return_is_noticed(
    server: RedisServer, log: RedisLog
) -> None:
    await log.append(S, [mode_set("plan")])
    position = (await log.changes(None)).position
    server.kill()
    for call in (
        log.read(S),
        log.append(S, [mode_set("x")]),
        log.changes(position),
        log.changes(position, wait=5),
        log.was_seen(S),
        log.sessions(S.tenant),
        log.ping(),
    ):
        with pytest.raises(LogUnavailable):
            await call
    server.start()
    await log.ping()
    assert [record.seq for record in await log.read(S)] == [1]
    assert await log.append(S, [mode_set("default")]) == 2


async def test_a_server_that_hangs_is_reported(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_clients, "ANSWER_TIMEOUT_S", 0.2)
    log = RedisLog(server.url)
    await log.ping()
    server.pause()
    try:
        with pytest.raises(LogUnavailable):
            await log.append(S, [mode_set("plan")], expect=Seq(0))
    finally:
        server.resume()
    # It was sent once, so that at most one event is there although the answer was lost.
    assert len(await log.read(S)) <= 1
    await log.close()


async def test_a_cancelled_read_does_not_give_its_answer_to_the_next(
    server: RedisServer, log: RedisLog
) -> None:
    await log.append(S, [mode_set("plan")])
    position = (await log.changes(None)).position
    server.pause()
    reads = [asyncio.ensure_future(log.changes(position)), asyncio.ensure_future(log.read(S))]
    await asyncio.wait(reads, timeout=0.05)
    for read in reads:
        read.cancel()
    await asyncio.wait(reads)
    server.resume()
    assert all(read.cancelled() for read in reads)
    assert not await log.was_seen(key_of("t"))
    assert (await log.changes(None)).position.partition(" ")[2] == position.partition(" ")[2]


async def test_a_cancellation_is_never_lost(log: RedisLog) -> None:
    """Neither in the turn of the loop in which a command has just been sent: the step would live on."""
    await log.append(S, [mode_set("plan")])
    position = (await log.changes(None)).position

    async def step() -> None:
        await log.changes(position)
        await log.read(S)
        await asyncio.Event().wait()

    for turns in range(60):
        task = asyncio.ensure_future(step())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task], timeout=5)
        assert task.cancelled(), turns


async def test_a_reconnect_is_a_gap(server: RedisServer, log: RedisLog, raw: Any) -> None:
    await log.append(S, [mode_set("plan")])
    position = (await log.changes(None)).position
    await raw.client_kill_filter(_type="normal", skipme=True)
    found = await log.changes(position)
    assert (found.changes, found.gap) == ((), True)
    assert not (await log.changes(found.position)).gap


@pytest.mark.parametrize("command", ["XTRIM", "DEL", "FLUSHALL"])
async def test_a_feed_that_lost_the_position_is_a_gap(
    log: RedisLog, raw: Any, command: str
) -> None:
    await log.append(S, [mode_set("plan")])
    position = (await log.changes(None)).position
    await log.append(S, [mode_set("default")])
    arguments = {"XTRIM": (FEED, "MAXLEN", "1"), "DEL": (FEED,), "FLUSHALL": ()}[command]
    await raw.execute_command(command, *arguments)
    found = await log.changes(position)
    assert found.gap
    await log.append(S, [mode_set("plan")])
    after = await log.changes(found.position)
    assert [change.key for change in after.changes] == [S]
    assert not after.gap


async def test_the_feed_is_capped(server: RedisServer, raw: Any) -> None:
    log = RedisLog(server.url, feed_cap=100)
    for _ in range(40):
        await asyncio.gather(*(log.append(key_of(f"s{n}"), [mode_set("plan")]) for n in range(20)))
    # Redis trims whole nodes, of 100 entries by default.
    assert await raw.xlen(FEED) < 250
    await log.close()


async def test_whoever_is_far_behind_gets_a_gap(log: RedisLog, raw: Any) -> None:
    position = (await log.changes(None)).position
    pipe = raw.pipeline()
    for n in range(10_000):
        pipe.xadd(FEED, {"k": "local/s", "s": n})
    await pipe.execute()
    found = await log.changes(position)
    assert (found.changes, found.gap) == ((), True)


async def test_an_append_whose_feed_fails_raises_and_can_be_told_again(
    log: RedisLog, raw: Any
) -> None:
    assert await log.read(S) == []
    await raw.set(FEED, "not a stream")
    with pytest.raises(LogUnavailable):
        await log.append(S, [mode_set("plan")])
    assert len(await log.read(S)) == 1
    await raw.delete(FEED)
    position = (await log.changes(None)).position
    assert await log.append(S, [], expect=Seq(1)) == 1
    assert (await log.changes(position)).changes == (Change(S, Seq(1)),)


@pytest.mark.parametrize("left", [0, 1, 2])
async def test_B135_a_trimmed_beginning_is_noticed(log: RedisLog, raw: Any, left: int) -> None:
    await log.append(S, [mode_set("plan"), mode_set("a"), mode_set("b")])
    await raw.xtrim(EVENTS, maxlen=left, approximate=False)
    with pytest.raises(SessionUnreadable, match="has lost"):
        await log.read(S)
    # What comes later goes on from where the log ended and so heals nothing.
    assert await log.append(S, [mode_set("c")]) == 4
    with pytest.raises(SessionUnreadable, match="has lost"):
        await log.read(S)


async def test_B135_a_trimmed_stream_is_noticed_without_the_index(log: RedisLog, raw: Any) -> None:
    await log.append(S, [mode_set("plan")])
    await raw.zrem("modegate:{local}:ends", "s")
    await raw.xtrim(EVENTS, maxlen=0, approximate=False)
    with pytest.raises(SessionUnreadable, match="has lost events 1 to 1"):
        await log.read(S)


async def test_B135_a_deleted_stream_is_noticed(log: RedisLog, raw: Any) -> None:
    await log.append(S, [mode_set("plan")])
    await raw.delete(EVENTS)
    with pytest.raises(SessionUnreadable, match="has lost events 1 to 1"):
        await log.read(S)


async def test_B135_nothing_trims_a_session(log: RedisLog, raw: Any) -> None:
    for _ in range(20):
        await log.append(S, [mode_set("plan")] * 1_000)
    assert await raw.xlen(EVENTS) == 20_000
    assert len(await log.read(S, Seq(19_500))) == 500


def test_B138_every_blocking_read_ends_before_the_socket_gives_up() -> None:
    clients = RedisClients("redis://127.0.0.1:1/0")
    timeouts = {
        name: getattr(clients, name).connection_pool.connection_kwargs["socket_timeout"]
        for name in ("writer", "reader", "feed", "follow")
    }
    assert timeouts.pop("follow") > redis_clients.BLOCK_S
    assert set(timeouts.values()) == {redis_clients.ANSWER_TIMEOUT_S}


async def test_B138_a_wait_longer_than_one_blocking_read_goes_on(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modegate.server.log.redis.BLOCK_S", 0.01)
    log = RedisLog(server.url)
    position = (await log.changes(None)).position
    assert (await log.changes(position, wait=0.1)).changes == ()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(log.changes(position, wait=20))
        await asyncio.wait([waiting], timeout=0.05)
        group.create_task(log.append(S, [mode_set("plan")]))
    assert waiting.result().changes == (Change(S, Seq(1)),)
    await log.close()


def test_only_reads_are_asked_again() -> None:
    clients = RedisClients("redis://127.0.0.1:1/0")
    retries = {
        name: getattr(clients, name).connection_pool.make_connection().retry.get_retries()
        for name in ("writer", "reader", "feed", "follow")
    }
    assert retries == {"writer": 0, "reader": 1, "feed": 1, "follow": 0}


async def test_bodies_end_by_themselves(log: RedisLog, raw: Any) -> None:
    await log.put_blob(S, "one", b"body", 60_000)
    assert 50_000 < await raw.pttl("modegate:{local/s}:blob:one") <= 60_000


async def test_a_full_server_is_reported_and_appends_nothing(log: RedisLog, raw: Any) -> None:
    await log.append(S, [mode_set("plan")])
    await raw.config_set("maxmemory", 1)
    with pytest.raises(LogUnavailable, match="it is full"):
        await log.append(S, [mode_set("a"), mode_set("b")])
    await raw.config_set("maxmemory", 0)
    assert len(await log.read(S)) == 1


async def test_two_sessions_do_not_share_a_hash_slot(log: RedisLog, raw: Any) -> None:
    # B144: no command names keys of two slots; every key's tag is its session's, tenant's or the feed's.
    await log.append(S, [mode_set("plan")])
    await log.save_checkpoint(S, Seq(1), b"x")
    await log.changes(None)
    tags = {name.partition(b"{")[2].partition(b"}")[0] for name in await raw.keys("*")}
    assert tags == {b"local/s", b"local", b"feed"}

"""Batches: written together, counted when lost, never in a request's way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from modegate.core.errors import LogUnavailable
from modegate.core.ids import LOCAL, Seq, SessionKey
from modegate.core.log.records import Entry
from modegate.server.clock import Clock, SystemClock
from modegate.server.log import batch_writer as module
from modegate.server.log.batch_writer import BATCH, MAX_WAITING, TOUCH_EVERY_S, BatchWriter
from modegate.server.log.folds import Folds
from modegate.server.log.protocol import Seen
from modegate.server.log.sqlite import EmbeddedLog
from support.stores import key_of, mode_set

S = key_of("s")


class Time(SystemClock):
    """A clock that the test sets."""

    now = 1_000.0

    def monotonic(self) -> float:
        return self.now


class CountingLog(EmbeddedLog):
    """An embedded log that counts its calls, and can be told to fail."""

    appends = 0
    touches = 0
    down = False

    def __init__(self, path: Path, clock: Clock) -> None:
        super().__init__(path, clock)
        self.may_touch = asyncio.Event()
        self.may_touch.set()
        self.touching = asyncio.Event()

    async def append(
        self, key: SessionKey, entries: Sequence[Entry], *, expect: Seq | None = None
    ) -> Seq:
        self.appends += 1
        if self.down:
            raise LogUnavailable("down")
        return await super().append(key, entries, expect=expect)

    async def touch(self, seen: Sequence[Seen]) -> None:
        self.touches += len(seen)
        self.touching.set()
        await self.may_touch.wait()
        if self.down:
            raise LogUnavailable("down")
        await super().touch(seen)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
async def log(tmp_path: Path, time: Time) -> AsyncIterator[CountingLog]:
    log = CountingLog(tmp_path / "log.db", time)
    yield log
    await log.close()


@pytest.fixture
def batch_writer(log: CountingLog, time: Time) -> BatchWriter:
    return BatchWriter(Folds(log, time), time)


async def until_appended(log: CountingLog, count: int) -> None:
    position: str | None = "1"  # the feed's own first row
    seen = 0
    while seen < count:
        found = await log.changes(position, wait=10)
        position, seen = found.position, seen + len(found.changes)


async def test_writes_what_came_without_being_asked(
    log: CountingLog, batch_writer: BatchWriter
) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(batch_writer.run())
        batch_writer.record(S, [mode_set("a")])
        batch_writer.record(S, [mode_set("b"), mode_set("c")])
        batch_writer.record(key_of("t"), [mode_set("d")])
        await until_appended(log, 2)
        assert [record.seq for record in await log.read(S)] == [1, 2, 3]
        assert len(await log.read(key_of("t"))) == 1
        batch_writer.record(S, [mode_set("e")])
        batch_writer.stop()
    assert log.appends == 3
    assert len(await log.read(S)) == 4
    assert batch_writer.lost == 0


async def test_a_full_batch_does_not_wait(
    log: CountingLog, batch_writer: BatchWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PERIOD_S", 3_600)
    async with asyncio.TaskGroup() as group:
        group.create_task(batch_writer.run())
        batch_writer.record(S, [mode_set("a")] * BATCH)
        await until_appended(log, 1)
        batch_writer.stop()
    assert log.appends == 1


@pytest.mark.parametrize("how", ["stopped", "cancelled"])
async def test_what_waits_is_written_at_the_end(
    log: CountingLog, batch_writer: BatchWriter, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(module, "PERIOD_S", 3_600)
    running = asyncio.ensure_future(batch_writer.run())
    await asyncio.wait([running], timeout=0)
    batch_writer.record(S, [mode_set("a")])
    batch_writer.touch(Seen(S, "a/1", "path", 5))
    if how == "stopped":
        batch_writer.stop()
    else:
        running.cancel()
    await asyncio.wait([running])
    assert running.cancelled() == (how == "cancelled")
    (row,) = (await log.sessions(LOCAL)).rows
    assert (row.seq, row.agent) == (1, "a/1")


async def test_lost_batches_are_counted_and_reported_once_a_period(
    log: CountingLog, batch_writer: BatchWriter, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    log.down = True
    for _ in range(3):
        batch_writer.record(S, [mode_set("a"), mode_set("b")])
        await batch_writer.flush()
    assert batch_writer.lost == 6
    assert [record.getMessage() for record in caplog.records] == [
        "2 records were not written to the log: down"
    ]
    time.now += module.REPORT_EVERY_S
    batch_writer.record(S, [mode_set("a")])
    await batch_writer.flush()
    assert caplog.records[-1].levelno == logging.WARNING
    assert caplog.records[-1].getMessage() == "5 records were not written to the log: down"
    log.down = False
    batch_writer.record(S, [mode_set("c")])
    await batch_writer.flush()
    assert (batch_writer.lost, len(await log.read(S))) == (7, 1)


async def test_one_failed_session_does_not_stop_the_others(
    log: CountingLog, batch_writer: BatchWriter
) -> None:
    log._file.writer.execute(
        "create trigger no_bad before insert on events when new.key = 'local/bad' "
        "begin select raise(abort, 'no'); end"
    )
    for name in ("a", "bad", "c"):
        batch_writer.record(key_of(name), [mode_set("plan")])
    await batch_writer.flush()
    found = [row.key.session for row in (await log.sessions(LOCAL)).rows]
    assert (sorted(found), batch_writer.lost) == (["a", "c"], 1)


async def test_a_batch_that_was_cut_off_counts_as_lost(
    log: CountingLog, batch_writer: BatchWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way = asyncio.Event()

    async def stuck(*_: object, **__: object) -> None:
        under_way.set()
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(log, "append", stuck)
    batch_writer.record(S, [mode_set("a"), mode_set("b")])
    flushing = asyncio.ensure_future(batch_writer.flush())
    await under_way.wait()
    flushing.cancel()
    await asyncio.wait([flushing])
    assert flushing.cancelled()
    assert batch_writer.lost == 2


async def test_a_flush_waits_for_one_that_is_under_way(
    log: CountingLog, batch_writer: BatchWriter
) -> None:
    """Who asks for it reads the index behind it, also what another took from the queue."""
    log.may_touch.clear()
    batch_writer.touch(Seen(S, "a/1", "path", 5))

    async def listed() -> list[SessionKey]:
        await batch_writer.flush()
        return [row.key for row in (await log.sessions(LOCAL)).rows]

    async with asyncio.TaskGroup() as group:
        group.create_task(batch_writer.flush())
        await log.touching.wait()
        second = group.create_task(listed())
        await asyncio.sleep(0)
        log.may_touch.set()
    assert second.result() == [S]


async def test_the_queue_is_bounded(log: CountingLog, batch_writer: BatchWriter) -> None:
    batch_writer.record(S, [mode_set("a")] * (MAX_WAITING - 1))
    batch_writer.record(S, [mode_set("b")] * 2)
    batch_writer.record(S, [mode_set("c")])
    assert batch_writer.lost == 2
    await batch_writer.flush()
    assert (await log.sessions(LOCAL)).rows[0].seq == MAX_WAITING
    batch_writer.record(S, [mode_set("d")])
    assert batch_writer.lost == 2


async def test_a_row_is_touched_again_only_after_a_while_or_when_it_changed(
    log: CountingLog, batch_writer: BatchWriter, time: Time
) -> None:
    async def touches(how: str, agent: str = "a/1") -> int:
        before = log.touches
        batch_writer.touch(Seen(S, agent, how, 5))
        await batch_writer.flush()
        return log.touches - before

    assert await touches("path") == 1
    assert await touches("path") == 0
    assert await touches("derived") == 1
    assert await touches("derived", "a/2") == 1
    time.now += TOUCH_EVERY_S - 0.1
    assert await touches("derived", "a/2") == 0
    time.now += 0.1
    assert await touches("derived", "a/2") == 1
    log.down = True
    assert await touches("path") == 1
    log.down = False
    assert await touches("path") == 1


async def test_what_was_touched_is_remembered_within_a_bound(
    log: CountingLog, batch_writer: BatchWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_TOUCHED", 2)
    for name in ("a", "b", "c", "c", "b", "a"):
        batch_writer.touch(Seen(key_of(name), "x", "path", 5))
    await batch_writer.flush()
    before = log.touches
    assert before == 3
    # a was forgotten when c came, and b when a came again.
    for name in ("c", "a", "b"):
        batch_writer.touch(Seen(key_of(name), "x", "path", 6))
    await batch_writer.flush()
    assert log.touches - before == 1


async def test_written_records_need_no_read_of_the_log(log: CountingLog, time: Time) -> None:
    folds = Folds(log, time)
    batch_writer = BatchWriter(folds, time)
    await folds.state(S)
    reads = folds.log_reads
    batch_writer.record(S, [mode_set("plan")])
    await batch_writer.flush()
    assert (await folds.state(S)).mode == "plan"
    assert folds.log_reads == reads

"""Batches: written together, counted when lost, never in a request's way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from modegate.core.errors import LogUnavailable
from modegate.core.ids import LOCAL, Seq, SessionKey
from modegate.core.log.events import Entry
from modegate.server.clock import SystemClock
from modegate.server.log import batch_writer as module
from modegate.server.log.batch_writer import BATCH, MAX_WAITING, TOUCH_EVERY_S, Recorder
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

    async def append(
        self, key: SessionKey, entries: Sequence[Entry], *, expect: Seq | None = None
    ) -> Seq:
        self.appends += 1
        if self.down:
            raise LogUnavailable("down")
        return await super().append(key, entries, expect=expect)

    async def touch(self, seen: Sequence[Seen]) -> None:
        self.touches += len(seen)
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
def recorder(log: CountingLog, time: Time) -> Recorder:
    return Recorder(Folds(log, time), time)


async def until_appended(log: CountingLog, count: int) -> None:
    position: str | None = "1"  # the feed's own first row
    seen = 0
    while seen < count:
        found = await log.changes(position, wait=10)
        position, seen = found.position, seen + len(found.changes)


async def test_writes_what_came_without_being_asked(log: CountingLog, recorder: Recorder) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(recorder.run())
        recorder.record(S, [mode_set("a")])
        recorder.record(S, [mode_set("b"), mode_set("c")])
        recorder.record(key_of("t"), [mode_set("d")])
        await until_appended(log, 2)
        assert [record.seq for record in await log.read(S)] == [1, 2, 3]
        assert len(await log.read(key_of("t"))) == 1
        recorder.record(S, [mode_set("e")])
        recorder.stop()
    assert log.appends == 3
    assert len(await log.read(S)) == 4
    assert recorder.lost == 0


async def test_a_full_batch_does_not_wait(
    log: CountingLog, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PERIOD_S", 3_600)
    async with asyncio.TaskGroup() as group:
        group.create_task(recorder.run())
        recorder.record(S, [mode_set("a")] * BATCH)
        await until_appended(log, 1)
        recorder.stop()
    assert log.appends == 1


@pytest.mark.parametrize("how", ["stopped", "cancelled"])
async def test_what_waits_is_written_at_the_end(
    log: CountingLog, recorder: Recorder, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(module, "PERIOD_S", 3_600)
    running = asyncio.ensure_future(recorder.run())
    await asyncio.wait([running], timeout=0)
    recorder.record(S, [mode_set("a")])
    recorder.touch(Seen(S, "a/1", "path", 5))
    if how == "stopped":
        recorder.stop()
    else:
        running.cancel()
    await asyncio.wait([running])
    assert running.cancelled() == (how == "cancelled")
    (row,) = (await log.sessions(LOCAL)).rows
    assert (row.seq, row.agent) == (1, "a/1")


async def test_lost_batches_are_counted_and_reported_once_a_period(
    log: CountingLog, recorder: Recorder, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    log.down = True
    for _ in range(3):
        recorder.record(S, [mode_set("a"), mode_set("b")])
        await recorder.flush()
    assert recorder.lost == 6
    assert [record.getMessage() for record in caplog.records] == [
        "2 records were not written to the log: down"
    ]
    time.now += module.REPORT_EVERY_S
    recorder.record(S, [mode_set("a")])
    await recorder.flush()
    assert caplog.records[-1].levelno == logging.WARNING
    assert caplog.records[-1].getMessage() == "5 records were not written to the log: down"
    log.down = False
    recorder.record(S, [mode_set("c")])
    await recorder.flush()
    assert (recorder.lost, len(await log.read(S))) == (7, 1)


async def test_one_failed_session_does_not_stop_the_others(
    log: CountingLog, recorder: Recorder
) -> None:
    log._writer.execute(
        "create trigger no_bad before insert on events when new.key = 'local/bad' "
        "begin select raise(abort, 'no'); end"
    )
    for name in ("a", "bad", "c"):
        recorder.record(key_of(name), [mode_set("plan")])
    await recorder.flush()
    found = [row.key.session for row in (await log.sessions(LOCAL)).rows]
    assert (sorted(found), recorder.lost) == (["a", "c"], 1)


async def test_a_batch_that_was_cut_off_counts_as_lost(
    log: CountingLog, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way = asyncio.Event()

    async def stuck(*_: object, **__: object) -> None:
        under_way.set()
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(log, "append", stuck)
    recorder.record(S, [mode_set("a"), mode_set("b")])
    flushing = asyncio.ensure_future(recorder.flush())
    await under_way.wait()
    flushing.cancel()
    await asyncio.wait([flushing])
    assert flushing.cancelled()
    assert recorder.lost == 2


async def test_the_queue_is_bounded(log: CountingLog, recorder: Recorder) -> None:
    recorder.record(S, [mode_set("a")] * (MAX_WAITING - 1))
    recorder.record(S, [mode_set("b")] * 2)
    recorder.record(S, [mode_set("c")])
    assert recorder.lost == 2
    await recorder.flush()
    assert (await log.sessions(LOCAL)).rows[0].seq == MAX_WAITING
    recorder.record(S, [mode_set("d")])
    assert recorder.lost == 2


async def test_a_row_is_touched_again_only_after_a_while_or_when_it_changed(
    log: CountingLog, recorder: Recorder, time: Time
) -> None:
    async def touches(how: str, agent: str = "a/1") -> int:
        before = log.touches
        recorder.touch(Seen(S, agent, how, 5))
        await recorder.flush()
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
    log: CountingLog, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_TOUCHED", 2)
    for name in ("a", "b", "c", "c", "b", "a"):
        recorder.touch(Seen(key_of(name), "x", "path", 5))
    await recorder.flush()
    before = log.touches
    assert before == 3
    # a was forgotten when c came, and b when a came again.
    for name in ("c", "a", "b"):
        recorder.touch(Seen(key_of(name), "x", "path", 6))
    await recorder.flush()
    assert log.touches - before == 1


async def test_written_records_need_no_read_of_the_log(log: CountingLog, time: Time) -> None:
    folds = Folds(log, time)
    recorder = Recorder(folds, time)
    await folds.state(S)
    reads = folds.log_reads
    recorder.record(S, [mode_set("plan")])
    await recorder.flush()
    assert (await folds.state(S)).mode == "plan"
    assert folds.log_reads == reads

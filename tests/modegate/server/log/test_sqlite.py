"""What holds for the log in a file alone: its mode, its folder, its loss, its feed's cap."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from modegate.core.errors import LogUnavailable, SessionUnreadable
from modegate.server.clock import SystemClock
from modegate.server.log.sqlite import EmbeddedLog
from modegate.server.log.sqlite_file import connect, create
from support.stores import key_of, mode_set

S = key_of("s")


class Now(SystemClock):
    """A clock that the test sets."""

    ms = 1_000

    def now_ms(self) -> int:
        return self.ms


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "folder" / "log.db"


@pytest.fixture
def clock() -> Now:
    return Now()


@pytest.fixture
async def log(path: Path, clock: Now) -> AsyncIterator[EmbeddedLog]:
    log = EmbeddedLog(path, clock)
    yield log
    await log.close()


@contextmanager
def database(path: Path) -> Iterator[sqlite3.Connection]:
    db = connect(path)
    try:
        yield db
    finally:
        db.close()


def remove(path: Path) -> None:
    path.unlink()


async def test_only_the_owner_can_read_any_of_its_files(log: EmbeddedLog, path: Path) -> None:
    await log.append(S, [mode_set("plan")])
    files = sorted(path.parent.iterdir())
    assert [file.name for file in files] == ["log.db", "log.db-shm", "log.db-wal"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_waits_for_the_disk_at_every_commit(log: EmbeddedLog, path: Path) -> None:
    await log.ping()
    with database(path) as db:
        assert db.execute("pragma journal_mode").fetchone() == ("wal",)
        assert db.execute("pragma synchronous").fetchone() == (2,)


async def test_is_found_again_as_it_was_left(path: Path, clock: Now) -> None:
    for n in range(1, 4):
        log = EmbeddedLog(path, clock)
        assert await log.append(S, [mode_set("plan")]) == n
        await log.close()


def test_many_can_create_it_at_once(path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(create, [path] * 16)) == [None] * 16
    with database(path) as db:
        assert db.execute("select count(*) from feed").fetchone() == (1,)


async def test_the_feed_is_capped_and_a_position_behind_it_is_a_gap(path: Path, clock: Now) -> None:
    log = EmbeddedLog(path, clock, feed_cap=3)
    start = (await log.changes(None)).position
    await log.append(S, [mode_set("plan")])
    recent = (await log.changes(start)).position
    for _ in range(2):
        await log.append(S, [mode_set("plan")])
    assert [change.seq for change in (await log.changes(recent)).changes] == [2, 3]
    behind = await log.changes(start)
    assert (behind.changes, behind.gap) == ((), True)
    assert not (await log.changes(behind.position)).gap
    with database(path) as db:
        assert db.execute("select count(*) from feed").fetchone() == (3,)
    await log.close()


async def test_its_own_process_wakes_whoever_waits(
    log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modegate.server.log.sqlite.POLL_S", 3_600)
    position = (await log.changes(None)).position
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(log.changes(position, wait=20))
        group.create_task(log.append(S, [mode_set("plan")]))
    assert [change.key for change in waiting.result().changes] == [S]


async def test_a_position_ahead_of_the_feed_is_a_gap(log: EmbeddedLog) -> None:
    found = await log.changes("1000")
    assert (found.position, found.gap) == ("1", True)


@pytest.mark.parametrize("which", ["seq = 1", "seq = 2", "seq = 3", "true"])
async def test_B135_lost_events_are_noticed(log: EmbeddedLog, path: Path, which: str) -> None:
    await log.append(S, [mode_set("plan"), mode_set("a"), mode_set("b")])
    with database(path) as db:
        db.execute(f"delete from events where {which}")
    with pytest.raises(SessionUnreadable, match="has lost"):
        await log.read(S)


@pytest.mark.parametrize("how", ["removed", "replaced"])
async def test_a_file_that_is_no_longer_there_is_not_read_on(
    log: EmbeddedLog, path: Path, clock: Now, how: str
) -> None:
    await log.append(S, [mode_set("plan")])
    remove(path)
    if how == "replaced":
        create(path)
    with pytest.raises(LogUnavailable, match="removed or replaced"):
        await log.read(S)
    with pytest.raises(LogUnavailable, match="removed or replaced"):
        await log.append(S, [mode_set("plan")])


def test_a_damaged_file_is_reported(path: Path, clock: Now) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"this is no database, however long it may be" * 100)
    with pytest.raises(LogUnavailable, match="cannot be opened"):
        EmbeddedLog(path, clock)


async def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path, clock: Now) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LogUnavailable, match="cannot be opened"):
        EmbeddedLog(tmp_path / "file" / "log.db", clock)


async def test_the_file_of_a_newer_version_is_left_alone(path: Path, clock: Now) -> None:
    create(path)
    with database(path) as db:
        db.execute("pragma user_version = 99")
    with pytest.raises(LogUnavailable, match="newer modegate"):
        EmbeddedLog(path, clock)


async def test_a_table_that_is_gone_is_reported(log: EmbeddedLog, path: Path) -> None:
    with database(path) as db:
        db.execute("drop table feed")
    with pytest.raises(LogUnavailable, match="cannot be written"):
        await log.append(S, [mode_set("plan")])
    with pytest.raises(LogUnavailable, match="cannot be read"):
        await log.changes(None)
    # The transaction left nothing of the append behind.
    with database(path) as db:
        assert db.execute("select count(*) from events").fetchone() == (0,)


async def test_bodies_end_with_their_time(log: EmbeddedLog, path: Path, clock: Now) -> None:
    await log.put_blob(S, "one", b"body", 500)
    clock.ms += 500
    assert await log.get_blobs(S, ["one"]) == {"one": b"body"}
    clock.ms += 1
    assert await log.get_blobs(S, ["one"]) == {}
    await log.put_blob(S, "two", b"body", 500)
    with database(path) as db:
        assert db.execute("select ref from blobs").fetchall() == [("two",)]


async def test_an_append_that_nobody_waits_for_any_more_is_whole(log: EmbeddedLog) -> None:
    attempts = [asyncio.ensure_future(log.append(S, [mode_set("a")] * 2)) for _ in range(5)]
    await asyncio.wait(attempts, timeout=0)
    attempts[-1].cancel()
    await asyncio.wait(attempts)
    assert len(await log.read(S)) in (8, 10)

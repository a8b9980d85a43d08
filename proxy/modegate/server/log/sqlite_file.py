"""The embedded store's file: schema, connections, transactions, and whether it is the one that was opened."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from modegate.core.errors import AnotherLog, LogUnavailable
from modegate.server.log.common import Failures
from modegate.server.log.trusted_store import TrustedStore

T = TypeVar("T")

SCHEMA_VERSION = 3
BUSY_TIMEOUT_MS = 5_000
"""How long a writer waits for the other processes' writers."""

OPEN_ATTEMPTS = 100
OPEN_PAUSE_S = 0.02

# The feed begins with a row of no session, so that a position always names a row that is there.
_SCHEMA = """
create table if not exists events (
    key text not null, seq integer not null, envelope blob not null,
    primary key (key, seq)
) without rowid;
create table if not exists feed (
    id integer primary key autoincrement, key text not null, seq integer not null
);
insert into feed (key, seq) select '', 0 where not exists (select 1 from feed);
create table if not exists sessions (
    tenant text not null, session text not null, seq integer not null,
    agent text not null, how text not null, at integer not null,
    primary key (tenant, session)
) without rowid;
create index if not exists sessions_by_time on sessions (tenant, at, session);
create table if not exists derived (
    tenant text not null, agent text not null, session text not null,
    primary key (tenant, agent, session)
) without rowid;
create table if not exists questions (
    tenant text not null, id text not null, session text not null, expires integer not null,
    primary key (tenant, id)
) without rowid;
create index if not exists questions_by_end on questions (tenant, expires);
create table if not exists checkpoints (
    key text not null, version integer not null, seq integer not null, state blob not null,
    primary key (key, version)
) without rowid;
create table if not exists blobs (
    key text not null, ref text not null, until integer not null, body blob not null,
    primary key (key, ref)
);
create index if not exists blobs_by_end on blobs (until);
create table if not exists store (
    name text primary key, value
) without rowid;
insert or ignore into store values ('identity', lower(hex(randomblob(8))));
create index if not exists feed_by_key on feed (key);
create index if not exists derived_by_session on derived (tenant, session);
create index if not exists questions_by_session on questions (tenant, session);
"""

_IDENTITY = "select value from store where name = 'identity'"


class SqliteFile:
    """One connection that reads in the event loop's thread, and one that writes in a thread of its own."""

    def __init__(self, path: Path, trusted: TrustedStore) -> None:
        create(path)
        self.trusted = trusted
        self._path = path
        self.reader = connect(path)
        self.writer = connect(path)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="modegate-log")
        self._opened = self._inode()
        self._identity = str(value_of(self.reader, _IDENTITY))
        trusted.meet(value_of(self.reader, "select max(id) from feed") or 0)
        self._failures = Failures()

    def adopt(self) -> str:
        """Trust the file as it is from now on; return its identity.

        Raises:
            AnotherLog: it was removed or replaced, or a setting says which one it must be.
        """
        if self._inode() == self._opened:
            self.trusted.keep(self._identity)
        self._require_file()
        return self._identity

    async def close(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)
        self.trusted.note()
        self.reader.close()
        self.writer.close()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection that reads; what cannot be read within raises `LogUnavailable`."""
        self._require_file()
        try:
            yield self.reader
        except sqlite3.Error as error:
            raise self._failures.error("read", error) from error

    async def write(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """Do a job as one transaction, durably; what cannot be written raises `LogUnavailable`."""
        self._require_file()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self._transact, job)
        except sqlite3.Error as error:
            full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            raise self._failures.error("written", error, full=full) from error

    def _transact(self, job: Callable[[sqlite3.Connection], T]) -> T:
        db = self.writer
        db.execute("begin immediate")
        try:
            result = job(db)
            db.execute("commit")
        except BaseException:
            with suppress(sqlite3.Error):  # a failed commit may have rolled back already
                db.execute("rollback")
            raise
        return result

    def _inode(self) -> tuple[int, int]:
        try:
            found = os.stat(self._path)
        except OSError:
            return (0, 0)
        return (found.st_dev, found.st_ino)

    def _require_file(self) -> None:
        # Other processes would write to the new file while this one kept reading the old.
        if self._inode() != self._opened:
            raise AnotherLog(
                "the event log was removed or replaced while modegate ran; put it back if you can, then "
                "restart modegate"
            )
        if not self.trusted.is_ours(self._identity):
            self.trusted.keep(self._identity)


def value_of(db: sqlite3.Connection, sql: str, *values: Any) -> Any:
    """Return the first column of the first row; None if there is none."""
    row = db.execute(sql, values).fetchone()
    return row[0] if row else None


def create(path: Path) -> None:
    """Make the file, readable by its owner only, with all tables; leave one that is there.

    Raises:
        LogUnavailable: it cannot be made, or a newer modegate has made it.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # SQLite gives its -wal and -shm files the mode of the file itself.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise LogUnavailable(
            f"the event log {path} cannot be opened: {error.strerror}; set MODEGATE_LOG to another place"
        ) from error
    for attempt in range(1, OPEN_ATTEMPTS + 1):
        try:
            return _prepare(path)
        except sqlite3.Error as error:
            # Turning WAL on does not wait for the busy timeout when another process does the same.
            locked = isinstance(error, sqlite3.OperationalError) and "locked" in str(error)
            if not locked or attempt == OPEN_ATTEMPTS:
                raise LogUnavailable(f"the event log {path} cannot be opened: {error}") from error
            time.sleep(OPEN_PAUSE_S)
    return None


def _prepare(path: Path) -> None:
    with closing(connect(path)) as db:
        found: int = db.execute("pragma user_version").fetchone()[0]
        if found > SCHEMA_VERSION:
            raise LogUnavailable(f"the event log {path} was written by a newer modegate")
        if found < SCHEMA_VERSION:
            db.execute("pragma journal_mode = wal").fetchone()
            script = f"begin immediate; {_SCHEMA} pragma user_version = {SCHEMA_VERSION}; commit;"
            db.executescript(script)


def connect(path: Path) -> sqlite3.Connection:
    """Open a connection that commits only when told to and never loses what it committed."""
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    db.execute(f"pragma busy_timeout = {BUSY_TIMEOUT_MS}").fetchone()
    db.execute("pragma synchronous = full")
    return db

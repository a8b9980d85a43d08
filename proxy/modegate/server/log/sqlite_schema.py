"""The embedded store's file: how it is created, opened and checked."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

from modegate.core.errors import LogUnavailable

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
        except sqlite3.OperationalError as error:
            # Turning WAL on does not wait for the busy timeout when another process does the same.
            if "locked" not in str(error) or attempt == OPEN_ATTEMPTS:
                raise LogUnavailable(f"the event log {path} cannot be opened: {error}") from error
            time.sleep(OPEN_PAUSE_S)
        except sqlite3.Error as error:
            raise LogUnavailable(f"the event log {path} cannot be opened: {error}") from error
    return None


def _prepare(path: Path) -> None:
    db = connect(path)
    try:
        found: int = db.execute("pragma user_version").fetchone()[0]
        if found > SCHEMA_VERSION:
            raise LogUnavailable(f"the event log {path} was written by a newer modegate")
        if found < SCHEMA_VERSION:
            db.execute("pragma journal_mode = wal").fetchone()
            script = f"begin immediate; {_SCHEMA} pragma user_version = {SCHEMA_VERSION}; commit;"
            db.executescript(script)
    finally:
        db.close()


def connect(path: Path) -> sqlite3.Connection:
    """Open a connection that commits only when told to and never loses what it committed."""
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    db.execute(f"pragma busy_timeout = {BUSY_TIMEOUT_MS}").fetchone()
    db.execute("pragma synchronous = full")
    return db

"""The event log in one SQLite file: the default, for one machine, durable, for several processes.

Reads take about 3 microseconds and are done in the event loop's thread; a write waits for the disk, so
all writes of a process go through one thread of its own. An append is one transaction: events, index
and feed change together or not at all.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from modegate.core.errors import Conflict
from modegate.core.ids import Seq, SessionId, SessionKey, Tenant
from modegate.core.log.fold import CHECKPOINT_VERSION
from modegate.core.log.records import Entry, Record, decode, encode
from modegate.server.clock import Clock
from modegate.server.log import common
from modegate.server.log import sqlite_index as index
from modegate.server.log.common import ANY_AGENT, FEED_CAP, FEED_PAGE, read_cursor, require_whole
from modegate.server.log.protocol import Change, Changes, Listed, Page, Question, Seen
from modegate.server.log.sqlite_file import SqliteFile, value_of
from modegate.server.log.trusted_store import TrustedStore

POLL_S = 0.05
"""How often a waiting reader looks for what other processes appended; its own process wakes it."""

_PROBE = "insert or replace into store values ('probe', zeroblob(8192))"
_UNPROBE = "delete from store where name = 'probe'"


class EmbeddedLog:
    """`EventLog` in a file."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        *,
        feed_cap: int = FEED_CAP,
        trusted: TrustedStore | None = None,
    ) -> None:
        """Open the file, creating it and its folder; `trusted` says which file is trusted.

        Raises:
            LogUnavailable: that cannot be done.
        """
        self._file = SqliteFile(path, trusted or TrustedStore())
        self._clock = clock
        self._feed_cap = feed_cap
        self._appended = asyncio.Event()

    @property
    def moved(self) -> int:
        return self._file.trusted.moved

    async def append(
        self, key: SessionKey, entries: Sequence[Entry], *, expect: Seq | None = None
    ) -> Seq:
        envelopes = [encode(entry) for entry in entries]

        def job(db: sqlite3.Connection) -> Seq:
            end = Seq(value_of(db, "select max(seq) from events where key = ?", str(key)) or 0)
            if expect is not None and expect != end:
                raise Conflict(f"the log of session {key} ends at {end}, not at {expect}")
            if not entries:
                return end  # the feed was written with the events: nothing to tell again
            rows = [(str(key), end + n, body) for n, body in enumerate(envelopes, 1)]
            db.executemany("insert into events values (?, ?, ?)", rows)
            last = Seq(end + len(rows))
            self._publish(db, key, last)
            index.appended(db, key, last, entries)
            return last

        last = await self._file.write(job)
        self._appended.set()
        self._appended = asyncio.Event()
        return last

    def _publish(self, db: sqlite3.Connection, key: SessionKey, seq: Seq) -> None:
        fed = db.execute("insert into feed (key, seq) values (?, ?)", (str(key), seq)).lastrowid
        db.execute("delete from feed where id <= ?", ((fed or 0) - self._feed_cap,))

    async def read(self, key: SessionKey, after: Seq = Seq(0), limit: int = 1000) -> list[Record]:
        promised = "select seq from sessions where tenant = ? and session = ?"
        page = "select seq, envelope from events where key = ? and seq > ? order by seq limit ?"
        with self._file.reading() as db:
            end = value_of(db, promised, key.tenant, key.session) or 0
            rows = db.execute(page, (str(key), after, limit)).fetchall()
            traces = not (rows or end or after) and index.has_traces(db, key)
            if traces:  # or of an append that came in between, whose events are then there
                rows = db.execute(page, (str(key), after, limit)).fetchall()
        records = [decode(Seq(seq), envelope) for seq, envelope in rows]
        require_whole(key, after, records, limit=limit, promised=end, traces=traces)
        return records

    async def changes(self, position: str | None, *, wait: float = 0.0) -> Changes:
        found = self._changes(position)
        loop = asyncio.get_running_loop()
        until = loop.time() + wait
        while (
            position is not None
            and not (found.changes or found.gap)
            and (left := until - loop.time()) > 0
        ):
            appended = self._appended
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, POLL_S)):
                    await appended.wait()
            found = self._changes(position)
        return found

    def _changes(self, position: str | None) -> Changes:
        with self._file.reading() as db:
            if position is not None:
                sql = "select id, key, seq from feed where id >= ? order by id limit ?"
                rows = db.execute(sql, (int(position), FEED_PAGE)).fetchall()
                # The row of the position itself is the proof that nothing behind it was trimmed.
                if rows and rows[0][0] == int(position) and len(rows) < FEED_PAGE:
                    self._file.trusted.reached(rows[-1][0])
                    found = (Change(SessionKey.parse(key), Seq(seq)) for _, key, seq in rows[1:])
                    return Changes(str(rows[-1][0]), tuple(found))
            end = value_of(db, "select max(id) from feed")
        return Changes(str(end), (), gap=position is not None)

    async def touch(self, seen: Sequence[Seen]) -> None:
        await self._file.write(lambda db: index.touched(db, seen))

    async def was_seen(self, key: SessionKey) -> bool:
        sql = "select 1 from sessions where tenant = ? and session = ?"
        with self._file.reading() as db:
            return value_of(db, sql, key.tenant, key.session) is not None

    async def sessions(self, tenant: Tenant, cursor: str | None = None, limit: int = 50) -> Page:
        at, session = read_cursor(cursor) if cursor else (1 << 62, SessionId(""))
        sql = (
            "select session, seq, agent, how, at from sessions "
            "where tenant = ? and (at, session) < (?, ?) order by at desc, session desc limit ?"
        )
        with self._file.reading() as db:
            found = db.execute(sql, (tenant, at, session, limit + 1)).fetchall()
        rows = [
            Listed(SessionKey(tenant, SessionId(name)), Seq(seq), agent, how, when)
            for name, seq, agent, how, when in found[:limit]
        ]
        return common.page(rows, more=len(found) > limit)

    async def derived_siblings(self, tenant: Tenant, agent: str, since: int) -> list[SessionKey]:
        sql = (
            "select distinct session from derived join sessions using (tenant, session) "
            "where tenant = ? and derived.agent in (?, ?) and seq > 0 and at >= ?"
        )
        with self._file.reading() as db:
            found = db.execute(sql, (tenant, agent, ANY_AGENT, since)).fetchall()
        return [SessionKey(tenant, SessionId(name)) for (name,) in found]

    async def questions(self, tenant: Tenant, after: int, limit: int = 1000) -> list[Question]:
        sql = (
            "select session, id, expires from questions where tenant = ? and expires > ? "
            "order by expires desc limit ?"
        )
        with self._file.reading() as db:
            found = db.execute(sql, (tenant, after, limit)).fetchall()
        return [Question(SessionKey(tenant, SessionId(one)), name, end) for one, name, end in found]

    async def asked_in(self, tenant: Tenant, approval: str) -> SessionKey | None:
        sql = "select session from questions where tenant = ? and id = ?"
        with self._file.reading() as db:
            found = value_of(db, sql, tenant, approval)
        return None if found is None else SessionKey(tenant, SessionId(found))

    async def save_checkpoint(self, key: SessionKey, seq: Seq, checkpoint: bytes) -> None:
        sql = (
            "insert into checkpoints values (?, ?, ?, ?) on conflict do update "
            "set seq = excluded.seq, state = excluded.state where excluded.seq > seq"
        )
        row = (str(key), CHECKPOINT_VERSION, seq, checkpoint)
        await self._file.write(lambda db: db.execute(sql, row))

    async def load_checkpoint(self, key: SessionKey) -> tuple[Seq, bytes] | None:
        sql = "select seq, state from checkpoints where key = ? and version = ?"
        with self._file.reading() as db:
            found = db.execute(sql, (str(key), CHECKPOINT_VERSION)).fetchone()
        return (Seq(found[0]), found[1]) if found else None

    async def put_blob(self, key: SessionKey, ref: str, body: bytes, keep_ms: int) -> None:
        now = self._clock.now_ms()

        def job(db: sqlite3.Connection) -> None:
            db.execute("delete from blobs where until < ?", (now,))
            row = (str(key), ref, now + keep_ms, body)
            db.execute("insert or replace into blobs values (?, ?, ?, ?)", row)

        await self._file.write(job)

    async def get_blobs(self, key: SessionKey, refs: Sequence[str]) -> dict[str, bytes]:
        sql = "select body from blobs where key = ? and ref = ? and until >= ?"
        now = self._clock.now_ms()
        with self._file.reading() as db:
            found = {ref: value_of(db, sql, str(key), ref, now) for ref in refs}
        return {ref: body for ref, body in found.items() if body is not None}

    async def ping(self) -> None:
        # New pages, as an event may need them; on a full disk nothing tells that but to try.
        await self._file.write(lambda db: db.execute(_PROBE))
        await self._file.write(lambda db: db.execute(_UNPROBE))

    async def adopt(self) -> str:
        return self._file.adopt()

    async def warnings(self) -> list[str]:
        return []

    async def close(self) -> None:
        await self._file.close()

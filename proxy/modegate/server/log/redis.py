"""The event log in Redis Streams: for several machines.

Event `seq` N is the entry `N-0` of its session's stream, so the place of an event is checked by Redis
itself. An append goes to the session's stream, then to the index and the feed, then is acknowledged.
Every command names one key, or keys of one hash tag, as a Cluster will want.

No write is sent twice, because a command whose answer was lost may have been carried out. A connection
that the server closed is mostly noticed before anything is sent on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from redis.exceptions import OutOfMemoryError, RedisError

from modegate.core.errors import Conflict
from modegate.core.ids import Seq, SessionId, SessionKey, Tenant
from modegate.core.log.approval_events import ApprovalAsked
from modegate.core.log.events import SessionOpen
from modegate.core.log.records import Entry, Record, decode, encode
from modegate.server.log.common import (
    ANYBODYS,
    DERIVED,
    FEED_CAP,
    FEED_PAGE,
    KEEP_QUESTIONS_MS,
    Failures,
    is_kin_of_all,
    read_cursor,
    require_no_trace,
    require_whole,
    write_cursor,
)
from modegate.server.log.home import Home
from modegate.server.log.protocol import Changes, Listed, Page, Question, Seen
from modegate.server.log.redis_clients import BLOCK_S, RedisClients
from modegate.server.log.redis_keys import (
    APPEND,
    FEED,
    MARK,
    NOBODY,
    PROBE,
    PROBE_MS,
    SAVE_CHECKPOINT,
    STORE,
    Index,
    SessionKeys,
    add_derived,
    marked,
)
from modegate.server.log.redis_trust import RedisTrust, feed_changes, place

_decode_seen = msgspec.json.Decoder(tuple[str, str]).decode


class RedisLog:
    """`EventLog` in Redis 7 or a server that speaks like it."""

    def __init__(self, url: str, *, feed_cap: int = FEED_CAP, home: Home | None = None) -> None:
        """Keep the address; the first call connects. `home` says which store is trusted.

        Raises:
            ValueError: the URL cannot be read.
        """
        self._clients = RedisClients(url)
        self._reader, self._writer = self._clients.reader, self._clients.writer
        self._feed_cap = feed_cap
        self._home = home or Home()
        self._trust = RedisTrust(self._clients, self._home)
        self._failures = Failures()
        self._append = self._writer.register_script(APPEND)
        self._save = self._writer.register_script(SAVE_CHECKPOINT)

    @property
    def moved(self) -> int:
        """How often an operator put another store in its place."""
        return self._home.moved

    async def append(
        self, key: SessionKey, entries: Sequence[Entry], *, expect: Seq | None = None
    ) -> Seq:
        """Append all entries or none, durably; give the last one's seq."""
        envelopes = [encode(entry) for entry in entries]
        with self._reported("written"):
            await self._trust.settle()
            # First, so that no question is in a log and not in the index.
            await self._note_questions(key, entries)
            if is_kin_of_all(key, entries):
                await self._note_unknown(key)
            await self._trust.mark(key.tenant)
            fits, last = await self._append(
                [SessionKeys(key).events], ["" if expect is None else expect, *envelopes]
            )
            if not fits:
                raise Conflict(f"the log of session {key} ends at {last}, not at {expect}")
            if last:
                await self._publish(key, Seq(last), entries)
        return Seq(last)

    async def _note_unknown(self, key: SessionKey) -> None:
        index = Index(key.tenant)
        if await self._writer.exists(SessionKeys(key).events):
            return
        if await self._writer.hget(index.seen, key.session) is None:
            await self._writer.sadd(index.derived(ANYBODYS), key.session)
            await self._writer.zadd(index.ends, {index.derived_mark(ANYBODYS): 0})

    async def _note_questions(self, key: SessionKey, entries: Sequence[Entry]) -> None:
        asked = {e.event.id: e.event.expires for e in entries if isinstance(e.event, ApprovalAsked)}
        if not asked:
            return
        index = Index(key.tenant)
        over = entries[-1].at - KEEP_QUESTIONS_MS
        old = await self._writer.zrangebyscore(index.ask_ends, "-inf", over)
        pipe = self._writer.pipeline(transaction=True)
        if old:
            pipe.zrem(index.ask_ends, *old)
            pipe.hdel(index.questions, *old)
        pipe.zadd(index.ask_ends, asked)
        pipe.hset(index.questions, mapping=dict.fromkeys(asked, key.session))
        await pipe.execute()

    async def _publish(self, key: SessionKey, last: Seq, entries: Sequence[Entry]) -> None:
        index = Index(key.tenant)
        pipe = self._writer.pipeline(transaction=False)
        pipe.zadd(index.ends, {key.session: last}, gt=True)
        if entries:
            pipe.zadd(index.times, {key.session: entries[-1].at}, gt=True)
        for entry in entries:
            if isinstance(entry.event, SessionOpen) and entry.event.derived:
                add_derived(pipe, index, entry.event.agent, key.session)
        fields: dict[Any, Any] = {"k": str(key), "s": last}
        pipe.xadd(FEED, fields, maxlen=self._feed_cap, approximate=True)
        await pipe.execute()

    async def read(self, key: SessionKey, after: Seq = Seq(0), limit: int = 1000) -> list[Record]:
        """Return up to `limit` records after a seq, in order and without a hole."""
        names, index = SessionKeys(key), Index(key.tenant)
        pipe = self._reader.pipeline(transaction=False)
        # What is promised is asked first, so that an append in between cannot look like a loss.
        pipe.exists(names.checkpoint)
        pipe.hget(STORE, marked(key.tenant))
        pipe.zmscore(index.ends, [key.session, MARK])
        pipe.xinfo_stream(names.events)
        pipe.xrange(names.events, min=f"{after + 1}-0", count=limit)
        # And which store it is last: it was the same all the while.
        pipe.hget(STORE, "id")
        with self._reported("read"):
            await self._trust.settle()
            traces, named, ends, info, found, store = await pipe.execute(raise_on_error=False)
            for answer in (named, ends, found, traces, store):
                if isinstance(answer, Exception):
                    raise answer
            await self._trust.require(store, whole=not named or ends[1] is not None)
        end = ends[0]
        if not isinstance(info, Exception):  # an error: there is no such stream
            end = max(end or 0, _seq(info["last-generated-id"]))
        records = [decode(_seq(id_), fields[b"e"]) for id_, fields in found]
        require_whole(key, after, records, limit, int(end or 0))
        require_no_trace(key, bool(traces) and not (found or end or after))
        return records

    async def changes(self, position: str | None, *, wait: float = 0.0) -> Changes:
        """Return what the feed brought after `position` (None: only the feed's present end)."""
        with self._reported("read"):
            found = await self._changes(position)
            loop = asyncio.get_running_loop()
            until = loop.time() + wait
            while (
                position is not None
                and not (found.changes or found.gap)
                and (left := until - loop.time()) > 0.001
            ):
                # Only wakes up; what came is read below, where a gap is noticed.
                _, _, after = found.position.partition(" ")
                milliseconds = int(min(left, BLOCK_S) * 1000)
                await self._clients.follow.xread({FEED: after}, count=1, block=milliseconds)
                found = await self._changes(position)
        return found

    async def _changes(self, position: str | None) -> Changes:
        feed = self._clients.feed
        if position is not None:
            connection, _, last = position.partition(" ")
            rows = await feed.xrange(FEED, min=last, count=FEED_PAGE)
            # The entry of the position itself is the proof that nothing behind it was trimmed, and that
            # this server is no replica that lacks what was read before. The same connection is the
            # proof that it is the same server.
            if (
                rows
                and rows[0][0].decode() == last
                and len(rows) < FEED_PAGE
                and int(connection) == self._clients.feed_connects
            ):
                self._home.reached(place(rows[-1][0]))
                return Changes(self._position(rows[-1][0]), feed_changes(rows[1:]))
            self._home.doubt()
        end = await feed.xrevrange(FEED, count=1)
        # A feed without any entry gets one of no session, so that a position always names one.
        last = end[0][0] if end else await feed.xadd(FEED, {"k": ""})
        return Changes(self._position(last), (), gap=position is not None)

    def _position(self, last: bytes) -> str:
        return f"{self._clients.feed_connects} {last.decode()}"

    async def touch(self, seen: Sequence[Seen]) -> None:
        """Note in the index that these sessions sent requests."""
        pipe = self._writer.pipeline(transaction=False)
        for one in seen:
            index = Index(one.key.tenant)
            pipe.zadd(index.times, {one.key.session: one.at}, gt=True)
            pipe.hset(index.seen, one.key.session, msgspec.json.encode((one.agent, one.how)))
            if one.how == DERIVED:
                add_derived(pipe, index, one.agent, one.key.session)
        with self._reported("written"):
            await pipe.execute()

    async def was_seen(self, key: SessionKey) -> bool:
        """Return whether the index knows the session."""
        index = Index(key.tenant)
        pipe = self._reader.pipeline(transaction=False)
        pipe.zscore(index.times, key.session)
        pipe.hget(STORE, "id")
        with self._reported("read"):
            await self._trust.settle()
            score, store = await pipe.execute()
            await self._trust.require(store, whole=True)
        return score is not None

    async def sessions(self, tenant: Tenant, cursor: str | None = None, limit: int = 50) -> Page:
        """List a tenant's sessions, newest first."""
        index = Index(tenant)
        found: list[tuple[int, str]] = []
        with self._reported("read"):
            async for at, name in self._newest(index, cursor, limit + 1):
                found.append((at, name))
                if len(found) > limit:
                    break
            await self._require_ours()
            names = [name for _, name in found[:limit]]
            if not names:
                return Page((), None)
            seqs = await self._reader.zmscore(index.ends, names)
            seen = await self._reader.hmget(index.seen, names)
        rows = []
        for (at, name), seq, noted in zip(found, seqs, seen, strict=False):
            agent, how = _decode_seen(noted) if noted else ("", "")
            key = SessionKey(tenant, SessionId(name))
            rows.append(Listed(key, Seq(int(seq or 0)), agent, how, at))
        more = len(found) > limit
        return Page(tuple(rows), write_cursor(rows[-1].at, rows[-1].key.session) if more else None)

    async def _require_ours(self) -> None:
        """Check what a list was read from: an empty one of another store would say that there is nothing."""
        await self._trust.settle()
        await self._trust.require(await self._reader.hget(STORE, "id"), whole=True)

    async def _newest(
        self, index: Index, cursor: str | None, count: int
    ) -> AsyncIterator[tuple[int, str]]:
        at, session = read_cursor(cursor) if cursor else (None, SessionId(""))
        skip = 0
        while True:
            # Sessions of the same millisecond come in descending order too.
            rows = await self._reader.zrange(
                index.times,
                "+inf" if at is None else at,
                "-inf",
                desc=True,
                byscore=True,
                offset=skip,
                num=count,
                withscores=True,
            )
            for name, score in rows:
                if at is None or (int(score), name) < (at, session.encode()):
                    yield int(score), name.decode()
            if len(rows) < count:
                return
            skip += count

    async def derived_kin(self, tenant: Tenant, agent: str, since: int) -> list[SessionKey]:
        """Return sessions with events that were derived for this agent and seen or changed since."""
        index = Index(tenant)
        pipe = self._reader.pipeline(transaction=False)
        pipe.hget(STORE, marked(tenant))
        pipe.zmscore(
            index.ends, [MARK, *(index.derived_mark(whose) for whose in (agent, ANYBODYS))]
        )
        for whose in (agent, ANYBODYS):
            pipe.exists(index.derived(whose))
            # The smaller of both sets bounds the work; the score of a plain set's members counts 1.
            pipe.zinter({index.ends: 1, index.derived(whose): 0})
        pipe.hget(STORE, "id")
        with self._reported("read"):
            await self._trust.settle()
            named, marks, there, own, others_there, others, store = await pipe.execute()
            promised = (named, *(mark is not None for mark in marks[1:]))
            found = (marks[0] is not None, there, others_there)
            await self._trust.require(
                store, whole=all(f or not p for p, f in zip(promised, found, strict=True))
            )
            both = list({*own, *others})
            times = await self._reader.zmscore(index.times, both) if both else []
        return [
            SessionKey(tenant, SessionId(name.decode()))
            for name, at in zip(both, times, strict=True)
            if at is not None and at >= since
        ]

    async def questions(self, tenant: Tenant, after: int, limit: int = 1000) -> list[Question]:
        """Return what was asked and expires after a time, the latest to expire first; settled or not."""
        index = Index(tenant)
        with self._reported("read"):
            rows = await self._reader.zrange(
                index.ask_ends, "+inf", f"({after}", desc=True, byscore=True,
                offset=0, num=limit, withscores=True,
            )  # fmt: skip
            await self._require_ours()
            names = [name for name, _ in rows]
            sessions = await self._reader.hmget(index.questions, names) if names else []
        return [
            Question(SessionKey(tenant, SessionId(session.decode())), name.decode(), int(expires))
            for (name, expires), session in zip(rows, sessions, strict=True)
            if session is not None
        ]

    async def asked_in(self, tenant: Tenant, approval: str) -> SessionKey | None:
        """Return the session of a question; None if it was never asked, or expired over a day ago."""
        with self._reported("read"):
            found = await self._reader.hget(Index(tenant).questions, approval)
        return None if found is None else SessionKey(tenant, SessionId(found.decode()))

    async def save_checkpoint(self, key: SessionKey, seq: Seq, checkpoint: bytes) -> None:
        """Keep a folded state; an older one is replaced, a newer one stays."""
        with self._reported("written"):
            await self._save([SessionKeys(key).checkpoint], [seq, checkpoint])

    async def load_checkpoint(self, key: SessionKey) -> tuple[Seq, bytes] | None:
        """Return the newest checkpoint of this `fold.CHECKPOINT_VERSION`."""
        with self._reported("read"):
            found = await self._reader.hmget(SessionKeys(key).checkpoint, ["seq", "state"])
        seq, state = found
        return None if seq is None or state is None else (Seq(int(seq)), state)

    async def put_blob(self, key: SessionKey, ref: str, body: bytes, keep_ms: int) -> None:
        """Store a withheld turn's bodies beside the log, for at least `keep_ms`."""
        with self._reported("written"):
            await self._writer.set(SessionKeys(key).blob + ref, body, px=keep_ms)

    async def get_blobs(self, key: SessionKey, refs: Sequence[str]) -> dict[str, bytes]:
        """Return those bodies that are still there."""
        if not refs:
            return {}
        with self._reported("read"):
            found = await self._reader.mget([SessionKeys(key).blob + ref for ref in refs])
        return {ref: body for ref, body in zip(refs, found, strict=True) if body is not None}

    async def ping(self) -> None:
        """Do nothing if the store is the right one, answers, and takes what is written."""
        with self._reported("written"):
            await self._writer.set(PROBE, b"", px=PROBE_MS)
        await self.read(NOBODY, limit=1)

    async def adopt(self) -> str:
        """Trust the store as it is from now on, what it has lost included; give its identity."""
        with self._reported("written"):
            return await self._trust.adopt()

    async def warnings(self) -> list[str]:
        """Return what an operator should change, where this user may ask: that the server evicts."""
        try:
            info = await self._reader.info("memory")
        except (RedisError, OSError):
            return []  # older users of Redis may not ask; that it cannot be reached is told by `ping`
        policy = info.get("maxmemory_policy", "noeviction")
        if policy == "noeviction":
            return []
        return [
            f"the Redis of the event log has maxmemory-policy {policy}, by which it forgets modes when it is "
            "full: set noeviction"
        ]

    async def close(self) -> None:
        """Close all connections."""
        self._home.note()
        await self._clients.close()

    @contextmanager
    def _reported(self, what: str) -> Iterator[None]:
        """Tell of a failure in our words, and of a cancellation that was lost within.

        redis-py sends by `asyncio.wait_for`, and that of Python 3.11 drops a cancellation which comes in
        the turn in which the sending is done: a step whose client has gone would wait for ever.
        """
        try:
            yield
        except (RedisError, OSError) as error:
            full = isinstance(error, OutOfMemoryError)
            raise self._failures.error(what, error, full=full) from error
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError


def _seq(stream_id: bytes) -> Seq:
    return Seq(int(stream_id.partition(b"-")[0]))

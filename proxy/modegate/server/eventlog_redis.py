"""The event log in Redis Streams: for several machines.

Event `seq` N is the entry `N-0` of its session's stream, so the place of an event is checked by Redis
itself. An append goes to the session's stream, then to the index and the feed, then is acknowledged.
Every command names one key, or keys of one hash tag, as a Cluster will want.

No write is sent twice, because a command whose answer was lost may have been carried out. A connection
that the server closed is mostly noticed before anything is sent on it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import msgspec
from redis.exceptions import RedisError

from modegate.core.errors import Conflict, LogUnavailable
from modegate.core.events import ApprovalAsked, Entry, Record, SessionOpen, decode, encode
from modegate.core.fold import CHECKPOINT_VERSION
from modegate.core.ids import Seq, SessionId, SessionKey, Tenant
from modegate.server.eventlog import Change, Changes, Listed, Page, Question, Seen
from modegate.server.eventlog_rules import (
    DERIVED,
    FEED_CAP,
    FEED_PAGE,
    KEEP_QUESTIONS_MS,
    read_cursor,
    require_whole,
    write_cursor,
)
from modegate.server.redis_clients import BLOCK_S, RedisClients

FEED = "modegate:{feed}"

_APPEND = """
local last = 0
if redis.call('EXISTS', KEYS[1]) == 1 then
  local info = redis.call('XINFO', 'STREAM', KEYS[1])
  for i = 1, #info, 2 do
    -- not the last entry's id: a trimmed stream still knows where it ended
    if info[i] == 'last-generated-id' then last = tonumber(string.match(info[i + 1], '^%d+')) end
  end
end
if ARGV[1] ~= '' and tonumber(ARGV[1]) ~= last then return {0, last} end
for i = 2, #ARGV do
  last = last + 1
  redis.call('XADD', KEYS[1], string.format('%d-0', last), 'e', ARGV[i])
end
return {1, last}
"""

_SAVE_CHECKPOINT = """
local kept = redis.call('HGET', KEYS[1], 'seq')
if not kept or tonumber(kept) < tonumber(ARGV[1]) then
  redis.call('HSET', KEYS[1], 'seq', ARGV[1], 'state', ARGV[2])
end
return 1
"""

_decode_seen = msgspec.json.Decoder(tuple[str, str]).decode


class _Session:
    """The keys of one session, in one hash slot."""

    def __init__(self, key: SessionKey) -> None:
        tag = f"modegate:{{{key}}}"
        self.events = f"{tag}:events"
        self.checkpoint = f"{tag}:checkpoint:{CHECKPOINT_VERSION}"
        self.blob = f"{tag}:blob:"


class _Index:
    """The keys of one tenant's index, in one hash slot."""

    def __init__(self, tenant: Tenant) -> None:
        tag = f"modegate:{{{quote(tenant, safe='')}}}"
        self.times = f"{tag}:times"
        self.ends = f"{tag}:ends"
        self.seen = f"{tag}:seen"
        self.questions = f"{tag}:questions"
        self.ask_ends = f"{tag}:ask-ends"
        self._derived = f"{tag}:derived:"

    def derived(self, agent: str) -> str:
        return self._derived + hashlib.sha256(agent.encode()).hexdigest()[:16]


class RedisLog:
    """`EventLog` in Redis 7 or a server that speaks like it."""

    def __init__(self, url: str, *, feed_cap: int = FEED_CAP) -> None:
        """Keep the address; the first call connects.

        Raises:
            ValueError: the URL cannot be read.
        """
        self._clients = RedisClients(url)
        self._reader, self._writer = self._clients.reader, self._clients.writer
        self._feed_cap = feed_cap
        self._append = self._writer.register_script(_APPEND)
        self._save = self._writer.register_script(_SAVE_CHECKPOINT)

    async def append(
        self, key: SessionKey, entries: Sequence[Entry], *, expect: Seq | None = None
    ) -> Seq:
        """Append all entries or none, durably; give the last one's seq."""
        envelopes = [encode(entry) for entry in entries]
        with _reported("written"):
            # First, so that no question is in a log and not in the index.
            await self._note_questions(key, entries)
            fits, last = await self._append(
                [_Session(key).events], ["" if expect is None else expect, *envelopes]
            )
            if not fits:
                raise Conflict(f"the log of session {key} ends at {last}, not at {expect}")
            if last:
                await self._publish(key, Seq(last), entries)
        return Seq(last)

    async def _note_questions(self, key: SessionKey, entries: Sequence[Entry]) -> None:
        asked = {e.event.id: e.event.expires for e in entries if isinstance(e.event, ApprovalAsked)}
        if not asked:
            return
        index = _Index(key.tenant)
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
        index = _Index(key.tenant)
        pipe = self._writer.pipeline(transaction=False)
        pipe.zadd(index.ends, {key.session: last}, gt=True)
        if entries:
            pipe.zadd(index.times, {key.session: entries[-1].at}, gt=True)
        for entry in entries:
            if isinstance(entry.event, SessionOpen) and entry.event.derived:
                pipe.sadd(index.derived(entry.event.agent), key.session)
        fields: dict[Any, Any] = {"k": str(key), "s": last}
        pipe.xadd(FEED, fields, maxlen=self._feed_cap, approximate=True)
        await pipe.execute()

    async def read(self, key: SessionKey, after: Seq = Seq(0), limit: int = 1000) -> list[Record]:
        """Give up to `limit` records after a seq, in order and without a hole."""
        stream = _Session(key).events
        pipe = self._reader.pipeline(transaction=False)
        # What is promised is asked first, so that an append in between cannot look like a loss.
        pipe.zscore(_Index(key.tenant).ends, key.session)
        pipe.xinfo_stream(stream)
        pipe.xrange(stream, min=f"{after + 1}-0", count=limit)
        with _reported("read"):
            end, info, found = await pipe.execute(raise_on_error=False)
            for answer in (end, found):
                if isinstance(answer, Exception):
                    raise answer
        if not isinstance(info, Exception):  # an error: there is no such stream
            end = max(end or 0, _seq(info["last-generated-id"]))
        records = [decode(_seq(id_), fields[b"e"]) for id_, fields in found]
        require_whole(key, after, records, limit, int(end or 0))
        return records

    async def changes(self, position: str | None, *, wait: float = 0.0) -> Changes:
        """Give what the feed brought after `position` (None: only the feed's present end)."""
        with _reported("read"):
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
                return Changes(self._position(rows[-1][0]), _feed_changes(rows[1:]))
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
            index = _Index(one.key.tenant)
            pipe.zadd(index.times, {one.key.session: one.at}, gt=True)
            pipe.hset(index.seen, one.key.session, msgspec.json.encode((one.agent, one.how)))
            if one.how == DERIVED:
                pipe.sadd(index.derived(one.agent), one.key.session)
        with _reported("written"):
            await pipe.execute()

    async def was_seen(self, key: SessionKey) -> bool:
        """Tell whether the index knows the session."""
        with _reported("read"):
            score = await self._reader.zscore(_Index(key.tenant).times, key.session)
        return score is not None

    async def sessions(self, tenant: Tenant, cursor: str | None = None, limit: int = 50) -> Page:
        """List a tenant's sessions, newest first."""
        index = _Index(tenant)
        found: list[tuple[int, str]] = []
        with _reported("read"):
            async for at, name in self._newest(index, cursor, limit + 1):
                found.append((at, name))
                if len(found) > limit:
                    break
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

    async def _newest(
        self, index: _Index, cursor: str | None, count: int
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
        """Give sessions with events that were derived for this agent and seen or changed since."""
        index = _Index(tenant)
        with _reported("read"):
            # The smaller of both sets bounds the work; the score of a plain set's members counts 1.
            both = await self._reader.zinter({index.ends: 1, index.derived(agent): 0})
            times = await self._reader.zmscore(index.times, both) if both else []
        return [
            SessionKey(tenant, SessionId(name.decode()))
            for name, at in zip(both, times, strict=True)
            if at is not None and at >= since
        ]

    async def questions(self, tenant: Tenant, after: int, limit: int = 1000) -> list[Question]:
        """Give what was asked and expires after a time, the latest to expire first; settled or not."""
        index = _Index(tenant)
        with _reported("read"):
            rows = await self._reader.zrange(
                index.ask_ends, "+inf", f"({after}", desc=True, byscore=True,
                offset=0, num=limit, withscores=True,
            )  # fmt: skip
            names = [name for name, _ in rows]
            sessions = await self._reader.hmget(index.questions, names) if names else []
        return [
            Question(SessionKey(tenant, SessionId(session.decode())), name.decode(), int(expires))
            for (name, expires), session in zip(rows, sessions, strict=True)
            if session is not None
        ]

    async def asked_in(self, tenant: Tenant, approval: str) -> SessionKey | None:
        """Give the session of a question; None if it was never asked, or expired over a day ago."""
        with _reported("read"):
            found = await self._reader.hget(_Index(tenant).questions, approval)
        return None if found is None else SessionKey(tenant, SessionId(found.decode()))

    async def save_checkpoint(self, key: SessionKey, seq: Seq, checkpoint: bytes) -> None:
        """Keep a folded state; an older one is replaced, a newer one stays."""
        with _reported("written"):
            await self._save([_Session(key).checkpoint], [seq, checkpoint])

    async def load_checkpoint(self, key: SessionKey) -> tuple[Seq, bytes] | None:
        """Give the newest checkpoint of this `fold.CHECKPOINT_VERSION`."""
        with _reported("read"):
            found = await self._reader.hmget(_Session(key).checkpoint, ["seq", "state"])
        seq, state = found
        return None if seq is None or state is None else (Seq(int(seq)), state)

    async def put_blob(self, key: SessionKey, ref: str, body: bytes, keep_ms: int) -> None:
        """Store a withheld turn's bodies beside the log, for at least `keep_ms`."""
        with _reported("written"):
            await self._writer.set(_Session(key).blob + ref, body, px=keep_ms)

    async def get_blobs(self, key: SessionKey, refs: Sequence[str]) -> dict[str, bytes]:
        """Give those bodies that are still there."""
        if not refs:
            return {}
        with _reported("read"):
            found = await self._reader.mget([_Session(key).blob + ref for ref in refs])
        return {ref: body for ref, body in zip(refs, found, strict=True) if body is not None}

    async def ping(self) -> None:
        """Do nothing if the store answers."""
        with _reported("reached"):
            await self._writer.ping()

    async def close(self) -> None:
        """Close all connections."""
        await self._clients.close()


@contextmanager
def _reported(what: str) -> Iterator[None]:
    """Tell of a failure in our words, and of a cancellation that was lost within.

    redis-py sends by `asyncio.wait_for`, and that of Python 3.11 drops a cancellation which comes in the turn
    in which the sending is done: a step whose client has gone would wait for its upstream for ever.
    """
    try:
        yield
    except (RedisError, OSError) as error:
        raise LogUnavailable(f"the event log cannot be {what}: {error}") from error
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _seq(stream_id: bytes) -> Seq:
    return Seq(int(stream_id.partition(b"-")[0]))


def _feed_changes(rows: Sequence[tuple[bytes, dict[bytes, bytes]]]) -> tuple[Change, ...]:
    return tuple(
        Change(SessionKey.parse(fields[b"k"].decode()), Seq(int(fields[b"s"])))
        for _, fields in rows
        if fields[b"k"]
    )

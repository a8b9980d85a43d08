"""The tenants' indexes of the event log in Redis: which sessions there are, and which questions.

Each index lies in one hash slot, apart from the logs, and may be lost while they stand (`RedisIdentity`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from redis.exceptions import OutOfMemoryError, RedisError

from modegate.core.ids import Seq, SessionId, SessionKey, Tenant
from modegate.core.log.approval_events import ApprovalAsked
from modegate.core.log.events import SessionOpen
from modegate.core.log.records import Entry
from modegate.server.log import common
from modegate.server.log.protocol import Listed, Page, Question, Seen
from modegate.server.log.redis_clients import RedisClients
from modegate.server.log.redis_identity import RedisIdentity
from modegate.server.log.redis_keys import MARK, STORE, Index, SessionKeys, add_derived, marked
from modegate.server.log.trusted_store import TrustedStore

_decode_seen = msgspec.json.Decoder(tuple[str, str]).decode


class RedisIndex:
    """The methods of `EventLog` that ask the index, and what they live on."""

    def __init__(self, url: str, trusted: TrustedStore) -> None:
        self._clients = RedisClients(url)
        self._reader, self._writer = self._clients.reader, self._clients.writer
        self._trusted = trusted
        self._identity = RedisIdentity(self._clients, trusted)
        self._failures = common.Failures()

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

    async def _before_append(self, key: SessionKey, entries: Sequence[Entry]) -> None:
        """Note what must not be missing once the entries are in the log."""
        # First, so that no question is in a log and not in the index.
        await self._note_questions(key, entries)
        if common.is_sibling_of_all(key, entries):
            await self._note_unknown(key)
        await self._identity.mark(key.tenant)

    async def _note_unknown(self, key: SessionKey) -> None:
        index = Index(key.tenant)
        if await self._writer.exists(SessionKeys(key).events):
            return
        if await self._writer.hget(index.seen, key.session) is None:
            await self._writer.sadd(index.derived(common.ANY_AGENT), key.session)
            await self._writer.zadd(index.ends, {index.derived_mark(common.ANY_AGENT): 0})

    async def _note_questions(self, key: SessionKey, entries: Sequence[Entry]) -> None:
        asked = {e.event.id: e.event.expires for e in entries if isinstance(e.event, ApprovalAsked)}
        if not asked:
            return
        index = Index(key.tenant)
        over = entries[-1].at - common.KEEP_QUESTIONS_MS
        old = await self._writer.zrangebyscore(index.ask_ends, "-inf", over)
        pipe = self._writer.pipeline(transaction=True)
        if old:
            pipe.zrem(index.ask_ends, *old)
            pipe.hdel(index.questions, *old)
        pipe.zadd(index.ask_ends, asked)
        pipe.hset(index.questions, mapping=dict.fromkeys(asked, key.session))
        await pipe.execute()

    @staticmethod
    def _note_append(pipe: Any, key: SessionKey, last: Seq, entries: Sequence[Entry]) -> None:
        """Note where a log ends now, and what the entries say of the session."""
        index = Index(key.tenant)
        pipe.zadd(index.ends, {key.session: last}, gt=True)
        if entries:
            pipe.zadd(index.times, {key.session: entries[-1].at}, gt=True)
        for entry in entries:
            if isinstance(entry.event, SessionOpen) and entry.event.derived:
                add_derived(pipe, index, entry.event.agent, key.session)

    async def touch(self, seen: Sequence[Seen]) -> None:
        with self._reported("written"):
            pipe = self._writer.pipeline(transaction=False)
            for one in seen:
                index = Index(one.key.tenant)
                pipe.zadd(index.times, {one.key.session: one.at}, gt=True)
                pipe.hset(index.seen, one.key.session, msgspec.json.encode((one.agent, one.how)))
                if one.how == common.DERIVED:
                    add_derived(pipe, index, one.agent, one.key.session)
            await pipe.execute()

    async def was_seen(self, key: SessionKey) -> bool:
        with self._reported("read"):
            pipe = self._reader.pipeline(transaction=False)
            pipe.zscore(Index(key.tenant).times, key.session)
            pipe.hget(STORE, "id")
            await self._identity.settle()
            score, store = await pipe.execute()
            await self._identity.require(store, whole=True)
            return score is not None

    async def sessions(self, tenant: Tenant, cursor: str | None = None, limit: int = 50) -> Page:
        with self._reported("read"):
            index = Index(tenant)
            found: list[tuple[int, bytes]] = []
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
                rows.append(Listed(_key(tenant, name), Seq(int(seq or 0)), agent, how, at))
            return common.page(rows, more=len(found) > limit)

    async def _require_ours(self) -> None:
        """Check what a list was read from: an empty one of another store would say that there is nothing."""
        await self._identity.settle()
        await self._identity.require(await self._reader.hget(STORE, "id"), whole=True)

    async def _newest(
        self, index: Index, cursor: str | None, count: int
    ) -> AsyncIterator[tuple[int, bytes]]:
        at, session = common.read_cursor(cursor) if cursor else (None, SessionId(""))
        skip = 0
        while True:
            # Sessions of the same millisecond come in descending order too.
            first = "+inf" if at is None else at
            rows = await self._descending(index.times, first, "-inf", skip, count)
            for name, score in rows:
                if at is None or (int(score), name) < (at, session.encode()):
                    yield int(score), name
            if len(rows) < count:
                return
            skip += count

    async def _descending(
        self, key: str, first: int | str, last: str, skip: int, count: int
    ) -> list[tuple[bytes, float]]:
        """Return members of a sorted set, and their scores."""
        found: list[tuple[bytes, float]] = await self._reader.zrange(
            key, first, last, desc=True, byscore=True, offset=skip, num=count, withscores=True
        )
        return found

    async def derived_siblings(self, tenant: Tenant, agent: str, since: int) -> list[SessionKey]:
        with self._reported("read"):
            index = Index(tenant)
            pipe = self._reader.pipeline(transaction=False)
            pipe.hget(STORE, marked(tenant))
            agents = (agent, common.ANY_AGENT)
            pipe.zmscore(index.ends, [MARK, *(index.derived_mark(whose) for whose in agents)])
            for whose in agents:
                pipe.exists(index.derived(whose))
                # The smaller of both sets bounds the work; the score of a plain set's members counts 1.
                pipe.zinter({index.ends: 1, index.derived(whose): 0})
            pipe.hget(STORE, "id")
            await self._identity.settle()
            named, marks, there, own, others_there, others, store = await pipe.execute()
            promised = (named, *(mark is not None for mark in marks[1:]))
            found = (marks[0] is not None, there, others_there)
            await self._identity.require(
                store, whole=all(f or not p for p, f in zip(promised, found, strict=True))
            )
            both = list({*own, *others})
            times = await self._reader.zmscore(index.times, both) if both else []
            return [
                _key(tenant, name)
                for name, at in zip(both, times, strict=True)
                if at is not None and at >= since
            ]

    async def questions(self, tenant: Tenant, after: int, limit: int = 1000) -> list[Question]:
        with self._reported("read"):
            index = Index(tenant)
            rows = await self._descending(index.ask_ends, "+inf", f"({after}", 0, limit)
            await self._require_ours()
            names = [name for name, _ in rows]
            sessions = await self._reader.hmget(index.questions, names) if names else []
            return [
                Question(_key(tenant, session), name.decode(), int(expires))
                for (name, expires), session in zip(rows, sessions, strict=True)
                if session is not None
            ]

    async def asked_in(self, tenant: Tenant, approval: str) -> SessionKey | None:
        with self._reported("read"):
            found = await self._reader.hget(Index(tenant).questions, approval)
            return None if found is None else _key(tenant, found)


def _key(tenant: Tenant, session: bytes) -> SessionKey:
    return SessionKey(tenant, SessionId(session.decode()))

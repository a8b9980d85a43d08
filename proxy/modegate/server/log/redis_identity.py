"""Which Redis is the log's: each read is checked against its identity and its marks.

Redis may be replaced, emptied or made to evict while modegate runs. So each read of what is not in memory
asks for the marks before what they vouch for, and for the identity after everything else.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence

from modegate.core.errors import AnotherLog
from modegate.core.ids import LOCAL, Seq, SessionKey, Tenant
from modegate.server.log.protocol import Change
from modegate.server.log.redis_clients import RedisClients
from modegate.server.log.redis_keys import CLAIM, FEED, MARK, STORE, Index, instead_of, marked
from modegate.server.log.trusted_store import TrustedStore, another

Row = tuple[bytes, dict[bytes, bytes]]
"""An entry of a stream."""


class RedisIdentity:
    """Holds a server against what is known of the right one; raises redis-py's errors as they come."""

    def __init__(self, clients: RedisClients, trusted: TrustedStore) -> None:
        self._trusted = trusted
        self._reader, self._writer = clients.reader, clients.writer
        self._claim = self._writer.register_script(CLAIM)
        self._settling = asyncio.Lock()
        self._marked: set[Tenant] = set()

    async def settle(self) -> None:
        """Trust the store that is met first, if none is trusted yet; one that has no identity gets one."""
        if self._trusted.met:
            return
        async with self._settling:
            if self._trusted.met:
                return
            self._trusted.meet(await self._end())
            found = await self._writer.hget(STORE, "id")
            try:
                ours = self._trusted.is_ours(found.decode() if found else None)
            except AnotherLog:
                return  # the read itself tells of it
            if not ours:
                if not found:
                    await self._require_unnamed()
                self._trusted.keep((await self._claim([STORE], [secrets.token_hex(8)])).decode())

    async def _require_unnamed(self) -> None:
        """Check that a store without an identity never had one: it is new, or an older version's."""
        last = feed_changes(await self._reader.xrevrange(FEED, count=1))
        named = await self._reader.zscore(Index(LOCAL).ends, MARK)
        whole = all(
            [await self._reader.zscore(Index(c.key.tenant).ends, c.key.session) for c in last]
        )
        if named is not None or not whole:
            raise another("it has lost what it was called")

    async def _end(self) -> int:
        last = await self._reader.xrevrange(FEED, count=1)
        return place(last[0][0]) if last else 0

    async def require(self, identity: bytes | None, *, whole: bool) -> None:
        """Check that what was read is of the store that is trusted, and that nothing of it was lost.

        A store that operators adopted elsewhere in place of the one that is trusted here will do. `identity`
        was read *after* the rest; `whole`: all is there of which the store says that it is.
        """
        found = identity.decode() if identity else None
        try:
            ours = self._trusted.is_ours(found)
        except AnotherLog:
            if found is None or not await self._writer.hget(
                STORE, instead_of(self._trusted.identity)
            ):
                raise
            self._trusted.keep(found)
            ours = True
        if not (ours and whole):
            raise another("it has lost parts of its index")

    async def mark(self, tenant: Tenant) -> None:
        """Mark a tenant's index of ends before there is anything in it, once for all."""
        if tenant in self._marked:
            return
        if not await self._writer.hget(STORE, marked(tenant)):
            await self._writer.zadd(Index(tenant).ends, {MARK: 0})
            await self._writer.hset(STORE, marked(tenant), 1)
        self._marked.add(tenant)

    async def adopt(self) -> str:
        """Trust the store as it is from now on, with all that it has lost; return its identity."""
        before = self._trusted.identity
        wanted = self._trusted.given or secrets.token_hex(8)
        identity: str = (await self._claim([STORE], [wanted])).decode()
        self._trusted.meet(await self._end())
        self._trusted.keep(identity)
        self._marked.clear()
        if before not in (None, identity):
            await self._writer.hset(STORE, instead_of(before), 1)
        index = Index(LOCAL)
        await self._writer.zadd(index.ends, {MARK: 0})
        await self._writer.hset(STORE, marked(LOCAL), 1)
        await self._forget_lost_sets(index)
        return identity

    async def _forget_lost_sets(self, index: Index) -> None:
        for mark in await self._writer.zrangebyscore(index.ends, 0, 0):
            digest = mark.decode().strip()
            if digest and not await self._writer.exists(index.derived_of(digest)):
                await self._writer.zrem(index.ends, mark)


def place(stream_id: bytes) -> int:
    """Return a number that grows with the ids of a stream."""
    milliseconds, _, number = stream_id.partition(b"-")
    return (int(milliseconds) << 20) + min(int(number), (1 << 20) - 1)


def feed_changes(rows: Sequence[Row]) -> tuple[Change, ...]:
    """Read entries of the feed; the one of no session is left out."""
    return tuple(
        Change(SessionKey.parse(fields[b"k"].decode()), Seq(int(fields[b"s"])))
        for _, fields in rows
        if fields[b"k"]
    )

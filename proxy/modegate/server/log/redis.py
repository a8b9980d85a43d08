"""The event log in Redis Streams: for several machines.

Event `seq` N is the entry `N-0` of its session's stream, so the place of an event is checked by Redis
itself. An append goes to the session's stream, then to the index and the feed, then is acknowledged.
Every command names one key, or keys of one hash tag, as a Cluster will want.

No write is sent twice, because a command whose answer was lost may have been carried out. A connection
that the server closed is mostly noticed before anything is sent on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from redis.exceptions import RedisError

from modegate.core.errors import Conflict
from modegate.core.ids import Seq, SessionKey
from modegate.core.log.records import Entry, Record, decode, encode
from modegate.server.log import redis_keys as keys
from modegate.server.log.common import FEED_CAP, FEED_PAGE, require_whole
from modegate.server.log.protocol import Changes
from modegate.server.log.redis_clients import BLOCK_S
from modegate.server.log.redis_identity import feed_changes, place
from modegate.server.log.redis_index import RedisIndex
from modegate.server.log.trusted_store import TrustedStore


class RedisLog(RedisIndex):
    """`EventLog` in Redis 7 or a server that speaks like it; its warning is that the server evicts."""

    def __init__(
        self, url: str, *, feed_cap: int = FEED_CAP, trusted: TrustedStore | None = None
    ) -> None:
        super().__init__(url, trusted or TrustedStore())
        self._feed_cap = feed_cap
        self._append = self._writer.register_script(keys.APPEND)
        self._save = self._writer.register_script(keys.SAVE_CHECKPOINT)

    @property
    def moved(self) -> int:
        return self._trusted.moved

    async def append(
        self, key: SessionKey, entries: Sequence[Entry], *, expect: Seq | None = None
    ) -> Seq:
        envelopes = [encode(entry) for entry in entries]
        with self._reported("written"):
            await self._identity.settle()
            await self._before_append(key, entries)
            fits, last = await self._append(
                [keys.SessionKeys(key).events], ["" if expect is None else expect, *envelopes]
            )
            if not fits:
                raise Conflict(f"the log of session {key} ends at {last}, not at {expect}")
            if last:
                await self._publish(key, Seq(last), entries)
        return Seq(last)

    async def _publish(self, key: SessionKey, last: Seq, entries: Sequence[Entry]) -> None:
        pipe = self._writer.pipeline(transaction=False)
        self._note_append(pipe, key, last, entries)
        fields: dict[Any, Any] = {"k": str(key), "s": last}
        pipe.xadd(keys.FEED, fields, maxlen=self._feed_cap, approximate=True)
        await pipe.execute()

    async def read(self, key: SessionKey, after: Seq = Seq(0), limit: int = 1000) -> list[Record]:
        names, index = keys.SessionKeys(key), keys.Index(key.tenant)
        pipe = self._reader.pipeline(transaction=False)
        # What is promised is asked first, so that an append in between cannot look like a loss.
        pipe.exists(names.checkpoint)
        pipe.hget(keys.STORE, keys.marked(key.tenant))
        pipe.zmscore(index.ends, [key.session, keys.MARK])
        pipe.xinfo_stream(names.events)
        pipe.xrange(names.events, min=f"{after + 1}-0", count=limit)
        # And which store it is last: it was the same all the while.
        pipe.hget(keys.STORE, "id")
        with self._reported("read"):
            await self._identity.settle()
            traces, named, ends, info, found, store = await pipe.execute(raise_on_error=False)
            for answer in (named, ends, found, traces, store):
                if isinstance(answer, Exception):
                    raise answer
            await self._identity.require(store, whole=not named or ends[1] is not None)
        end = ends[0]
        if not isinstance(info, Exception):  # an error: there is no such stream
            end = max(end or 0, _seq(info["last-generated-id"]))
        records = [decode(_seq(id_), fields[b"e"]) for id_, fields in found]
        require_whole(key, after, records, limit=limit, promised=int(end or 0), traces=bool(traces))
        return records

    async def changes(self, position: str | None, *, wait: float = 0.0) -> Changes:
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
                await self._clients.follow.xread({keys.FEED: after}, count=1, block=milliseconds)
                found = await self._changes(position)
        return found

    async def _changes(self, position: str | None) -> Changes:
        feed = self._clients.feed
        if position is not None:
            connection, _, last = position.partition(" ")
            rows = await feed.xrange(keys.FEED, min=last, count=FEED_PAGE)
            # The entry of the position itself is the proof that nothing behind it was trimmed, and that
            # this server is no replica that lacks what was read before. The same connection is the
            # proof that it is the same server.
            if (
                rows
                and rows[0][0].decode() == last
                and len(rows) < FEED_PAGE
                and int(connection) == self._clients.feed_connects
            ):
                self._trusted.reached(place(rows[-1][0]))
                return Changes(self._position(rows[-1][0]), feed_changes(rows[1:]))
            self._trusted.doubt()
        end = await feed.xrevrange(keys.FEED, count=1)
        # A feed without any entry gets one of no session, so that a position always names one.
        last = end[0][0] if end else await feed.xadd(keys.FEED, {"k": ""})
        return Changes(self._position(last), (), gap=position is not None)

    def _position(self, last: bytes) -> str:
        return f"{self._clients.feed_connects} {last.decode()}"

    async def save_checkpoint(self, key: SessionKey, seq: Seq, checkpoint: bytes) -> None:
        with self._reported("written"):
            await self._save([keys.SessionKeys(key).checkpoint], [seq, checkpoint])

    async def load_checkpoint(self, key: SessionKey) -> tuple[Seq, bytes] | None:
        with self._reported("read"):
            found = await self._reader.hmget(keys.SessionKeys(key).checkpoint, ["seq", "state"])
        seq, state = found
        return None if seq is None or state is None else (Seq(int(seq)), state)

    async def put_blob(self, key: SessionKey, ref: str, body: bytes, keep_ms: int) -> None:
        with self._reported("written"):
            await self._writer.set(keys.SessionKeys(key).blob + ref, body, px=keep_ms)

    async def get_blobs(self, key: SessionKey, refs: Sequence[str]) -> dict[str, bytes]:
        if not refs:
            return {}
        with self._reported("read"):
            found = await self._reader.mget([keys.SessionKeys(key).blob + ref for ref in refs])
        return {ref: body for ref, body in zip(refs, found, strict=True) if body is not None}

    async def ping(self) -> None:
        with self._reported("written"):
            await self._writer.set(keys.PROBE, b"", px=keys.PROBE_MS)
        await self.read(keys.NOBODY, limit=1)

    async def adopt(self) -> str:
        with self._reported("written"):
            return await self._identity.adopt()

    async def warnings(self) -> list[str]:
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
        self._trusted.note()
        await self._clients.close()


def _seq(stream_id: bytes) -> Seq:
    return Seq(int(stream_id.partition(b"-")[0]))

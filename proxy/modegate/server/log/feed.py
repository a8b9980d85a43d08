"""Two ways to read the feed: strictly, in one read for all who ask at a time; or following it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from modegate.core.errors import LogUnavailable
from modegate.core.ids import SessionKey
from modegate.server.log.protocol import Changes, EventLog

logger = logging.getLogger(__name__)

FOLLOW_S = 1.0
"""How long a follower waits for a change, so that it notices a shutdown or an expiry soon."""

AGAIN_S = 0.2
"""How long a follower waits before it asks a log again that did not answer."""


class SharedFeed:
    """Reads the feed for many callers; each of them sees what was acknowledged before it asked.

    One read is in flight at a time. Whoever asks meanwhile shares the next one. `take` gets what each read
    brings, before anybody goes on.
    """

    def __init__(self, log: EventLog, take: Callable[[Changes], None]) -> None:
        self.reads = 0
        self._log = log
        self._take = take
        self._position: str | None = None
        self._reading = asyncio.Lock()
        self._ended = 0
        self._failure: LogUnavailable | None = None

    def restart(self) -> None:
        """Begin again at the feed's end, as if nothing had been read."""
        self._position = None

    async def read(self) -> None:
        """Read the feed, or share a read that begins after this call.

        Raises:
            LogUnavailable: it cannot be read; all who share the read are told so.
        """
        # `_ended` reads are over and the next may be in flight. That one began before this call, which
        # therefore needs the one after it.
        wanted = self._ended + (2 if self._reading.locked() else 1)
        async with self._reading:
            if self._ended >= wanted:
                if self._failure:
                    raise LogUnavailable(str(self._failure)) from self._failure
                return
            self.reads += 1
            try:
                found = await self._log.changes(self._position)
            except LogUnavailable as error:
                self._ended, self._failure = self._ended + 1, error
                raise
            self._position = found.position
            self._take(found)
            self._ended, self._failure = self._ended + 1, None


@dataclass(frozen=True, slots=True)
class Changed:
    """Which sessions may have changed since the feed was last asked."""

    keys: frozenset[SessionKey]
    every: bool
    """Every session may have: the follower has just begun, or the feed has a gap."""

    def __contains__(self, key: SessionKey) -> bool:
        return self.every or key in self.keys


class FeedFollower:
    """Yields which sessions may have changed, as soon as one has, and without any after `FOLLOW_S`.

    First it says that every session may have: whoever reads states after that misses nothing. If the log
    fails, the next call goes on from the same position.
    """

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._position: str | None = None
        self._failed = False

    def __aiter__(self) -> FeedFollower:
        return self

    async def __anext__(self) -> Changed:
        begins = self._position is None
        found = await self._log.changes(self._position, wait=0.0 if begins else FOLLOW_S)
        self._position = found.position
        self._failed = False
        keys = frozenset(change.key for change in found.changes)
        return Changed(keys, every=begins or found.gap)

    def restart(self) -> None:
        """Begin again at the feed's end; the next call says that any session may have changed."""
        self._position = None

    async def pause(self, error: LogUnavailable, consequence: str) -> None:
        """Wait until a log that failed is worth asking again; log the first failure of several."""
        if not self._failed:
            logger.warning("%s: %s", consequence, error)
        self._failed = True
        await asyncio.sleep(AGAIN_S)

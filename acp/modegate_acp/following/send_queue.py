"""Messages of one connection on their way out, over one stream or several.

Answers and what a client caused itself wait here in order. What the log brings does not: a session is only
marked, and rendered when its stream can take a message, so that a slow client gets the newest state.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from modegate.core.ids import SessionId
from modegate_acp.following.catch_up import Out

MAX_WAITING = 1_024
"""Messages that wait for a client that reads nothing; then its connection is closed and it attaches anew."""


@dataclass(slots=True, eq=False)
class StreamQueue:
    """One stream's messages."""

    queue: deque[tuple[SessionId | None, Out]] = field(default_factory=deque)
    stale: dict[SessionId, None] = field(default_factory=dict)
    """Sessions of which there is news."""
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    reader: object = None
    """Who takes the messages now; an earlier reader gets none any more."""
    was_read: bool = False
    """Somebody has taken messages, of which some may be lost."""


class Outbox:
    """All lanes of one connection: the connection's own, and one for each session if they are split."""

    def __init__(self, refresh: Callable[[SessionId], None], *, split: bool) -> None:
        """Call `refresh` to have a session's news put, when there is room for them."""
        self.main = StreamQueue()
        self._refresh = refresh
        self._split = split
        self._lanes: dict[SessionId, StreamQueue] = {}
        self._waiting = 0
        self.ended = asyncio.Event()
        self.overflowed = False

    @property
    def closed(self) -> bool:
        """Whether nothing more goes out."""
        return self.ended.is_set()

    def open(self, session: SessionId) -> StreamQueue:
        """Give a session a lane of its own, if lanes are split."""
        return self._lanes.setdefault(session, StreamQueue()) if self._split else self.main

    def release(self, session: SessionId) -> None:
        """Give up a session's lane unless somebody reads it; what waits in it goes the common way."""
        lane = self._lanes.get(session)
        if lane is not None and lane.reader is None:
            del self._lanes[session]
            self.main.queue.extend(lane.queue)
            self.main.stale.update(lane.stale)
            self.main.wake.set()

    def lane(self, session: SessionId | None) -> StreamQueue:
        """Return the lane on which a message about this session goes."""
        return self.main if session is None else self._lanes.get(session, self.main)

    def put(self, session: SessionId | None, out: Out) -> None:
        """Let a message wait for its turn; one too many closes the outbox."""
        if self.closed:
            return
        if self._waiting >= MAX_WAITING:
            self.overflowed = True
            self.close()
            return
        lane = self.lane(session)
        lane.queue.append((session, out))
        self._waiting += 1
        lane.wake.set()

    def mark(self, session: SessionId) -> None:
        """Note that there is news of a session."""
        lane = self.lane(session)
        lane.stale[session] = None
        lane.wake.set()

    def hold(self, lane: StreamQueue, reader: object) -> bool:
        """Let a reader have a lane's messages from now on; tell whether another one had some before."""
        lane.reader = reader
        lane.wake.set()
        before, lane.was_read = lane.was_read, True
        return before

    async def take(self, lane: StreamQueue, reader: object) -> tuple[SessionId | None, Out] | None:
        """Return the next message; None when the outbox is closed or another reader has taken over."""
        while not self.closed and lane.reader is reader:
            if lane.queue:
                self._waiting -= 1
                return lane.queue.popleft()
            if lane.stale:
                self._refresh(lane.stale.popitem()[0])
                continue
            lane.wake.clear()
            await lane.wake.wait()
        return None

    def close(self) -> None:
        """Send nothing more."""
        self.ended.set()
        for lane in (self.main, *self._lanes.values()):
            lane.wake.set()

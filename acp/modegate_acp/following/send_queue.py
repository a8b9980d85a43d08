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
from modegate_acp.following.catch_up import Outgoing

MAX_WAITING = 1_024
"""Messages that wait for a client that reads nothing; then its connection is closed and it attaches anew."""


@dataclass(slots=True, eq=False)
class StreamQueue:
    queue: deque[tuple[SessionId | None, Outgoing]] = field(default_factory=deque)
    stale: dict[SessionId, None] = field(default_factory=dict)
    """Sessions of which something is to be told."""
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    reader: object = None
    """Who takes the messages now; an earlier reader gets none any more."""
    was_read: bool = False
    """Somebody has taken messages, of which some may be lost."""


class SendQueue:
    """The streams of one connection: its own, and one for each session if they are split."""

    def __init__(self, refresh: Callable[[SessionId], None], *, split: bool) -> None:
        """Call `refresh` to have what is new of a session put, when there is room for it."""
        self.main = StreamQueue()
        self._refresh = refresh
        self._split = split
        self._streams: dict[SessionId, StreamQueue] = {}
        self._waiting = 0
        self.ended = asyncio.Event()
        self.overflowed = False

    @property
    def closed(self) -> bool:
        return self.ended.is_set()

    def open(self, session: SessionId) -> StreamQueue:
        return self._streams.setdefault(session, StreamQueue()) if self._split else self.main

    def release(self, session: SessionId) -> None:
        """Give up a session's stream unless somebody reads it; what waits in it goes the common way."""
        stream = self._streams.get(session)
        if stream is not None and stream.reader is None:
            del self._streams[session]
            self.main.queue.extend(stream.queue)
            self.main.stale.update(stream.stale)
            self.main.wake.set()

    def stream(self, session: SessionId | None) -> StreamQueue:
        return self.main if session is None else self._streams.get(session, self.main)

    def put(self, session: SessionId | None, out: Outgoing) -> None:
        """Let a message wait for its turn; one too many closes the queue."""
        if self.closed:
            return
        if self._waiting >= MAX_WAITING:
            self.overflowed = True
            self.close()
            return
        stream = self.stream(session)
        stream.queue.append((session, out))
        self._waiting += 1
        stream.wake.set()

    def mark(self, session: SessionId) -> None:
        stream = self.stream(session)
        stream.stale[session] = None
        stream.wake.set()

    def hold(self, stream: StreamQueue, reader: object) -> bool:
        """Let a reader have a stream's messages from now on; return whether another one had some before."""
        stream.reader = reader
        stream.wake.set()
        before, stream.was_read = stream.was_read, True
        return before

    async def take(
        self, stream: StreamQueue, reader: object
    ) -> tuple[SessionId | None, Outgoing] | None:
        """Return the next message; None when the queue is closed or another reader has taken over."""
        while not self.closed and stream.reader is reader:
            if stream.queue:
                self._waiting -= 1
                return stream.queue.popleft()
            if stream.stale:
                self._refresh(stream.stale.popitem()[0])
                continue
            stream.wake.clear()
            await stream.wake.wait()
        return None

    def close(self) -> None:
        self.ended.set()
        for stream in (self.main, *self._streams.values()):
            stream.wake.set()

"""Prompts of one connection that wait until what is open has been put to its person and is over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from modegate.core.ids import SessionId


class Prompts:
    """Which sessions have one; all on the event loop."""

    def __init__(self) -> None:
        """Begin without any."""
        self._waiting: dict[SessionId, set[asyncio.Event]] = {}

    def __contains__(self, session: SessionId) -> bool:
        """Return whether a session has one."""
        return session in self._waiting

    @contextmanager
    def one(self, session: SessionId) -> Iterator[asyncio.Event]:
        """Have one run; its event is set whenever something of the session's questions has changed."""
        moved = asyncio.Event()
        waiting = self._waiting.setdefault(session, set())
        waiting.add(moved)
        try:
            yield moved
        finally:
            waiting.discard(moved)
            if not waiting:
                del self._waiting[session]

    def moved(self, session: SessionId) -> None:
        """Have a session's prompts look again whether they still wait for something."""
        for moved in self._waiting.get(session, ()):
            moved.set()

"""The prompts of one connection that wait until their person has been asked what is open."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from modegate.core.ids import SessionId


class RunningPrompts:
    """Which sessions have one; all on the event loop."""

    def __init__(self) -> None:
        """Begin without any."""
        self._waiting: dict[SessionId, set[asyncio.Event]] = {}

    def __contains__(self, session: SessionId) -> bool:
        """Return whether a session has one."""
        return session in self._waiting

    @contextmanager
    def running(self, session: SessionId) -> Iterator[asyncio.Event]:
        """Have one run. Its event is set whenever something of the session's questions has changed."""
        wake = asyncio.Event()
        waiting = self._waiting.setdefault(session, set())
        waiting.add(wake)
        try:
            yield wake
        finally:
            waiting.discard(wake)
            if not waiting:
                del self._waiting[session]

    def wake(self, session: SessionId) -> None:
        """Have a session's prompts look again whether they still wait for something."""
        for wake in self._waiting.get(session, ()):
            wake.set()

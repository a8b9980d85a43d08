"""What waits for news of a session: steps whose answers pass unread (L8), and questions to a person.

A step in the default mode reads the log once, when its request is there, and then passes what comes. When
the log of its session or of one that holds it changes, the step is marked: at once by whoever appends in this
process, by the feed for what others append. A marked step reads strictly before it passes anything more. A
step that waits for a person's answer is woken in the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from modegate.core.errors import LogUnavailable
from modegate.core.ids import SessionKey
from modegate.core.policy.in_force import ModesInForce
from modegate.server.log.feed import FeedFollower
from modegate.server.log.protocol import EventLog
from modegate.server.policies import Policies
from modegate.server.proxy.sessions import Sessions


@dataclass(slots=True, eq=False)
class Mark:
    """What one step is told of."""

    changed: bool = False
    """Whether the log of one of its sessions has changed since the step read it."""
    keys: set[SessionKey] = field(default_factory=set)
    woken: asyncio.Event | None = None
    """Set with `changed`, for a step that waits for it."""

    def change(self) -> None:
        self.changed = True
        if self.woken is not None:
            self.woken.set()


class SessionWatch:
    """Reads strictly what one step's session stands under now; refers to nothing of the step."""

    def __init__(
        self, watchers: Watchers, sessions: Sessions, policies: Policies, key: SessionKey
    ) -> None:
        self._watchers = watchers
        self._sessions = sessions
        self._policies = policies
        self._key = key
        self.mark = Mark()

    async def read(self) -> ModesInForce:
        """Return what the session stands under; from here on the sessions that hold it are watched too."""
        while True:
            self.mark.changed = False
            in_force = await self._sessions.stand(self._key, self._policies.current)
            if not self.watch_parents(in_force):
                return in_force

    def watch_parents(self, in_force: ModesInForce) -> bool:
        """Watch the sessions that hold this one; return whether one is new, and all must be read again."""
        keys = (SessionKey(self._key.tenant, one) for one in in_force.sessions)
        return self._watchers.add(self.mark, keys)

    async def tightened(self) -> ModesInForce | None:
        """Return what the session stands under if a person has set a mode; free unless the log changed."""
        if not self.mark.changed:
            return None
        now = await self.read()
        return now if now.gated else None


class Watchers:
    """All who wait for news of sessions; one instance a process."""

    def __init__(self, log: EventLog) -> None:
        self._feed = FeedFollower(log)
        self._marks: dict[SessionKey, set[Mark]] = {}
        self._some = asyncio.Event()

    @contextmanager
    def watch(
        self, sessions: Sessions, policies: Policies, key: SessionKey
    ) -> Iterator[SessionWatch]:
        """Watch a session during a step. Begin before its log is read: nothing may fall between."""
        watch = SessionWatch(self, sessions, policies, key)
        with self._marking(watch.mark, key):
            yield watch

    @contextmanager
    def wake(self, key: SessionKey) -> Iterator[asyncio.Event]:
        """Yield an event that is set whenever a session's log may have changed; clear it before reading."""
        woken = asyncio.Event()
        with self._marking(Mark(woken=woken), key):
            yield woken

    @contextmanager
    def _marking(self, mark: Mark, key: SessionKey) -> Iterator[None]:
        self.add(mark, (key,))
        try:
            yield
        finally:
            for one in mark.keys:
                self._marks[one].discard(mark)
                if not self._marks[one]:
                    del self._marks[one]
            if not self._marks:
                self._some.clear()

    def wake_all(self) -> None:
        """Wake everybody who waits, though no log has changed: the process is about to end."""
        for marks in self._marks.values():
            for mark in marks:
                if mark.woken is not None:
                    mark.woken.set()

    def add(self, mark: Mark, keys: Iterable[SessionKey]) -> bool:
        """Watch further sessions for a mark; return whether one of them is new to it."""
        new = set(keys) - mark.keys
        for key in new:
            self._marks.setdefault(key, set()).add(mark)
        mark.keys |= new
        if new:
            self._some.set()
        return bool(new)

    def changed(self, key: SessionKey) -> None:
        """Mark whoever watches a session: its log has changed, or nobody knows whether it has."""
        for mark in self._marks.get(key, ()):
            mark.change()

    async def run(self) -> None:
        """Follow the feed, but not while nobody waits."""
        while True:
            await self._some.wait()
            try:
                changed = await anext(self._feed)
            except LogUnavailable as error:
                # A change that cannot be read here was acknowledged to nobody, unless by another process.
                await self._feed.pause(error, "answers under way are not told of changes of modes")
            else:
                for key in self._marks if changed.every else changed.keys:
                    self.changed(key)

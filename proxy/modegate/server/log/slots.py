"""The states that a process keeps in memory, and where the logs end of sessions that it no longer keeps."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field

from modegate.core.errors import SessionUnreadable
from modegate.core.ids import Seq, SessionKey
from modegate.core.log.fold import State


@dataclass(slots=True)
class Slot:
    """One session in memory."""

    state: State | None = None
    end: Seq = Seq(0)
    """Where the log ends, as far as the feed has told."""
    saved: Seq = Seq(0)
    """Where the last checkpoint stands."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def current(self) -> State | None:
        """Return the state if it holds all that the feed has told of."""
        return self.state if self.state and self.state.seq >= self.end else None


class Slots:
    """The sessions in memory; the one that was used least recently goes when there are too many."""

    def __init__(self, max_sessions: int) -> None:
        self._max = max_sessions
        self._slots: OrderedDict[SessionKey, Slot] = OrderedDict()
        self._ends: OrderedDict[SessionKey, Seq] = OrderedDict()
        """Where the logs of sessions end, at least, that are not in memory."""

    def __len__(self) -> int:
        return len(self._slots)

    def get(self, key: SessionKey) -> Slot | None:
        return self._slots.get(key)

    def use(self, key: SessionKey) -> Slot:
        """Return a session's slot; make one if it is not in memory.

        A slot that is dropped while it is being filled serves no later caller, so changes that it misses do
        no harm.
        """
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = Slot()
            while len(self._slots) > self._max:
                self.drop(next(iter(self._slots)))
        else:
            self._slots.move_to_end(key)
        return slot

    def drop(self, key: SessionKey) -> None:
        if slot := self._slots.pop(key, None):
            self._remember(key, max(slot.end, slot.state.seq if slot.state else Seq(0)))

    def drop_all(self) -> None:
        for key in list(self._slots):
            self.drop(key)

    def told(self, key: SessionKey, end: Seq) -> None:
        """Note that a log ends there at least."""
        if slot := self._slots.get(key):
            slot.end = max(slot.end, end)
        else:
            self._remember(key, end)

    def require_end(self, key: SessionKey, end: Seq) -> None:
        """Check that a log does not end before it ended already.

        Raises:
            SessionUnreadable: it does.
        """
        before = self._ends.get(key, Seq(0))
        if end < before:
            raise SessionUnreadable(
                f"the log of session {key} ended at {before} and now ends at {end}: events were lost"
            )
        self._ends.pop(key, None)

    def forget_ends(self) -> None:
        """Forget where logs ended: the store is another one, or an operator says that it is right."""
        self._ends.clear()

    def _remember(self, key: SessionKey, end: Seq) -> None:
        if not end:
            return
        self._ends[key] = max(end, self._ends.get(key, Seq(0)))
        self._ends.move_to_end(key)
        if len(self._ends) > self._max:
            self._ends.popitem(last=False)

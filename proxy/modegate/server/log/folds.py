"""States of sessions, folded from the log and kept in memory, never older than the call that asks.

A strict read costs one look at the feed, and callers share it: one read of the feed is in flight at a
time, and whoever comes meanwhile shares the next one, so that each sees all that was acknowledged
before it came. Sessions that the feed did not name are then served from memory. After a gap in the feed
nothing in memory is trusted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from modegate.core.errors import Conflict, LogUnavailable, SessionUnreadable
from modegate.core.ids import DEFAULT_MODE, ModeId, Seq, SessionKey
from modegate.core.levels import follows
from modegate.core.log.events import ModeSet
from modegate.core.log.fold import State, dump_state, fold, fold_all, load_state
from modegate.core.log.records import Entry, Record
from modegate.server.clock import Clock
from modegate.server.log.protocol import EventLog

logger = logging.getLogger(__name__)

PAGE = 1_000
CHECKPOINT_EVERY = 500
"""Events folded between two checkpoints; a cold fold then takes one page."""

ATTEMPTS = 5
"""How often a mode is tried to be set while others append to the same session."""


@dataclass(slots=True)
class _Slot:
    """One session in memory."""

    state: State | None = None
    end: Seq = Seq(0)
    """Where the log ends, as far as the feed has told."""
    saved: Seq = Seq(0)
    """Where the last checkpoint stands."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def known_end(self) -> Seq:
        """Where the log ends at least, by whatever was read or told."""
        return max(self.end, self.state.seq if self.state else Seq(0))

    def current(self) -> State | None:
        """Return the state if it holds all that the feed has told of."""
        return self.state if self.state and self.state.seq >= self.end else None


class Folds:
    """The only way from the log to a `State`; one instance a process."""

    def __init__(self, log: EventLog, clock: Clock, *, max_sessions: int = 10_000) -> None:
        """Keep at most `max_sessions` states; the others are folded again when asked for."""
        self.log = log
        self.feed_reads = 0
        """Reads of the feed so far."""
        self.log_reads = 0
        """Reads of pages of sessions' logs so far."""
        self.gaps = 0
        """How often nothing in memory could be trusted any more."""
        self.on_change: list[Callable[[SessionKey], None]] = []
        """Called with each session that the feed names."""
        self._clock = clock
        self._max_sessions = max_sessions
        self._slots: OrderedDict[SessionKey, _Slot] = OrderedDict()
        self._floors: OrderedDict[SessionKey, Seq] = OrderedDict()
        """Where the logs of sessions end, at least, that are not in memory."""
        self._moved = log.moved
        self._position: str | None = None
        self._reading = asyncio.Lock()
        self._ended = 0
        self._failure: LogUnavailable | None = None
        self.on_append: list[Callable[[SessionKey], None]] = []
        """Told of each append of this process before its caller is, also of one that may have failed."""

    def __len__(self) -> int:
        """Count the sessions in memory."""
        return len(self._slots)

    async def state(self, key: SessionKey) -> State:
        """Return a state that holds every event that was acknowledged before the call.

        Raises:
            LogUnavailable: the log cannot be read now.
            SessionUnreadable: it has lost events of this session.
        """
        while True:
            await self._read_feed()
            gaps, slot = self.gaps, self._slot(key)
            async with slot.lock:
                state = slot.current() or await self._load(key, slot)
            if gaps == self.gaps:
                return state

    def begin_anew(self) -> None:
        """Forget all, where logs ended too: an operator says that the store is right as it is."""
        self._forget()
        self._floors.clear()
        self._position = None

    async def append(
        self, key: SessionKey, entries: Sequence[Entry], *, expect: Seq | None = None
    ) -> Seq:
        """Append to the session's log as `EventLog.append` does, and keep the state in memory current."""
        try:
            last = await self.log.append(key, entries, expect=expect)
        except Conflict:
            # Whoever appended may have died before the feed was told, so the feed is not believed now.
            slot = self._slots.get(key)
            if slot and expect is not None:
                slot.end = max(slot.end, Seq(expect + 1))
            raise
        except BaseException:
            # It may have landed without being told to the feed.
            if slot := self._slots.pop(key, None):
                self._remember(key, slot.known_end)
            self._appended(key)
            raise
        self._appended(key)
        for entry in entries:
            if isinstance(entry.event, ModeSet) and entry.by.startswith("person:"):
                logger.info(
                    "session %s: mode %r set by %s", key.session, entry.event.mode, entry.by
                )
        slot = self._slots.get(key)
        if slot and slot.state and slot.state.seq == last - len(entries):
            first = last - len(entries) + 1
            records = (Record(Seq(n), e.at, e.by, e.event) for n, e in enumerate(entries, first))
            slot.state = fold_all(records, slot.state)
            await self._checkpoint(key, slot)
        return last

    def _appended(self, key: SessionKey) -> None:
        for tell in self.on_append:
            tell(key)

    async def set_mode(
        self,
        key: SessionKey,
        mode: ModeId,
        by: str,
        allow: Callable[[State], None] | None = None,
        *,
        first: ModeId = DEFAULT_MODE,
    ) -> tuple[State, bool]:
        """Append `mode/set` unless that mode is in force; give the state and whether it was appended.

        A session that has not begun is to begin in `first`, so that no other mode is in force already.
        Whether the policy has the mode is the caller's to check. `allow` is called with the very state
        that the event would follow, and raises what the caller is to get instead.

        Raises:
            Conflict: others kept appending.
            SessionUnreadable: nobody can tell what is in force now.
        """
        for _ in range(ATTEMPTS):
            state = await self.state(key)
            if state.unreadable:
                raise SessionUnreadable(state.unreadable)
            if allow is not None:
                allow(state)
            now = state.mode if state.begun else first
            in_force = state.mode == mode == now and not _follows_parent(state, by)
            # An append of nothing tells the feed again, in case that failed when the mode was set.
            entries = () if in_force else (Entry(self._clock.now_ms(), by, ModeSet(mode)),)
            try:
                last = await self.append(key, entries, expect=state.seq)
            except Conflict:
                continue
            changed = fold_all((Record(last, e.at, e.by, e.event) for e in entries), state)
            return changed, not in_force
        raise Conflict(f"session {key} changes too fast for its mode to be set; try again")

    async def _read_feed(self) -> None:
        # Of the reads, number `_ended` is over and the next may be in flight; it began before this
        # call, so that this call needs the one after it.
        wanted = self._ended + (2 if self._reading.locked() else 1)
        async with self._reading:
            if self._ended >= wanted:
                if self._failure:
                    raise LogUnavailable(str(self._failure)) from self._failure
                return
            self.feed_reads += 1
            try:
                found = await self.log.changes(self._position)
            except LogUnavailable as error:
                self._ended, self._failure = self._ended + 1, error
                raise
            self._position = found.position
            if found.gap:
                self._forget()
            for change in found.changes:
                for listener in self.on_change:
                    listener(change.key)
                slot = self._slots.get(change.key)
                if slot:
                    slot.end = max(slot.end, change.seq)
                else:
                    self._remember(change.key, change.seq)
            self._ended, self._failure = self._ended + 1, None

    def _forget(self) -> None:
        self.gaps += 1
        for key, slot in self._slots.items():
            self._remember(key, slot.known_end)
        self._slots.clear()

    def _remember(self, key: SessionKey, end: Seq) -> None:
        """Remember where a log ended, so that it is noticed if it ever ends before that."""
        if not end:
            return
        self._floors[key] = max(end, self._floors.get(key, Seq(0)))
        self._floors.move_to_end(key)
        if len(self._floors) > self._max_sessions:
            self._floors.popitem(last=False)

    def _slot(self, key: SessionKey) -> _Slot:
        slot = self._slots.get(key)
        if slot is None:
            # A slot that is evicted while it is being filled is of no use to later callers, so that
            # changes which it misses do no harm.
            slot = self._slots[key] = _Slot()
            while len(self._slots) > self._max_sessions:
                evicted, old = self._slots.popitem(last=False)
                self._remember(evicted, old.known_end)
        else:
            self._slots.move_to_end(key)
        return slot

    async def _load(self, key: SessionKey, slot: _Slot) -> State:
        state = slot.state or await self._from_checkpoint(key, slot)
        while True:
            # The event before is read again: that it is still there shows that the log is the same.
            proof = 1 if state.seq else 0
            records = await self.log.read(key, Seq(state.seq - proof), PAGE)
            self.log_reads += 1
            if proof and (not records or records[0].seq != state.seq):
                raise SessionUnreadable(f"the log of session {key} has lost its event {state.seq}")
            for record in records[proof:]:
                state = fold(state, record)
            if len(records) < PAGE:
                break
        if self._moved != self.log.moved:
            self._moved = self.log.moved
            self._floors.clear()
        floor = self._floors.get(key, Seq(0))
        if state.seq < floor:
            raise SessionUnreadable(
                f"the log of session {key} ended at {floor} and now ends at {state.seq}: events were lost"
            )
        self._floors.pop(key, None)
        # An append of our own that was folded in meanwhile is undone, and read again when it is due.
        slot.state = state
        await self._checkpoint(key, slot)
        return state

    async def _from_checkpoint(self, key: SessionKey, slot: _Slot) -> State:
        found = await self.log.load_checkpoint(key)
        if not found:
            return State()
        try:
            state = load_state(found[1])
        except ValueError as error:
            logger.warning("the checkpoint of session %s is ignored: %s", key, error)
            return State()
        slot.saved = state.seq
        return state

    async def _checkpoint(self, key: SessionKey, slot: _Slot) -> None:
        state = slot.state
        if state is None or state.unreadable or state.seq - slot.saved < CHECKPOINT_EVERY:
            return
        slot.saved = state.seq
        try:
            await self.log.save_checkpoint(key, state.seq, dump_state(state))
        except LogUnavailable as error:
            logger.warning("the checkpoint of session %s was not saved: %s", key, error)


def _follows_parent(state: State, by: str) -> bool:
    """Return whether a person who sets the mode in force still changes something (a child's following)."""
    return by.startswith("person:") and follows(state) is not None

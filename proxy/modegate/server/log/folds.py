"""States of sessions, folded from the log and kept in memory, never older than the call that asks.

A strict read costs one look at the feed (`SharedFeed`). Sessions that the feed did not name are then served
from memory. After a gap in the feed nothing in memory is trusted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from modegate.core.errors import Conflict, LogUnavailable, SessionUnreadable
from modegate.core.ids import DEFAULT_MODE, ModeId, Seq, SessionKey
from modegate.core.levels import follows
from modegate.core.log.events import Event, ModeSet
from modegate.core.log.fold import State, dump_state, fold, fold_all, load_state
from modegate.core.log.records import Entry, Record
from modegate.server.clock import Clock
from modegate.server.log.feed import SharedFeed
from modegate.server.log.protocol import Changes, EventLog
from modegate.server.log.slots import Slot, Slots

logger = logging.getLogger(__name__)

PAGE = 1_000
CHECKPOINT_EVERY = 500
"""Events folded between two checkpoints; a cold fold then takes one page."""

ATTEMPTS = 20
"""How often something is decided anew while others append to the same session."""

Decide = Callable[[State], Sequence[Event]]
"""Returns the events to append to a state's log; raises to refuse."""

Author = str | Callable[[Event], str]
"""Who writes all of some events, or who writes each."""


@dataclass(frozen=True, slots=True)
class Decided:
    """What was decided on a state, and appended right behind it."""

    before: State
    events: Sequence[Event]
    after: State


class Folds:
    """The only way from the log to a `State`; one instance a process."""

    def __init__(self, log: EventLog, clock: Clock, *, max_sessions: int = 10_000) -> None:
        self.log = log
        self.log_reads = 0
        """Reads of pages of sessions' logs so far."""
        self.gaps = 0
        """How often nothing in memory could be trusted any more."""
        self.on_change: list[Callable[[SessionKey], None]] = []
        """Called with each session that the feed names."""
        self._clock = clock
        self._slots = Slots(max_sessions)
        self._moved = log.moved
        self.feed = SharedFeed(log, self._take)
        self.on_append: list[Callable[[SessionKey], None]] = []
        """Called with the session of each append of this process, before the append returns or raises."""

    def __len__(self) -> int:
        return len(self._slots)

    async def state(self, key: SessionKey) -> State:
        """Return a state that holds every event that was acknowledged before the call.

        Raises:
            LogUnavailable: the log cannot be read now.
            SessionUnreadable: it has lost events of this session.
        """
        while True:
            await self.feed.read()
            gaps, slot = self.gaps, self._slots.use(key)
            async with slot.lock:
                state = slot.current() or await self._load(key, slot)
            if gaps == self.gaps:
                return state

    def begin_anew(self) -> None:
        """Forget all, where logs ended too: an operator says that the store is right as it is."""
        self._forget()
        self._slots.forget_ends()
        self.feed.restart()

    async def append(
        self, key: SessionKey, entries: Sequence[Entry], *, expect: Seq | None = None
    ) -> Seq:
        """Append to the session's log as `EventLog.append` does, and keep the state in memory current."""
        try:
            last = await self.log.append(key, entries, expect=expect)
        except Conflict:
            # Whoever appended may have died before the feed was told, so the feed is not believed now.
            if expect is not None and self._slots.get(key):
                self._slots.told(key, Seq(expect + 1))
            raise
        except BaseException:
            # It may have landed without being told to the feed.
            self._slots.drop(key)
            self._appended(key)
            raise
        self._appended(key)
        for entry in entries:
            if isinstance(entry.event, ModeSet) and _is_person(entry.by):
                mode = entry.event.mode
                logger.info("session %s: mode %r set by %s", key.session, mode, entry.by)
        slot = self._slots.get(key)
        if slot and slot.state and slot.state.seq == last - len(entries):
            slot.state = fold_all(_records(entries, last), slot.state)
            await self._checkpoint(key, slot)
        return last

    def _appended(self, key: SessionKey) -> None:
        for tell in self.on_append:
            tell(key)

    async def decide(
        self, key: SessionKey, by: Author, decide: Decide, *, confirm: bool = False
    ) -> Decided:
        """Append what `decide` returns for the session's state; if others append first, decide anew.

        `decide` gets the very state that its events will follow. With `confirm`, append even if there are
        none, which tells the feed again where the log ends: an earlier append may have failed before that.

        Raises:
            Conflict: others kept appending. Only a person is told so.
            LogUnavailable: the same for everybody else: to an agent, it is the log that fails.
            SessionUnreadable: nobody can tell what is in force now.
        """
        author = by if callable(by) else lambda _: by
        for _ in range(ATTEMPTS):
            state = await self.state(key)
            if state.unreadable:
                raise SessionUnreadable(state.unreadable)
            events = decide(state)
            if not (events or confirm):
                return Decided(state, events, state)
            entries = [Entry(self._clock.now_ms(), author(event), event) for event in events]
            with suppress(Conflict):
                last = await self.append(key, entries, expect=state.seq)
                return Decided(state, events, fold_all(_records(entries, last), state))
        words = f"session {key} changes too fast; try again"
        by_person = isinstance(by, str) and _is_person(by)
        raise Conflict(words) if by_person else LogUnavailable(words)

    async def set_mode(
        self,
        key: SessionKey,
        mode: ModeId,
        by: str,
        allow: Callable[[State], None] | None = None,
        *,
        first: ModeId = DEFAULT_MODE,
    ) -> tuple[State, bool]:
        """Append `mode/set` unless that mode is in force; return the state, and whether it was appended.

        A session that has not begun will begin in `first`; no other mode is in force before that. The caller
        has checked that the policy has the mode. `allow` is called with the very state that the event would
        follow, and raises to refuse it.

        Raises:
            Conflict, LogUnavailable, SessionUnreadable: see `decide`.
        """

        def decide(state: State) -> Sequence[Event]:
            if allow is not None:
                allow(state)
            now = state.mode if state.begun else first
            # A person who sets the mode in force of a child still ends that it follows its parent.
            ends_following = _is_person(by) and follows(state) is not None
            in_force = state.mode == mode == now and not ends_following
            return () if in_force else (ModeSet(mode),)

        decided = await self.decide(key, by, decide, confirm=True)
        return decided.after, bool(decided.events)

    def _take(self, found: Changes) -> None:
        if found.gap:
            self._forget()
        for change in found.changes:
            for listener in self.on_change:
                listener(change.key)
            self._slots.told(change.key, change.seq)

    def _forget(self) -> None:
        self.gaps += 1
        self._slots.drop_all()

    async def _load(self, key: SessionKey, slot: Slot) -> State:
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
            self._slots.forget_ends()
        self._slots.require_end(key, state.seq)
        # An append of our own that was folded in meanwhile is undone, and read again when it is due.
        slot.state = state
        await self._checkpoint(key, slot)
        return state

    async def _from_checkpoint(self, key: SessionKey, slot: Slot) -> State:
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

    async def _checkpoint(self, key: SessionKey, slot: Slot) -> None:
        state = slot.state
        if state is None or state.unreadable or state.seq - slot.saved < CHECKPOINT_EVERY:
            return
        slot.saved = state.seq
        try:
            await self.log.save_checkpoint(key, state.seq, dump_state(state))
        except LogUnavailable as error:
            logger.warning("the checkpoint of session %s was not saved: %s", key, error)


def _records(entries: Sequence[Entry], last: Seq) -> Iterator[Record]:
    """Yield what the log holds of entries, the last of which is at `last`."""
    for seq, entry in enumerate(entries, last - len(entries) + 1):
        yield Record(Seq(seq), entry.at, entry.by, entry.event)


def _is_person(by: str) -> bool:
    return by.startswith("person:")

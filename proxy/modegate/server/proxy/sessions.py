"""Finds a request's session, reads strictly what it stands under, and opens sessions on first sight."""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Protocol

from modegate.core.errors import SessionUnreadable
from modegate.core.identify.session import Identified
from modegate.core.identify.sources import PREVIOUS
from modegate.core.ids import DEFAULT_MODE, ModeId, SessionId, SessionKey
from modegate.core.levels import follows
from modegate.core.log.events import Event, ModeSet, SessionOpen
from modegate.core.log.fold import State
from modegate.core.policy.gating import ALONE, Gating, Held, gating, held
from modegate.core.policy.in_force import (
    DAY_MS,
    MAX_CHAIN,
    ModesInForce,
    initial_mode,
    modes_in_force,
    tightest,
)
from modegate.core.policy.model import Policy
from modegate.core.step.stored_answers import known
from modegate.server.clock import Clock
from modegate.server.log.batch_writer import BatchWriter
from modegate.server.log.folds import Folds
from modegate.server.log.protocol import EventLog, Listed, Seen
from modegate.server.proxy.siblings import Siblings

MAX_SEEN = 10_000
"""Sessions remembered that the index knows; others are looked up in it."""

logger = logging.getLogger(__name__)


class Sessions:
    """What a step's session stands under, now."""

    def __init__(
        self, eventlog: EventLog, folds: Folds, batch_writer: BatchWriter, clock: Clock
    ) -> None:
        self._log = eventlog
        self._folds = folds
        self._batch_writer = batch_writer
        self._clock = clock
        self._siblings = Siblings(eventlog, folds, clock)
        self._seen: OrderedDict[SessionKey, None] = OrderedDict()
        self._gaps = folds.gaps

    async def follow(self, found: Identified) -> Identified:
        """Return the session of the answer that a request goes on from, unless the request names another.

        Such a request often holds no user message, or a new one. Another id would be derived from that.
        """
        if found.previous is None or known(found.previous, await self._folds.state(found.key)):
            return found
        since = self._clock.now_ms() - DAY_MS
        for key in await self._log.derived_siblings(found.key.tenant, found.agent, since):
            if known(found.previous, await self._folds.state(key)):
                return replace(found, key=key, how=PREVIOUS)
        return found

    async def enter(self, found: Identified, policy: Policy, path: str) -> ModesInForce:
        """Begin a step: return what it stands under. A session that is seen for the first time may be opened.

        Raises:
            LogUnavailable: the log cannot be read or written, or others kept appending to the session.
            Refusal: the mode in force, or the log, cannot be used.
        """
        if found.disagree:
            # Who names the session on purpose knows that the agent sends an id of its own.
            level = logging.DEBUG if found.given else logging.WARNING
            logger.log(
                level, "session %s was taken from %s; these name another: %s",
                found.key, found.how, ", ".join(found.disagree),
            )  # fmt: skip
        state = await self._opened(found, policy, path)
        self._batch_writer.touch(Seen(found.key, found.agent, found.how, self._clock.now_ms()))
        return modes_in_force(policy, await chain_of(self._folds, found.key, state))

    async def _opened(self, found: Identified, policy: Policy, path: str) -> State:
        """Return the state of a session that has begun: by its log, or because it begins in default.

        If this ends early, nothing is left that could be taken for a beginning.
        """
        state = await self._folds.state(found.key)
        seen, first = False, DEFAULT_MODE
        if self._must_look(found, state, policy):
            seen = await self._log.was_seen(found.key)
            first = DEFAULT_MODE if seen else await self._first_mode(found, policy)

        def opening(state: State) -> list[Event]:
            return self._opening(found, state, DEFAULT_MODE if state.begun else first, path)

        if not (seen or opening(state)):
            return state
        # The log is told of an opening before the index: what the index knows shows in a state that is
        # read after it, or the session was only seen, which is to begin in default.
        state = (await self._folds.decide(found.key, _author, opening)).after
        if seen and not state.begun:
            self._seen[found.key] = None
            if len(self._seen) > MAX_SEEN:
                self._seen.popitem(last=False)
        return state

    def _must_look(self, found: Identified, state: State, policy: Policy) -> bool:
        """Return whether the log and the policy leave open in which mode the session begins."""
        if state.begun or state.unreadable is not None:
            return False
        initial = initial_mode(policy, found.key.tenant, found.agent)
        plain = not found.derived and initial == DEFAULT_MODE
        return not plain and not self._began(found.key)

    async def stand(self, key: SessionKey, policy: Policy) -> ModesInForce:
        """Return what a session stands under now, its parents' modes included."""
        state = await self._folds.state(key)
        return modes_in_force(policy, await chain_of(self._folds, key, state))

    @staticmethod
    def _opening(found: Identified, state: State, first: ModeId, path: str) -> list[Event]:
        """Return what the log must hold before this step: nothing for a session that is only seen."""
        if state.opened is not None or state.unreadable is not None:
            return []
        if first == DEFAULT_MODE and found.parent is None and not state.ever_gated:
            return []
        opened = SessionOpen(found.agent, path, found.how, found.parent, found.derived)
        return [opened, ModeSet(first)] if first != DEFAULT_MODE else [opened]

    async def _first_mode(self, found: Identified, policy: Policy) -> ModeId:
        """Return the mode in which a session begins that was never seen."""
        initial = initial_mode(policy, found.key.tenant, found.agent)
        if not found.derived:
            return initial
        theirs = await self._siblings.start(found.key.tenant, found.agent, policy)
        start = tightest(policy, [initial, theirs])
        if start != initial:
            words = "derived session %s begins in %s, as others of its agent"
            logger.warning(words, found.key, start)
        return start

    def _began(self, key: SessionKey) -> bool:
        """Return whether the session is known to have begun in default, unless its log says otherwise."""
        if self._gaps != self._folds.gaps:
            # Whatever was known may have been lost with what was lost.
            self._gaps = self._folds.gaps
            self._seen.clear()
        if key not in self._seen:
            return False
        self._seen.move_to_end(key)
        return True


def _author(event: Event) -> str:
    """Name who writes an event of an opening: the mode of a beginning is the policy's."""
    return "policy" if isinstance(event, ModeSet) else "agent"


class States(Protocol):
    """Whoever has the states of sessions."""

    async def state(self, key: SessionKey) -> State:
        """Return a state that holds every event that was acknowledged before the call."""


async def chain_of(folds: States, key: SessionKey, state: State) -> list[tuple[SessionId, State]]:
    """Return a session and those whose modes it follows: its parent, its parent's, and so on.

    Raises:
        LogUnavailable: the log cannot be read.
        SessionUnreadable: one of them has lost events.
    """
    chain = [(key.session, state)]
    while (parent := follows(state)) is not None and len(chain) <= MAX_CHAIN:
        state = await folds.state(SessionKey(key.tenant, parent))
        chain.append((parent, state))
    return chain


async def held_by(folds: States, key: SessionKey, state: State) -> Held:
    """Return by whom a session is held: by none, as far as is known, if a parent has lost events.

    Raises:
        LogUnavailable: the log cannot be read.
    """
    try:
        return held(await chain_of(folds, key, state))
    except SessionUnreadable:
        return ALONE


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """How a session looks in a list."""

    state: State | None
    """None where its log has lost events."""
    gating: Gating
    held: Held = ALONE


async def summarize(folds: States, policy: Policy, row: Listed) -> SessionSummary:
    """Return how a session of the index looks.

    Raises:
        LogUnavailable: the log cannot be read.
    """
    if not row.seq:
        # Only seen: it has no events, so nothing is to be folded.
        return SessionSummary(State(), Gating.DEFAULT)
    state = None
    try:
        state = await folds.state(row.key)
        chain = await chain_of(folds, row.key, state)
        return SessionSummary(state, gating(policy, chain), held(chain))
    except SessionUnreadable:
        return SessionSummary(state, Gating.UNREADABLE)

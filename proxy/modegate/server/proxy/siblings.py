"""In which mode a derived session begins: that of its tightest sibling, without a fold of all of them."""

from __future__ import annotations

from collections import OrderedDict

from modegate.core.errors import SessionUnreadable
from modegate.core.ids import ModeId, SessionKey, Tenant
from modegate.core.log.fold import State
from modegate.core.policy.in_force import DAY_MS, derived_start
from modegate.core.policy.model import Policy
from modegate.server.clock import Clock
from modegate.server.log.folds import Folds
from modegate.server.log.protocol import EventLog

MAX_KNOWN = 50_000
"""Sessions of which the modes are remembered; some 300 bytes each."""


class Siblings:
    """Remembers of each sibling the modes that count, until the feed names it; one instance a process."""

    def __init__(self, log: EventLog, folds: Folds, clock: Clock) -> None:
        self._log = log
        self._folds = folds
        self._clock = clock
        self._known: OrderedDict[SessionKey, State] = OrderedDict()
        self._changes = 0
        self._gaps = folds.gaps
        folds.on_change.append(self._changed)

    async def start(self, tenant: Tenant, agent: str, policy: Policy) -> ModeId:
        """Return the mode in which a derived session of this agent begins that was never seen.

        Call it after a strict read, which brings what has changed.

        Raises:
            LogUnavailable: the index or a sibling cannot be read.
            SessionUnreadable: a sibling has lost events, or has some that are not known here.
        """
        now = self._clock.now_ms()
        siblings = await self._log.derived_siblings(tenant, agent, now - DAY_MS)
        return derived_start(policy, [await self._modes(key) for key in siblings], now)

    async def _modes(self, key: SessionKey) -> State:
        if self._gaps != self._folds.gaps:
            self._gaps = self._folds.gaps
            self._known.clear()
        known = self._known.get(key)
        if known is not None:
            return known
        before = (self._changes, self._gaps)
        state = await self._folds.state(key)
        if state.unreadable is not None:
            raise SessionUnreadable(
                f"the log of session {key.session!r}, whose mode counts here, is unreadable: "
                + state.unreadable
            )
        known = State(mode=state.mode, left=state.left)
        if before == (self._changes, self._folds.gaps):
            self._known[key] = known
            if len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)
        return known

    def _changed(self, key: SessionKey) -> None:
        self._changes += 1
        self._known.pop(key, None)

"""How a person sets a mode, from wherever: checked, allowed and appended as one transition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from modegate.core.errors import UnknownMode
from modegate.core.ids import DEFAULT_MODE, ModeId, SessionId, SessionKey
from modegate.core.levels import follows, to_set
from modegate.core.log.fold import State
from modegate.core.policy.in_force import initial_mode
from modegate.core.policy.model import Level, Policy
from modegate.server.log.folds import Folds
from modegate.server.log.protocol import EventLog

Allow = Callable[[Level, State], None]
"""Takes the level that the change needs, and the state that it would follow; raises if it must not be."""


class _Policies(Protocol):
    @property
    def current(self) -> Policy: ...


@dataclass(frozen=True, slots=True)
class Change:
    """What became of setting a mode."""

    was: ModeId
    """The mode that was in force."""
    state: State
    """The session with the mode that is in force now."""
    changed: bool
    """Whether an event was appended; not if the mode was in force already."""
    followed: SessionId | None = None
    """The parent whose mode the session followed until then."""


class ModeSetter:
    """Sets modes for people; one instance a process, which holds no state."""

    def __init__(self, log: EventLog, folds: Folds, policies: _Policies) -> None:
        self._log = log
        self._folds = folds
        self._policies = policies

    async def set_mode(self, key: SessionKey, wanted: ModeId, *, by: str, allow: Allow) -> Change:
        """Set a mode, also of a session that has sent nothing yet.

        `by` is `person:` and the way they came. `allow` is called with the state that the event follows, and
        again if others append first: what was a tightening may have become a loosening.

        Raises:
            UnknownMode: the policy has no such mode.
            Conflict, LogUnavailable, SessionUnreadable: nothing was set, or nobody knows.
        """
        policy = self._policies.current
        if wanted != DEFAULT_MODE and wanted not in policy.modes:
            raise UnknownMode(wanted, (DEFAULT_MODE, *policy.modes))
        # Before the state, as when a session is opened: see `Sessions`.
        seen = await self._log.was_seen(key)
        # Nobody knows which agent will come: what is tighter needs more to be left.
        first = DEFAULT_MODE if seen else initial_mode(policy, key.tenant, None)
        was, followed = DEFAULT_MODE, None

        def checked(state: State) -> None:
            nonlocal was, followed
            was, followed = state.mode if state.begun else first, follows(state)
            allow(to_set(state, wanted, first=first), state)

        state, changed = await self._folds.set_mode(key, wanted, by, checked, first=first)
        return Change(was, state, changed, followed if changed else None)

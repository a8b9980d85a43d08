"""Who may do what: the levels of a control token, and the level that an act of a person needs.

A level covers those before it. `observe` reads. `tighten` may also do what lets less through: set a mode
where none is in force, and reject. `full` may do everything; only it loosens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from modegate.core.ids import DEFAULT_MODE, LOCAL, ModeId, SessionId, Tenant
from modegate.core.log.fold import State


class Level(StrEnum):
    """How much a token may do, the least first."""

    OBSERVE = "observe"
    TIGHTEN = "tighten"
    FULL = "full"

    def covers(self, needed: Level) -> bool:
        """Return whether a token of this level may do what needs the other."""
        order = list(Level)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True, slots=True)
class Token:
    """`control.tokens[]`: one token; its secret stands in the environment, never in the file."""

    name: str
    env: str
    """The variable that holds the secret."""
    level: Level
    tenants: tuple[Tenant, ...] = (LOCAL,)


@dataclass(frozen=True, slots=True)
class AcpControl:
    """`control.acp`: how modes are set by ACP clients."""

    confirm_loosening: bool = True
    """Ask the person at the client before a mode is left, since clients also replay modes by themselves."""


@dataclass(frozen=True, slots=True)
class Control:
    """`control`: who may see and set modes, beside the holder of the process's own token."""

    tokens: tuple[Token, ...] = ()
    acp: AcpControl = field(default_factory=AcpControl)


def to_set(state: State, wanted: ModeId, *, first: ModeId = DEFAULT_MODE) -> Level:
    """Return the level that setting a mode needs.

    Args:
        state: the session as it is when the mode is set.
        wanted: the mode to set.
        first: the mode in which the session will begin, if it has not begun yet; else it is not looked at.
    """
    if follows(state) is not None:
        # It would follow its parent no longer, whose mode may be stricter than any of its own.
        return Level.FULL
    now = state.mode if state.begun else first
    return Level.TIGHTEN if now in (DEFAULT_MODE, wanted) else Level.FULL


def follows(state: State) -> SessionId | None:
    """Return the parent whose mode holds a session too, until a person sets its own."""
    return state.opened.parent if state.opened and not state.set_by_person else None


def words_to_set(state: State, wanted: ModeId) -> str:
    """Say what setting a mode does, for whom it is refused."""
    parent = follows(state)
    if parent is not None:
        return f"setting {wanted!r} in place of what the parent session {parent!r} says"
    return f"setting {wanted!r} where {state.mode!r} is in force"


def to_answer(kind: str) -> Level:
    """Return the level that choosing an option of this kind needs."""
    return Level.TIGHTEN if kind == "reject" else Level.FULL

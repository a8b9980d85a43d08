"""The level that an act of a person needs.

`observe` reads. `tighten` may also do what lets less through: set a mode where none is in force, and reject.
`full` may do everything; only it loosens.
"""

from __future__ import annotations

from modegate.core.ids import DEFAULT_MODE, ModeId, SessionId
from modegate.core.log.fold import State
from modegate.core.policy.model import Level


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

"""Whether a session is held by a mode and by which parents, and if not why: what people are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from modegate.core.errors import BadSession, ModeGone, SessionUnreadable
from modegate.core.ids import DEFAULT_MODE, ModeId, SessionId, ToolName
from modegate.core.log.events import NO_TOOLS, RUNS_TEXT
from modegate.core.log.fold import State
from modegate.core.policy.in_force import modes_in_force
from modegate.core.policy.model import Policy


class Gating(StrEnum):
    """How a session is held."""

    ON = "on"
    """Each call needs the release of the mode in force."""
    DEFAULT = "default"
    """No mode is in force, its parents' included."""
    NO_TOOLS = "no_tools"
    """None of its requests declares a tool: what it does cannot be told from talk."""
    TEXT = "text"
    """Its agent runs calls that stand in plain text, and the mode lets text pass."""
    MODE_GONE = "mode_gone"
    """The policy no longer has the mode that is in force: every step is refused."""
    UNREADABLE = "unreadable"
    """Its log, or its parent's, cannot be read: every step is refused."""


LABELS = {
    Gating.ON: "yes",
    Gating.DEFAULT: "no: default mode",
    Gating.NO_TOOLS: "no: declares no tools",
    Gating.TEXT: "no: runs calls in text",
    Gating.MODE_GONE: "refused: the policy has no such mode",
    Gating.UNREADABLE: "refused: its log cannot be read",
}
"""For people: whether the session is gated."""


def left_out(state: State) -> list[ToolName]:
    """Return the tools that the mode allows and that some lane's model was still not offered."""
    return sorted({name for header in state.lanes.values() for name in header.left_out})


def gating(policy: Policy, chain: Sequence[tuple[SessionId, State]]) -> Gating:
    """Return how a session is held; `chain` is the session, then its parents (see `modes_in_force`)."""
    try:
        in_force = modes_in_force(policy, chain)
    except ModeGone:
        return Gating.MODE_GONE
    except (SessionUnreadable, BadSession):
        return Gating.UNREADABLE
    if not in_force.gated:
        return Gating.DEFAULT
    marks = {header.ungated for header in in_force.state.lanes.values()}
    if RUNS_TEXT in marks:
        return Gating.TEXT
    # Title writers declare none beside a main loop that does.
    return Gating.NO_TOOLS if marks == {NO_TOOLS} else Gating.ON


@dataclass(frozen=True, slots=True)
class Holder:
    """A parent whose mode holds the session too."""

    session: SessionId
    mode: ModeId


@dataclass(frozen=True, slots=True)
class Held:
    """What holds a session beside its own mode."""

    by: tuple[Holder, ...] = ()
    """The nearest first, without those in default."""
    parents: tuple[SessionId, ...] = ()
    """All parents that the session follows, in whatever mode."""
    age: int = 0
    """Events of the parents so far: of two values, the one with more is newer."""

    def mode(self, own: ModeId) -> ModeId:
        """Return the one mode to show: the session's own, else that of the nearest that holds it."""
        return own if own != DEFAULT_MODE or not self.by else self.by[0].mode

    def label(self, own: ModeId) -> str:
        """Name all modes in force, as `x-modegate-mode` does: `plan`, or `plan+review`."""
        found = dict.fromkeys((own, *(one.mode for one in self.by)))
        return "+".join(mode for mode in found if mode != DEFAULT_MODE) or DEFAULT_MODE

    def told(self, own: ModeId) -> str:
        """Say what is in force and by whom: `plan (by its parent main)`."""
        whom = ", ".join(one.session for one in self.by)
        return f"{self.label(own)} (by its parent {whom})" if whom else own


ALONE = Held()


def held(chain: Sequence[tuple[SessionId, State]]) -> Held:
    """Find what holds a session; `chain` is the session, then those that it follows (see `in_force`)."""
    parents = chain[1:]
    return Held(
        tuple(Holder(name, one.mode) for name, one in parents if one.mode != DEFAULT_MODE),
        tuple(name for name, _ in parents),
        sum(one.seq for _, one in parents),
    )

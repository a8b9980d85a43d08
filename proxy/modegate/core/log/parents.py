"""Which parents hold a session in their modes, as people are told it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from modegate.core.ids import DEFAULT_MODE, ModeId, SessionId
from modegate.core.log.fold import State


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

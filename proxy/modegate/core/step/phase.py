"""How far a step reads its answer; its phases, and which input is taken in which.

`TABLE` has a row for each phase. An input that a row does not have is a bug of whoever performs the effects,
and raises; one that leads nowhere comes too late, and changes nothing. `docs/architecture.md` prints it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum, StrEnum
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from modegate.core.step.effects import AskPerson, CallUpstream, Effect, Finish, ReadBlobs, ReadState


class Treatment(IntEnum):
    """Decided once, as a step opens; from there on it only rises."""

    RELAY = 0
    """The bytes pass as they come: no mode is in force, and nothing of ours can stand in the answer."""
    WATCH = 1
    """No mode is in force, but the model may call an exit tool that it no longer has: the answer is read
    and judged, and what nobody can read passes."""
    GATE = 2
    """A mode is in force: what cannot be read goes nowhere."""


class Phase(StrEnum):
    """What a step waits for."""

    OPENING = "opening"
    """Its modes, and the bodies that go back into its history."""
    CALLING = "calling"
    """The head of the upstream's answer."""
    ANSWERING = "answering"
    """More of that answer."""
    JUDGING = "judging"
    """The modes in force now: they decide on a call, or on a request that was refused."""
    ASKING = "asking"
    """A person."""
    OVER = "over"
    """Nothing: its last effects end the answer."""


Input = StrEnum(
    "Input",
    "BEGIN BLOBS OVERTAKE UPSTREAM_HEAD UPSTREAM_DATA UPSTREAM_END STATE APPROVAL TIGHTENED FAILED",
)
"""What may happen to a step: the methods of `Exchange`."""


_OPENING, _CALLING, _ANSWERING, _JUDGING, _ASKING, _OVER = Phase
_ON = frozenset({_CALLING, _ANSWERING, _JUDGING, _ASKING, _OVER})
_NOWHERE: frozenset[Phase] = frozenset()
_END = frozenset({_OVER})

TABLE: Mapping[Phase, Mapping[Input, frozenset[Phase]]] = {
    _OPENING: {
        Input.BEGIN: frozenset({_OPENING, _CALLING, _OVER}),
        Input.BLOBS: frozenset({_CALLING, _OVER}),
        Input.OVERTAKE: frozenset({_ANSWERING, _OVER}),
        Input.FAILED: _END,
    },
    _CALLING: {
        Input.UPSTREAM_HEAD: frozenset({_ANSWERING, _OVER}),
        Input.UPSTREAM_END: _END,
        Input.TIGHTENED: frozenset({_CALLING, _OVER}),
        Input.FAILED: _END,
    },
    _ANSWERING: {
        Input.UPSTREAM_DATA: frozenset({_ANSWERING, _CALLING, _JUDGING, _OVER}),
        Input.UPSTREAM_END: frozenset({_CALLING, _JUDGING, _OVER}),
        Input.TIGHTENED: frozenset({_ANSWERING, _OVER}),
        Input.FAILED: _END,
    },
    _JUDGING: {Input.STATE: _ON, Input.FAILED: _END},
    _ASKING: {Input.APPROVAL: _ON, Input.FAILED: _END},
    _OVER: {
        Input.UPSTREAM_DATA: _NOWHERE,
        Input.UPSTREAM_END: _NOWHERE,
        Input.TIGHTENED: _NOWHERE,
        # What ends the answer could not be performed.
        Input.FAILED: _END,
    },
}

_WAITS: Mapping[type[Effect], Phase] = {
    ReadBlobs: _OPENING,
    CallUpstream: _CALLING,
    ReadState: _JUDGING,
    AskPerson: _ASKING,
    Finish: _OVER,
}
"""What a step waits for once it has asked for this, which is then the last of its effects."""


class OutOfPhase(RuntimeError):
    """An input that its phase does not take, or one that led where the table does not."""


def _after(phase: Phase, leads: frozenset[Phase], effects: Sequence[Effect]) -> Phase:
    waits = _WAITS.get(type(effects[-1])) if effects else None
    # A step that asks for nothing waits for more of the answer, if it has one.
    return waits or (_ANSWERING if _ANSWERING in leads else phase)


class HasPhase(Protocol):
    """What goes through the phases."""

    phase: Phase


_P = ParamSpec("_P")
_S = TypeVar("_S", bound=HasPhase)
_Method = Callable[Concatenate[_S, _P], list[Effect]]


def takes(method: _Method[_S, _P]) -> _Method[_S, _P]:
    """Make a method an input: it is called where `TABLE` has it, and leads to a phase that stands there."""
    name = Input(method.__name__)

    @wraps(method)
    def take(self: _S, /, *args: _P.args, **kwargs: _P.kwargs) -> list[Effect]:
        leads = TABLE[self.phase].get(name)
        if leads is None:
            raise OutOfPhase(f"{name} is not taken while a step is {self.phase}")
        if not leads:
            return []
        effects = method(self, *args, **kwargs)
        after = _after(self.phase, leads, effects)
        if after not in leads:
            raise OutOfPhase(f"{name} led a step that was {self.phase} to be {after}")
        self.phase = after
        return effects

    return take

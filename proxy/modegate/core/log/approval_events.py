"""The events of a question to a person; `approvals` has its life."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from modegate.core.ids import CallId, Lane, ModeId, StepId, ToolName


@dataclass(frozen=True, slots=True)
class Option:
    """One answer that a person may give."""

    id: str
    label: str
    kind: Literal["approve", "allow_once", "reject"]
    to: ModeId | None = None
    """The mode that it sets, if any."""


@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    """`approval/asked`: a question to a person."""

    id: str
    step: StepId
    lane: Lane
    call: CallId
    tool: ToolName
    purpose: Literal["exit", "ask"]
    text: str
    """The plan in markdown, or the arguments of the call: written by a model, so it is data."""
    options: tuple[Option, ...]
    expires: int
    """Milliseconds since the epoch."""
    place: str = ""
    """Where the agent's history ended: a new message of its user behind it closes the question."""


@dataclass(frozen=True, slots=True)
class ApprovalDelivered:
    """`approval/delivered`: a client shows the question to its person."""

    id: str
    via: str
    """What kind of client, for people."""
    client: str = ""
    """Which one; empty in logs of before 0.2, where `via` stands for it."""


@dataclass(frozen=True, slots=True)
class ClientLeft:
    """`client/left`: a client no longer shows a question, and it was not answered there."""

    id: str
    client: str
    why: Literal["dismissed", "gone"]
    """`dismissed` by its person, or the client is gone, or cannot show it."""


@dataclass(frozen=True, slots=True)
class ApprovalDetached:
    """`approval/detached`: the step went on without an answer; it can still be given."""

    id: str
    why: Literal["nobody", "timeout", "shutdown"]


@dataclass(frozen=True, slots=True)
class ApprovalJoined:
    """`approval/joined`: another step asks the same, and waits for the answer too."""

    id: str
    step: StepId


@dataclass(frozen=True, slots=True)
class ApprovalDropped:
    """`approval/dropped`: a step no longer waits, as its client has gone; others may, or come back."""

    id: str
    step: StepId
    until: int
    """Milliseconds since the epoch: the question is over then, unless a step waits for it again."""


@dataclass(frozen=True, slots=True)
class ApprovalAnswered:
    """`approval/answered`: a person's answer; the first in the log wins."""

    id: str
    option: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalClosed:
    """`approval/closed`: the question is no longer one."""

    id: str
    why: Literal["expired", "superseded", "abandoned"]


ApprovalEvent = (
    ApprovalAsked
    | ApprovalDelivered
    | ClientLeft
    | ApprovalDetached
    | ApprovalJoined
    | ApprovalDropped
    | ApprovalAnswered
    | ApprovalClosed
)

APPROVAL_TYPES: dict[str, type[Any]] = {
    "approval/asked": ApprovalAsked,
    "approval/delivered": ApprovalDelivered,
    "client/left": ClientLeft,
    "approval/detached": ApprovalDetached,
    "approval/joined": ApprovalJoined,
    "approval/dropped": ApprovalDropped,
    "approval/answered": ApprovalAnswered,
    "approval/closed": ApprovalClosed,
}

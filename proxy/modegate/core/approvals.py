"""The life of an approval: one question to a person and its one answer.

    asked ──► delivered ──► answered
      │           │
      └─────┬─────┘
            ▼
        detached ──► answered          any open state ──► closed

Open are `asked`, `delivered` and `detached`. A detached question was answered "not approved" in its step,
and a person can still settle it later. The first answer in the log wins; what comes late, twice, or for
an option that was not offered changes nothing. The fold applies `TRANSITIONS`; the other functions give
the events that somebody may append, with `expect`, and fold again on a conflict.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from modegate.core.errors import BadOption, NotOpen, UnknownMode
from modegate.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    ApprovalClosed,
    ApprovalDelivered,
    ApprovalDetached,
    Event,
    ModeSet,
)
from modegate.core.ids import DEFAULT_MODE, ModeId

KEPT_SETTLED = 32
"""Settled approvals that a state remembers, so that a late answer is told how they ended."""

EXPIRES_MS = 24 * 60 * 60 * 1000
"""How long a question stays open at most."""

NOBODY_S = 2.0
"""Within this time somebody must have been shown the question, or the step goes on without."""

WAIT_STREAMED_S = 600.0
WAIT_WHOLE_S = 60.0
"""How long a step waits: a stream is kept alive meanwhile, a body cannot be."""

MAX_COMMENT = 4_000
"""Characters of a person's words; the model gets them."""


class Status(StrEnum):
    """Where an approval is in its life."""

    ASKED = "asked"
    DELIVERED = "delivered"
    DETACHED = "detached"
    ANSWERED = "answered"
    CLOSED = "closed"

    @property
    def open(self) -> bool:
        """Whether it can still be answered."""
        return self not in (Status.ANSWERED, Status.CLOSED)


TRANSITIONS: dict[Status, dict[type[Any], Status]] = {
    Status.ASKED: {
        ApprovalDelivered: Status.DELIVERED,
        ApprovalDetached: Status.DETACHED,
        ApprovalAnswered: Status.ANSWERED,
        ApprovalClosed: Status.CLOSED,
    },
    Status.DELIVERED: {
        ApprovalDelivered: Status.DELIVERED,
        ApprovalDetached: Status.DETACHED,
        ApprovalAnswered: Status.ANSWERED,
        ApprovalClosed: Status.CLOSED,
    },
    Status.DETACHED: {
        ApprovalDelivered: Status.DETACHED,
        ApprovalDetached: Status.DETACHED,
        ApprovalAnswered: Status.ANSWERED,
        ApprovalClosed: Status.CLOSED,
    },
    # Settled: nothing changes any more, whatever the log goes on to say.
    Status.ANSWERED: dict.fromkeys(
        (ApprovalDelivered, ApprovalDetached, ApprovalAnswered, ApprovalClosed), Status.ANSWERED
    ),
    Status.CLOSED: dict.fromkeys(
        (ApprovalDelivered, ApprovalDetached, ApprovalAnswered, ApprovalClosed), Status.CLOSED
    ),
}


@dataclass(frozen=True, slots=True)
class Approval:
    """A question as the log tells of it."""

    asked: ApprovalAsked
    status: Status = Status.ASKED
    asked_at: int = 0
    """Milliseconds since the epoch."""
    option: str = ""
    """The option that was chosen, once answered."""
    by: str = ""
    comment: str = ""
    waited: bool = True
    """Nobody had detached it when it was answered: its step heard the answer."""
    why: str = ""
    """Why it was closed or detached."""

    @property
    def approved(self) -> bool:
        """Whether a person said yes."""
        return self.status is Status.ANSWERED and any(
            option.id == self.option and option.kind != "reject" for option in self.asked.options
        )

    @property
    def to(self) -> ModeId | None:
        """The mode that the chosen option leads to."""
        chosen = (option.to for option in self.asked.options if option.id == self.option)
        return next(chosen, None)

    def settled(self) -> str:
        """Say how it ended, for somebody who comes late."""
        if self.status is Status.ANSWERED:
            return f"answered with {self.option!r} by {self.by}"
        return f"closed: {self.why}"


def step(approval: Approval, event: Event, by: str) -> Approval:
    """Apply one event to an approval."""
    status = TRANSITIONS[approval.status][type(event)]
    if not approval.status.open:
        return approval
    match event:
        case ApprovalAnswered():
            return replace(
                approval,
                status=status,
                option=event.option,
                by=by,
                comment=event.comment,
                waited=approval.status is not Status.DETACHED,
            )
        case ApprovalClosed() | ApprovalDetached():
            return replace(approval, status=status, why=event.why)
        case _:
            return replace(approval, status=status)


def answer(
    approvals: Mapping[str, Approval],
    approval_id: str,
    option: str,
    *,
    comment: str = "",
    now_ms: int,
    modes: Collection[ModeId],
) -> list[Event]:
    """Give what a person's answer appends: the answer, and the mode that it sets, together.

    Raises:
        NotOpen: there is no such question, or it is settled or expired; says how.
        BadOption: the option was not offered.
        UnknownMode: it leads to a mode that the policy no longer has.
    """
    approval = approvals.get(approval_id)
    if approval is None:
        raise NotOpen(f"there is no approval {approval_id[:80]!r} in this session")
    if not approval.status.open:
        raise NotOpen(f"approval {approval_id!r} is already {approval.settled()}")
    if now_ms >= approval.asked.expires:
        raise NotOpen(f"approval {approval_id!r} has expired")
    chosen = [one for one in approval.asked.options if one.id == option]
    if not chosen:
        offered = ", ".join(one.id for one in approval.asked.options)
        raise BadOption(f"option {option[:80]!r} was not offered; offered: {offered}")
    to = chosen[0].to
    if to is not None and to != DEFAULT_MODE and to not in modes:
        raise UnknownMode(to, (DEFAULT_MODE, *modes))
    events: list[Event] = [ApprovalAnswered(approval_id, option, comment[:MAX_COMMENT])]
    return events if to is None else [*events, ModeSet(to)]


def due(approval: Approval, waited_s: float, *, streamed: bool, draining: bool) -> str | None:
    """Tell why a step that waits goes on without an answer now, or None if it waits on."""
    if draining:
        return "shutdown"
    if approval.status is Status.ASKED and waited_s >= NOBODY_S:
        return "nobody"
    if waited_s >= (WAIT_STREAMED_S if streamed else WAIT_WHOLE_S):
        return "timeout"
    return None


def next_due(approval: Approval, waited_s: float, *, streamed: bool) -> float:
    """Give the seconds after which `due` may say something else."""
    limit = WAIT_STREAMED_S if streamed else WAIT_WHOLE_S
    if approval.status is Status.ASKED:
        limit = min(limit, NOBODY_S)
    return max(0.0, limit - waited_s)


def replaced(approvals: Mapping[str, Approval], asked: ApprovalAsked) -> list[Event]:
    """Close what a new question takes the place of: open exit questions of its lane."""
    return [
        ApprovalClosed(one.asked.id, "superseded")
        for one in approvals.values()
        if one.status.open and one.asked.lane == asked.lane and asked.purpose == "exit"
        and one.asked.purpose == "exit"
    ]  # fmt: skip


def joinable(approvals: Mapping[str, Approval], asked: ApprovalAsked, now_ms: int) -> str | None:
    """Find an open question that asks the same for the same lane and is still waited for."""
    for one in approvals.values():
        waiting = one.status in (Status.ASKED, Status.DELIVERED) and now_ms < one.asked.expires
        same = (one.asked.lane, one.asked.purpose, one.asked.text) == (
            asked.lane, asked.purpose, asked.text,
        )  # fmt: skip
        if waiting and same and asked.purpose == "exit":
            return one.asked.id
    return None


def abandoned(approvals: Mapping[str, Approval], lane: str) -> list[Event]:
    """Close a lane's detached questions: its agent goes on with a new message of its user."""
    return [
        ApprovalClosed(one.asked.id, "abandoned")
        for one in approvals.values()
        if one.status is Status.DETACHED and one.asked.lane == lane
    ]


def remember(approvals: Mapping[str, Approval]) -> dict[str, Approval]:
    """Keep open approvals whole, and the last settled ones without their text."""
    settled = [one for one in approvals.values() if not one.status.open][-KEPT_SETTLED:]
    kept = {one.asked.id for one in settled}
    return {
        name: one if one.status.open else replace(one, asked=replace(one.asked, text=""))
        for name, one in approvals.items()
        if one.status.open or name in kept
    }

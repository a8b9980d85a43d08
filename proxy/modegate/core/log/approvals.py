"""The life of an approval: one question to a person and its one answer.

    asked ──► delivered ──► answered
      │           │
      └─────┬─────┘
            ▼
        detached ──► answered          any open state ──► closed

Open are `asked`, `delivered` and `detached`. A question belongs to the steps that wait for its answer: when
the client of the last one goes, it stays open for a short while, in which the same request comes back and
joins it (`open_questions`). A detached question was answered "not approved" in its step;
a plan can still be approved later, a single call not, since it is over. The first answer in the log wins.
While a step waits, the log also says which clients show the question: when none does any more, nobody is
there. The fold applies `TRANSITIONS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from modegate.core.ids import ModeId, StepId
from modegate.core.log.approval_events import (
    ApprovalAnswered,
    ApprovalAsked,
    ApprovalClosed,
    ApprovalDelivered,
    ApprovalDetached,
    ApprovalDropped,
    ApprovalJoined,
    ClientLeft,
)
from modegate.core.log.events import Event

KEPT_SETTLED = 32
"""Settled approvals that a state remembers, so that a late answer is told how they ended."""

MAX_SHOWN = 64
"""Clients that are known to show one question; of more, those that came first are forgotten."""


class Status(StrEnum):
    """Where an approval is in its life."""

    ASKED = "asked"
    DELIVERED = "delivered"
    DETACHED = "detached"
    ANSWERED = "answered"
    CLOSED = "closed"

    @property
    def open(self) -> bool:
        return self not in (Status.ANSWERED, Status.CLOSED)


_SAYS_WHO = (ApprovalDelivered, ClientLeft, ApprovalJoined, ApprovalDropped)
"""Who shows it, and who waits. Only the first who shows it changes the status."""

_ENDS: dict[type[Any], Status] = {
    ApprovalDetached: Status.DETACHED,
    ApprovalAnswered: Status.ANSWERED,
    ApprovalClosed: Status.CLOSED,
}

TRANSITIONS: dict[Status, dict[type[Any], Status]] = {
    Status.ASKED: {
        **dict.fromkeys(_SAYS_WHO, Status.ASKED),
        ApprovalDelivered: Status.DELIVERED,
        **_ENDS,
    },
    Status.DELIVERED: {**dict.fromkeys(_SAYS_WHO, Status.DELIVERED), **_ENDS},
    Status.DETACHED: {**dict.fromkeys(_SAYS_WHO, Status.DETACHED), **_ENDS},
    # Settled: nothing changes any more, whatever the log goes on to say.
    Status.ANSWERED: dict.fromkeys((*_SAYS_WHO, *_ENDS), Status.ANSWERED),
    Status.CLOSED: dict.fromkeys((*_SAYS_WHO, *_ENDS), Status.CLOSED),
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
    """Its step heard the answer: nobody had detached the question before."""
    why: str = ""
    """Why it was closed or detached."""
    shown: tuple[str, ...] = ()
    """The clients that show it now, while a step waits for the answer."""
    waiting: tuple[StepId, ...] = ()
    """The steps that wait for the answer."""
    until: int = 0
    """If no step waits, as its client went away: when it is over, in milliseconds since the epoch."""

    @property
    def open(self) -> bool:
        """Whether a person can still answer it."""
        over = self.asked.purpose == "ask" and self.status is Status.DETACHED
        return self.status.open and not over

    @property
    def asking(self) -> bool:
        """Whether the answer is for a step: one that waits, or one that comes back."""
        return self.status in (Status.ASKED, Status.DELIVERED)

    @property
    def waited_for(self) -> bool:
        """Whether a step may be waiting for the answer."""
        return self.asking and bool(self.waiting)

    @property
    def ends(self) -> int:
        """When it can no longer be answered, in milliseconds since the epoch."""
        return min(self.asked.expires, self.until or self.asked.expires)

    @property
    def approved(self) -> bool:
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
        if self.status is Status.DETACHED:
            return f"over: its step went on without an answer ({self.why})"
        return f"closed: {self.why}"


def opened(asked: ApprovalAsked, at: int) -> Approval:
    """Return a question that is asked now: its step waits for it."""
    return Approval(asked, asked_at=at, waiting=(asked.step,))


def step(approval: Approval, event: Event, by: str) -> Approval:
    """Apply one event to an approval."""
    status = TRANSITIONS[approval.status][type(event)]
    match event:
        case ApprovalDelivered() if approval.asking:
            client = event.client or event.via
            others = [one for one in approval.shown if one != client]
            return replace(approval, status=status, shown=(*others, client)[-MAX_SHOWN:])
        case ClientLeft():
            return replace(approval, shown=tuple(c for c in approval.shown if c != event.client))
        case ApprovalJoined() if approval.asking:
            steps = [one for one in approval.waiting if one != event.step]
            return replace(approval, waiting=(*steps, event.step)[-MAX_SHOWN:], until=0)
        case ApprovalJoined() if approval.until:
            return replace(approval, waited=True, until=0)
        case ApprovalDropped() if approval.asking or approval.until:
            waiting = tuple(one for one in approval.waiting if one != event.step)
            return replace(approval, waiting=waiting, until=0 if waiting else event.until)
        case _ if status is approval.status:
            return approval
        case ApprovalAnswered():
            return replace(
                approval,
                status=status,
                option=event.option,
                by=by,
                comment=event.comment,
                waited=approval.waited_for,
                shown=(),
                waiting=(),
            )
        case ApprovalClosed() | ApprovalDetached():
            return replace(approval, status=status, why=event.why, shown=(), waiting=(), until=0)
        case _:
            return replace(approval, status=status)


def remember(approvals: Mapping[str, Approval]) -> dict[str, Approval]:
    """Keep the approvals that are open or not yet heard of, and the last settled ones without their text."""
    settled = [one for one in approvals.values() if not one.open][-KEPT_SETTLED:]
    kept = {one.asked.id for one in settled}
    return {
        name: one if one.open or one.until else replace(one, asked=replace(one.asked, text=""))
        for name, one in approvals.items()
        if one.open or name in kept
    }

"""The life of an approval: one question to a person and its one answer.

    asked ──► delivered ──► answered
      │           │
      └─────┬─────┘
            ▼
        detached ──► answered          any open state ──► closed

Open are `asked`, `delivered` and `detached`. A question belongs to the steps that wait for its answer: when
the client of the last one goes, it stays open for a short while, in which the same request comes back and
joins it (`reconnect`). A detached question was answered "not approved" in its step;
a plan can still be approved later, a single call not, since it is over. The first answer in the log wins;
what comes late, twice, or for an option that was not offered changes nothing. While a step waits, the log
also says which clients show the question: when none does any more, nobody is there. The fold applies
`TRANSITIONS`; the other functions give the events that somebody may append, with `expect`, and fold again
on a conflict.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Literal

from modegate.core.errors import BadOption, NotOpen, UnknownMode
from modegate.core.ids import DEFAULT_MODE, ModeId, StepId
from modegate.core.log.events import (
    ApprovalAnswered,
    ApprovalAsked,
    ApprovalClosed,
    ApprovalDelivered,
    ApprovalDetached,
    ApprovalDropped,
    ApprovalJoined,
    ClientLeft,
    Event,
    ModeSet,
)

KEPT_SETTLED = 32
"""Settled approvals that a state remembers, so that a late answer is told how they ended."""

EXPIRES_MS = 24 * 60 * 60 * 1000
"""How long a question stays open at most."""

NOBODY_S = 2.0
"""Within this time somebody must have been shown the question, or the step goes on without."""

WAIT_STREAMED_S = 3600.0
WAIT_WHOLE_S = 60.0
"""How long a step waits: a stream is kept alive meanwhile, a body cannot be."""

BACK_S = 60.0
"""How long a question stays open whose client has gone: agents send a request again that broke off."""


@dataclass(frozen=True, slots=True)
class Waits:
    """How long a step waits for a person, and a question for its client, in seconds."""

    nobody: float = NOBODY_S
    streamed: float = WAIT_STREAMED_S
    whole: float = WAIT_WHOLE_S
    back: float = BACK_S

    @property
    def longest(self) -> float:
        """The longest time that any step waits."""
        return max(self.streamed, self.whole)


WAITS = Waits()

MAX_SHOWN = 64
"""Clients that are known to show one question; of more, those that came first are forgotten."""

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


_SAYS_WHO = (ApprovalDelivered, ClientLeft, ApprovalJoined, ApprovalDropped)
"""Who shows it, and who waits: that changes no status, but the first who shows it."""

_ALL = (*_SAYS_WHO, ApprovalDetached, ApprovalAnswered, ApprovalClosed)

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
    Status.ANSWERED: dict.fromkeys(_ALL, Status.ANSWERED),
    Status.CLOSED: dict.fromkeys(_ALL, Status.CLOSED),
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
    shown: tuple[str, ...] = ()
    """The clients that show it now, as long as an answer is waited for."""
    waiting: tuple[StepId, ...] = ()
    """The steps that wait for the answer."""
    until: int = 0
    """Where none does, as its client went away: when it is over, in milliseconds since the epoch."""

    @property
    def open(self) -> bool:
        """Whether a person can still answer it."""
        over = self.asked.purpose == "ask" and self.status is Status.DETACHED
        return self.status.open and not over

    @property
    def asking(self) -> bool:
        """Whether the answer is one for a step: of one that waits, or that comes back."""
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


def answer(
    approvals: Mapping[str, Approval],
    approval_id: str,
    option: str,
    *,
    comment: str = "",
    now_ms: int,
    modes: Collection[ModeId],
) -> list[Event]:
    """Return what a person's answer appends: the answer, and the mode that it sets, together.

    Raises:
        NotOpen: there is no such question, or it is settled or expired; says how.
        BadOption: the option was not offered.
        UnknownMode: it leads to a mode that the policy no longer has.
    """
    approval = approvals.get(approval_id)
    if approval is None:
        raise NotOpen(f"there is no approval {approval_id[:80]!r} in this session")
    if not approval.open:
        raise NotOpen(f"approval {approval_id!r} is already {approval.settled()}")
    if now_ms >= approval.ends:
        how = (
            "is over: its agent went away and did not come back"
            if approval.until
            else "has expired"
        )
        raise NotOpen(f"approval {approval_id!r} {how}")
    chosen = [one for one in approval.asked.options if one.id == option]
    if not chosen:
        offered = ", ".join(one.id for one in approval.asked.options)
        raise BadOption(f"option {option[:80]!r} was not offered; offered: {offered}")
    to = chosen[0].to
    if to is not None and to != DEFAULT_MODE and to not in modes:
        raise UnknownMode(to, (DEFAULT_MODE, *modes))
    events: list[Event] = [ApprovalAnswered(approval_id, option, comment[:MAX_COMMENT])]
    return events if to is None else [*events, ModeSet(to)]


def delivered(
    approvals: Mapping[str, Approval], approval_id: str, via: str, client: str = ""
) -> list[Event]:
    """Return what showing a question to a person appends: once a client, and only while its step waits.

    Raises:
        NotOpen: there is no such question.
    """
    approval = approvals.get(approval_id)
    if approval is None:
        raise NotOpen(f"there is no approval {approval_id[:80]!r} in this session")
    client = client or via
    known = not approval.asking or client in approval.shown
    return [] if known else [ApprovalDelivered(approval_id, via, client)]


def left(
    approvals: Mapping[str, Approval], approval_id: str, client: str, *, reject: bool
) -> list[Event]:
    """Return what it appends that a client shows a question no longer.

    With `reject` its person has dismissed it: an abstention while another client shows it, else a no. Where
    no step waits, it stays open for whoever comes later.
    """
    approval = approvals.get(approval_id)
    if approval is None or not approval.asking:
        return []
    why: Literal["dismissed", "gone"] = "dismissed" if reject else "gone"
    events: list[Event] = [ClientLeft(approval_id, client, why)] if client in approval.shown else []
    no = next((one.id for one in approval.asked.options if one.kind == "reject"), None)
    if reject and no is not None and not set(approval.shown) - {client}:
        events.append(ApprovalAnswered(approval_id, no))
    return events


def due(
    approval: Approval,
    waited_s: float,
    alone_s: float,
    *,
    streamed: bool,
    draining: bool,
    waits: Waits = WAITS,
) -> Literal["nobody", "timeout", "shutdown"] | None:
    """Return why a step that waits goes on without an answer now, or None if it waits on.

    `alone_s` is for how long no client has shown the question.
    """
    if draining:
        return "shutdown"
    if waited_s >= (waits.streamed if streamed else waits.whole):
        return "timeout"
    if not approval.shown and alone_s >= waits.nobody:
        return "nobody"
    return None


def next_due(
    approval: Approval, waited_s: float, alone_s: float, *, streamed: bool, waits: Waits = WAITS
) -> float:
    """Return the seconds after which `due` may say something else."""
    left_s = (waits.streamed if streamed else waits.whole) - waited_s
    if not approval.shown:
        left_s = min(left_s, waits.nobody - alone_s)
    return max(0.0, left_s)


def replaced(approvals: Mapping[str, Approval], asked: ApprovalAsked) -> list[Event]:
    """Close what a new question takes the place of: open exit questions of its lane."""
    return [
        ApprovalClosed(one.asked.id, "superseded")
        for one in approvals.values()
        if one.status.open
        and one.asked.lane == asked.lane
        and one.asked.purpose == asked.purpose == "exit"
    ]


def joinable(approvals: Mapping[str, Approval], asked: ApprovalAsked, now_ms: int) -> str | None:
    """Find a question that asks the same for the same lane: a plan for which another step waits, or either
    kind whose client went away and comes back with the same request, also if it was answered meanwhile.

    What was answered is no answer to a plan that is submitted again since its user has said more.
    """
    for one in approvals.values():
        if now_ms >= one.ends or not _same(one.asked, asked):
            continue
        again = asked.purpose == "exit" and one.asking and (one.until > 0 or one.waited_for)
        if again or (one.until > 0 and one.asked.place == asked.place):
            return one.asked.id
    return None


def _same(one: ApprovalAsked, other: ApprovalAsked) -> bool:
    return (one.purpose, one.lane, one.tool, one.text, one.options) == (
        other.purpose, other.lane, other.tool, other.text, other.options,
    )  # fmt: skip


def moved_on(approvals: Mapping[str, Approval], lane: str | None, place: str) -> tuple[str, ...]:
    """Name a lane's open questions that its user may have moved on from: `place` is where the history ends.

    None stands for all lanes, where it is not known which one it is.

    The same request sent again is no new message, so that it closes nothing. Those that a step waits for are
    not closed, see `abandoned`.
    """
    return tuple(
        one.asked.id
        for one in approvals.values()
        if one.open and lane in (None, one.asked.lane) and one.asked.place != place
    )


def abandoned(
    approvals: Mapping[str, Approval], ids: Collection[str], now_ms: int, waits: Waits = WAITS
) -> list[Event]:
    """Close those of some questions for whose answer no step waits any more.

    A lane is a guess where an agent does not name it: another conversation that begins with the same words
    must not take away a question that a person reads. A step that was killed leaves its question behind,
    which nobody can have waited for longer than the longest wait.
    """
    longest = 1000 * waits.longest
    found = (approvals[one] for one in ids if one in approvals)
    return [
        ApprovalClosed(one.asked.id, "abandoned")
        for one in found
        if one.open and not (one.waited_for and now_ms <= one.asked_at + longest)
    ]


def remember(approvals: Mapping[str, Approval]) -> dict[str, Approval]:
    """Keep approvals whole that are open or not yet heard of, and the last settled ones without text."""
    settled = [one for one in approvals.values() if not one.open][-KEPT_SETTLED:]
    kept = {one.asked.id for one in settled}
    return {
        name: one if one.open or one.until else replace(one, asked=replace(one.asked, text=""))
        for name, one in approvals.items()
        if one.open or name in kept
    }

"""What is appended about open questions: by requests that begin, break off or come again (R1), and by people.

A question belongs to the steps that wait for its answer. When the client of the last one goes, the question
stays open for a short while, and so does a person's dialog. It is over then. A step of the same request keeps
it open meanwhile, as its model has to come to the same question first, and then joins it. The step that joins
hears what was answered in between.

Events of a person, and of a client that shows a question to one, are appended with `expect`. On a conflict
the caller folds again and asks again. What comes late, twice, or for an option that was not offered changes
nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from modegate.core.errors import BadOption, NotOpen, UnknownMode
from modegate.core.ids import DEFAULT_MODE, Lane, ModeId, StepId
from modegate.core.log.approval_events import (
    ApprovalAnswered,
    ApprovalAsked,
    ApprovalClosed,
    ApprovalDelivered,
    ApprovalDropped,
    ClientLeft,
)
from modegate.core.log.approvals import Approval
from modegate.core.log.events import Event, ModeSet

MAX_COMMENT = 4_000
"""Characters of a person's words; the model gets them."""


def replaced(approvals: Mapping[str, Approval], asked: ApprovalAsked) -> list[Event]:
    """Close what a new exit question replaces: the open exit questions of its lane."""
    return [
        ApprovalClosed(one.asked.id, "superseded")
        for one in approvals.values()
        if one.status.open
        and one.asked.lane == asked.lane
        and one.asked.purpose == asked.purpose == "exit"
    ]


def joinable(approvals: Mapping[str, Approval], asked: ApprovalAsked, now_ms: int) -> str | None:
    """Find a question of this lane that asks the same; None if there is none.

    It is a plan for which another step waits, or a question of either kind whose client went away and comes
    back with the same request. The latter may have been answered meanwhile. An answered plan that is
    submitted again after its user has said more is a new question.
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
    """Return the open questions of a lane that its user may have moved on from.

    The same request sent again is no new message and closes nothing. A question that a step waits for is not
    closed either (`waiting.abandoned`).

    Args:
        approvals: those of the session.
        lane: None for all lanes, if the request's own is not known.
        place: where the request's history ends.
    """
    return tuple(
        one.asked.id
        for one in approvals.values()
        if one.open and lane in (None, one.asked.lane) and one.asked.place != place
    )


def away(approval: Approval) -> bool:
    """Return whether no step waits for the answer now, but one may come back for it."""
    return approval.until > 0 and not approval.waiting


def returned(approvals: Mapping[str, Approval], lane: Lane, place: str) -> tuple[str, ...]:
    """Return the questions that the same request has asked before; `place` is where its history ends."""
    return tuple(
        one.asked.id
        for one in approvals.values()
        if away(one) and one.asked.lane == lane and one.asked.place == place
    )


def dropped(
    approvals: Mapping[str, Approval], step: StepId, kept: Collection[str], until: int
) -> list[ApprovalDropped]:
    """Return what a step appends that no longer waits for any question, nor keeps one open."""
    return [
        ApprovalDropped(one.asked.id, step, until)
        for one in approvals.values()
        if step in one.waiting or (one.asked.id in kept and away(one))
    ]


def kept(
    approvals: Mapping[str, Approval], step: StepId, ids: Collection[str], now_ms: int, until: int
) -> list[ApprovalDropped]:
    """Return what a step appends that has come back, since it may ask these questions again."""
    return [
        ApprovalDropped(one.asked.id, step, until)
        for one in approvals.values()
        if one.asked.id in ids and away(one) and now_ms < one.ends
    ]


def over(approvals: Mapping[str, Approval], now_ms: int) -> list[ApprovalClosed]:
    """Close the questions for which no step came back in time."""
    return [
        ApprovalClosed(one.asked.id, "abandoned")
        for one in approvals.values()
        if one.asking and away(one) and now_ms >= one.until
    ]


def next_over(approvals: Mapping[str, Approval], now_ms: int) -> int | None:
    """Return when the next question without a waiting step is over; None if there is none."""
    found = (one.until for one in approvals.values() if away(one) and one.until > now_ms)
    return min(found, default=None)


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
    """Return what a client appends that shows a question: once, and only while a step waits.

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
    """Return what a client appends that no longer shows a question.

    With `reject`, its person has dismissed the question. That is an abstention while another client shows
    it, else a no. If no step waits, the question stays open for whoever comes later.
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

"""What becomes of a lane's open questions when a request begins, breaks off, or comes again (R1).

A question belongs to the steps that wait for its answer. When the client of the last one goes, the question
stays open for a short while, and so does a person's dialog. It is over then. A step of the same request keeps
it open meanwhile, as its model has to come to the same question first, and then joins it. The step that joins
hears what was answered in between.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from modegate.core.ids import Lane, StepId
from modegate.core.log.approval_events import ApprovalAsked, ApprovalClosed, ApprovalDropped
from modegate.core.log.approvals import Approval
from modegate.core.log.events import Event


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

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


def away(approval: Approval) -> bool:
    """Return whether no step waits for it, but one may come back: for the answer, or to hear it."""
    return approval.until > 0 and not approval.waiting


def returned(approvals: Mapping[str, Approval], lane: Lane, place: str) -> tuple[str, ...]:
    """Name the questions that the same request has asked before: `place` is where its history ends."""
    return tuple(
        one.asked.id
        for one in approvals.values()
        if away(one) and one.asked.lane == lane and one.asked.place == place
    )


def dropped(
    approvals: Mapping[str, Approval], step: StepId, kept: Collection[str], until: int
) -> list[ApprovalDropped]:
    """Return what it appends that a step waits for nothing any more, nor keeps anything."""
    return [
        ApprovalDropped(one.asked.id, step, until)
        for one in approvals.values()
        if step in one.waiting or (one.asked.id in kept and away(one))
    ]


def kept(
    approvals: Mapping[str, Approval], step: StepId, ids: Collection[str], now_ms: int, until: int
) -> list[ApprovalDropped]:
    """Return what it appends that a step has come back and may come to these questions again."""
    return [
        ApprovalDropped(one.asked.id, step, until)
        for one in approvals.values()
        if one.asked.id in ids and away(one) and now_ms < one.ends
    ]


def over(approvals: Mapping[str, Approval], now_ms: int) -> list[ApprovalClosed]:
    """Close those for which nobody came back in time."""
    return [
        ApprovalClosed(one.asked.id, "abandoned")
        for one in approvals.values()
        if one.asking and away(one) and now_ms >= one.until
    ]


def next_over(approvals: Mapping[str, Approval], now_ms: int) -> int | None:
    """Return when the next one is over for which nobody may come back; None if there is none."""
    found = (one.until for one in approvals.values() if away(one) and one.until > now_ms)
    return min(found, default=None)

"""A client that drops its request and sends the same one again: its question is still there (R1).

A question belongs to the steps that wait for its answer. When the client of the last one goes, the question
stays open for a short while, and so does a person's dialog; it is over then. A step of the same request keeps
it meanwhile, as its model has to come to the same question first, and then joins it. What was answered in
between is heard by the step that joins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from modegate.core.ids import Lane, StepId
from modegate.core.log.approvals import Approval
from modegate.core.log.events import ApprovalClosed, ApprovalDropped


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

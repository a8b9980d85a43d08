"""How long a step waits for a person, under the policy's `approvals`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from modegate.core.log.approval_events import ApprovalClosed
from modegate.core.log.approvals import Approval
from modegate.core.policy.model import WAITS, Waits


def due(
    approval: Approval,
    waited_s: float,
    alone_s: float,
    *,
    streamed: bool,
    draining: bool,
    waits: Waits = WAITS,
) -> Literal["nobody", "timeout", "shutdown"] | None:
    """Return why a waiting step goes on without an answer now; None if it waits on.

    `alone_s` says for how long no client has shown the question.
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


def abandoned(
    approvals: Mapping[str, Approval], ids: Collection[str], now_ms: int, waits: Waits = WAITS
) -> list[ApprovalClosed]:
    """Close those of these questions whose answer no step waits for any more.

    If an agent does not name its lanes, a lane is a guess. Another conversation that begins with the same
    words must not take away a question that a person reads. A step that was killed leaves its question
    behind; no step can have waited for it longer than the longest wait.
    """
    longest = 1000 * waits.longest
    found = (approvals[one] for one in ids if one in approvals)
    return [
        ApprovalClosed(one.asked.id, "abandoned")
        for one in found
        if one.open and not (one.waited_for and now_ms <= one.asked_at + longest)
    ]

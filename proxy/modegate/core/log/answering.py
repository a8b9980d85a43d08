"""What a person, or a client that shows a question to one, appends about it.

Each function returns the events to append with `expect`. On a conflict the caller folds again and asks again.
What comes late, twice, or for an option that was not offered changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from modegate.core.errors import BadOption, NotOpen, UnknownMode
from modegate.core.ids import DEFAULT_MODE, ModeId
from modegate.core.log.approval_events import ApprovalAnswered, ApprovalDelivered, ClientLeft
from modegate.core.log.approvals import Approval
from modegate.core.log.events import Event, ModeSet

MAX_COMMENT = 4_000
"""Characters of a person's words; the model gets them."""


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

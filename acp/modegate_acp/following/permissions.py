"""What a client's answer to a permission request means. Pure.

Only an option that was offered to that connection counts. Whatever else comes is never a yes: not an
error, not an option of another question, not a malformed answer.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from modegate.core.levels import to_answer
from modegate.core.log.approval_events import ApprovalAsked, Option
from modegate.core.policy.model import Level
from modegate_acp.messages.jsonrpc import Reply


@dataclass(frozen=True, slots=True)
class Chosen:
    """The person chose this option."""

    option: str


@dataclass(frozen=True, slots=True)
class Abstained:
    """The person, or their client, did not decide."""

    cancelled: bool
    """Said so in the protocol's own words, so that it is a no if nobody else is left to decide."""
    why: str = "cancelled"


def outcome(reply: Reply, offered: Collection[str]) -> Chosen | Abstained:
    """Read an answer to `session/request_permission`."""
    if reply.error is not None:
        return Abstained(cancelled=False, why="the client answered with an error")
    told = reply.result.get("outcome") if isinstance(reply.result, dict) else None
    kind = told.get("outcome") if isinstance(told, dict) else None
    if not isinstance(told, dict) or kind not in ("selected", "cancelled"):
        return Abstained(cancelled=False, why="the answer is malformed")
    if kind == "cancelled":
        return Abstained(cancelled=True)
    option = told.get("optionId")
    if not isinstance(option, str) or option not in offered:
        return Abstained(cancelled=False, why="the option was not offered")
    return Chosen(option)


def offered(asked: ApprovalAsked, level: Level, *, one_way: bool = False) -> tuple[Option, ...]:
    """Return the options that a connection of this level may choose; a rejection last.

    With `one_way`, only the first that approves: the client shows its person no difference between them.
    """
    may = [one for one in asked.options if level.covers(to_answer(one.kind))]
    ways = [one for one in may if one.kind != "reject"]
    return (*(ways[:1] if one_way else ways), *(one for one in may if one.kind == "reject"))

"""What an answer to a permission request means, and what a connection may choose."""

from __future__ import annotations

from typing import Any

import pytest

from modegate.core.ids import CallId, Lane, ModeId, StepId, ToolName
from modegate.core.log.approval_events import ApprovalAsked, Option
from modegate.core.policy.model import Level
from modegate_acp.messages.jsonrpc import Reply
from modegate_acp.render.questions import Abstained, Chosen, may_choose, outcome

OFFERED = ("approve", "reject")


def selected(option: Any) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option}}


REPLIES: dict[str, tuple[Reply, Chosen | bool]] = {
    "approve": (Reply("r", selected("approve")), Chosen("approve")),
    "reject": (Reply("r", selected("reject")), Chosen("reject")),
    "cancelled": (Reply("r", {"outcome": {"outcome": "cancelled"}}), True),
    "cancelled and chosen": (
        Reply("r", {"outcome": {"outcome": "cancelled", "optionId": "approve"}}),
        True,
    ),
    "not offered": (Reply("r", selected("allow_always")), False),
    "another case": (Reply("r", selected("Approve")), False),
    "a list": (Reply("r", selected(["approve"])), False),
    "none": (Reply("r", selected(None)), False),
    "flat": (Reply("r", {"outcome": "selected", "optionId": "approve"}), False),
    "unknown": (Reply("r", {"outcome": {"outcome": "approved", "optionId": "approve"}}), False),
    "a list as outcome": (Reply("r", {"outcome": {"outcome": ["selected"]}}), False),
    "text": (Reply("r", "approve"), False),
    "an error": (Reply("r", None, {"code": -32601, "message": "unknown"}), False),
    "an error beside a yes": (Reply("r", selected("approve"), {"code": 1}), False),
    "an error of false": (Reply("r", selected("approve"), False), False),
}


@pytest.mark.parametrize("case", REPLIES.values(), ids=REPLIES)
def test_outcomes(case: tuple[Reply, Chosen | bool]) -> None:
    reply, expected = case
    found = outcome(reply, OFFERED)
    if isinstance(expected, Chosen):
        assert found == expected
    else:
        assert isinstance(found, Abstained)
        assert found.cancelled is expected


OPTIONS = (
    Option("reject", "Reject", "reject"),
    Option("a", "A", "approve", ModeId("a")),
    Option("b", "B", "approve", ModeId("b")),
)
ASKED = ApprovalAsked(
    "q", StepId("s"), Lane("l"), CallId("c"), ToolName("t"), "exit", "plan", OPTIONS, 0
)


@pytest.mark.parametrize(
    ("level", "names"),
    [(Level.FULL, ["a", "b", "reject"]), (Level.TIGHTEN, ["reject"]), (Level.OBSERVE, [])],
)
def test_a_rejection_is_always_last(level: Level, names: list[str]) -> None:
    assert [one.id for one in may_choose(ASKED, level)] == names

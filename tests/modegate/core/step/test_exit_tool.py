"""When a mode can be left by its tool, what a plan must be, and what a person may answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.ids import Lane, ModeId, Seq, SessionId, StepId
from modegate.core.log.approval_events import Option
from modegate.core.log.events import ModeSet
from modegate.core.log.fold import State, fold
from modegate.core.log.records import Record
from modegate.core.policy.in_force import combine, modes_in_force
from modegate.core.policy.model import Exit, ExitOption
from modegate.core.step import exit_tool
from modegate.core.step.answer.calls import Gathered
from modegate.core.step.exit_tool import MAX_PLAN
from support.playbook import mode, policy

DEFAULT, REVIEW = ModeId("default"), ModeId("review")
EXIT = Exit((ExitOption("Approve", DEFAULT),))
RULES = policy(mode("plan", "read", exit=EXIT), mode("review", "read"))
WHO = (StepId("0" * 20), Lane("main"), 2)


def in_mode(name: str | None, by: str = "person:test", seq: int = 1) -> State:
    """Return the state of a session in this mode."""
    if name is None:
        return State()
    return fold(State(), Record(Seq(seq), 0, by, ModeSet(ModeId(name))))


def submitted(arguments: str, name: str = "exit_plan_mode") -> Gathered:
    """Return a call as the model wrote it."""
    return Gathered(0, "function", id="c1", names=[name], pieces=[arguments])


@pytest.mark.parametrize(("own", "parent", "leaves"), [
    ("plan", None, True), ("review", None, False), (None, None, False), (None, "plan", False),
    ("default", "plan", False),
], ids=["with-an-exit", "without", "default", "a-parents", "out-of-a-parents"])  # fmt: skip
def test_exit_of(own: str | None, parent: str | None, *, leaves: bool) -> None:
    """A session leaves its own mode; a child of one in plan is not let out by a plan of its own."""
    chain = [(SessionId("child"), in_mode(own)), (SessionId("parent"), in_mode(parent))]
    assert (exit_tool.exit_of(modes_in_force(RULES, chain)) is EXIT) is leaves


def test_exit_of_two_modes() -> None:
    """Where the parent's mode, or the one that the step began under, is in force too, there is none."""
    ours = (SessionId("child"), in_mode("plan", by="policy"))
    both = modes_in_force(RULES, [ours, (SessionId("parent"), in_mode("plan"))])
    assert len(both.modes) == 2
    assert exit_tool.exit_of(both) is None
    first, later = (
        modes_in_force(RULES, [(SessionId("s"), in_mode("plan", seq=n))]) for n in (1, 5)
    )
    assert exit_tool.exit_of(first) is exit_tool.exit_of(later) is EXIT
    assert exit_tool.exit_of(combine(first, later)) is None


REFUSED: dict[str, tuple[Any, str]] = {
    "missing": ({}, "needs the argument 'plan'"),
    "null": ({"plan": None}, "needs the argument 'plan'"),
    "in-another-case": ({"Plan": "x"}, "needs the argument 'plan'"),
    "no-object": (["x"], "needs the argument 'plan'"),
    "an-object": ({"plan": {"steps": ["x"]}}, "must be a string"),
    "a-list": ({"plan": ["x"]}, "must be a string"),
    "a-number": ({"plan": 7}, "must be a string"),
    "a-truth": ({"plan": True}, "must be a string"),
    "empty": ({"plan": ""}, "is empty"),
    "blank": ({"plan": " \t\r\n\u00a0\u2003"}, "is empty"),
    "over": ({"plan": "x" * (MAX_PLAN + 1)}, "over 256 KB"),
    "over-in-bytes": ({"plan": "é" * (MAX_PLAN // 2 + 1)}, "over 256 KB"),
}


@pytest.mark.parametrize(("arguments", "why"), REFUSED.values(), ids=REFUSED)
def test_no_plan(arguments: Any, why: str) -> None:
    """Nobody is asked about what nobody could read; the model is told what is wrong."""
    for ascii_ in (True, False):
        with pytest.raises(ValueError, match=why):
            exit_tool.plan_of(submitted(json.dumps(arguments, ensure_ascii=ascii_)))


@pytest.mark.parametrize(
    "raw", ["", "{", '{"plan":"a","plan":"b"}', '{"plan":NaN}', '"x"', '{"plan":"\\ud83d"}']
)
def test_arguments_that_cannot_be_read(raw: str) -> None:
    """Broken JSON, duplicate keys, half an emoji: there is no one plan in it."""
    with pytest.raises(ValueError, match="needs the argument"):
        exit_tool.plan_of(submitted(raw))


@pytest.mark.parametrize("plan", [
    "x" * MAX_PLAN, "é" * (MAX_PLAN // 2), "x" * 200_000, " # P \n", "\x00\x1b[31m\u202e<script>&lt;",
    "\U0001f600",
], ids=["256-KB", "256-KB-in-bytes", "200-KB", "spaces", "control-and-markup", "emoji"])  # fmt: skip
def test_a_plan_is_kept_as_it_is(plan: str) -> None:
    """It is data, with all that is in it; other arguments beside it do not matter."""
    for ascii_ in (True, False):
        arguments = json.dumps({"plan": plan, "more": 1}, ensure_ascii=ascii_)
        assert exit_tool.plan_of(submitted(arguments)) == plan


def test_what_the_agents_own_tool_carries_beside_the_plan_is_shown() -> None:
    """The agent gets all of it, once the plan is approved; of ours only the plan counts."""
    more = {"allowedPrompts": [{"tool": "Bash", "prompt": "run anything"}]}
    call = submitted(json.dumps({"plan": "# P", **more}), "ExitPlanMode")
    assert exit_tool.question(call, EXIT, WHO, "1:k").text == "# P"
    shown = exit_tool.question(call, EXIT, WHO, "1:k", native=True).text
    assert shown.startswith("# P\n")
    assert '"prompt": "run anything"' in shown
    plain = submitted('{"plan":"# P"}')
    assert exit_tool.question(plain, EXIT, WHO, "1:k", native=True).text == "# P"
    long = submitted(json.dumps({"plan": "# P", "more": "x" * MAX_PLAN}))
    with pytest.raises(ValueError, match="too long"):
        exit_tool.native_plan_of(long)


def test_options() -> None:
    """One way out is `approve`, several are numbered; to reject is always offered, and last."""
    assert exit_tool.exit_options(EXIT) == (
        Option("approve", "Approve", "approve", DEFAULT),
        Option("reject", "Reject", "reject"),
    )
    two = Exit((ExitOption("All", DEFAULT), ExitOption("Careful", REVIEW)))
    assert exit_tool.exit_options(two) == (
        Option("approve-1", "All", "approve", DEFAULT),
        Option("approve-2", "Careful", "approve", REVIEW),
        Option("reject", "Reject", "reject"),
    )


def test_the_question() -> None:
    """About a plan it shows the plan, about a call its arguments as they are; ids differ in a step."""
    plan = exit_tool.question(submitted('{"plan":"# P"}'), EXIT, WHO, "1:k")
    assert (plan.purpose, plan.text, plan.place) == ("exit", "# P", "1:k")
    assert plan.id == f"mg-perm-{WHO[0]}-2"
    fetch = submitted('{ "u":1.0 }', "n" * 999)
    one = exit_tool.question(fetch, None, (WHO[0], WHO[1], 3), "1:k")
    assert (one.purpose, one.text, len(one.tool)) == ("ask", '{ "u":1.0 }', 256)
    assert one.id != plan.id
    # No answer to a single call sets a mode.
    assert [(option.id, option.to) for option in one.options] == [
        ("allow_once", None),
        ("reject", None),
    ]

"""A list of tools becomes rules, each knowing its place in the file."""

from __future__ import annotations

import pytest

from modegate.core.policy.conditions import Condition, When
from modegate.core.policy.document import read_document
from modegate.core.policy.model import Effect, Rule
from modegate.core.policy.modes import read_tools


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a]", ((Rule(Effect.ALLOW, "a", at=0),), False)),
        ("[exit_plan_mode, {deny: b}]", ((Rule(Effect.DENY, "b", at=1),), True)),
        ("[{allow: exit_plan_mode}]", ((), True)),
        ("['exit_*']", ((Rule(Effect.ALLOW, "exit_*", at=0),), False)),
        (
            "[{ask: a, when: {x: {equals: null}, y: {glob: z*}, w: {one_of: [1]}}}]",
            (
                (
                    Rule(
                        Effect.ASK,
                        "a",
                        When({"x": Condition(), "y": Condition(glob="z*"), "w": Condition(one_of=(1,))}),
                        at=0,
                    ),
                ),
                False,
            ),
        ),
    ],
)  # fmt: skip
def test_tools_are_rules(text: str, expected: object) -> None:
    place = read_document(text)
    assert read_tools(place) == expected
    assert place.document.problems == []


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("{a: b}", ""),
        ("[]", ""),
        ("[1]", "[0]"),
        ("[{allow: 1}]", "[0].allow"),
        ("[{allow: a, ask: b}]", "[0]"),
        ("[{when: {a: {equals: 1}}}]", "[0]"),
        ("[{allow: exit_plan_mode, when: {a: {equals: 1}}}]", "[0]"),
        ("[{allow: a, when: b}]", "[0].when"),
        ("[{allow: a, when: {}}]", "[0].when"),
        ("[{allow: a, when: {b: {equals: 1}, others: some}}]", "[0].when.others"),
        ("[{allow: a, when: {b: c}}]", "[0].when.b"),
        ("[{allow: a, when: {b: {}}}]", "[0].when.b"),
        ("[{allow: a, when: {b: {equals: on}}}]", "[0].when.b.equals"),
        ("[{allow: a, when: {b: {glob: [c]}}}]", "[0].when.b.glob"),
        ("[{allow: a, when: {b: {one_of: c}}}]", "[0].when.b.one_of"),
    ],
)
def test_what_is_no_rule_is_a_problem(text: str, path: str) -> None:
    place = read_document(text)
    assert read_tools(place)[1] is False
    assert [problem.path for problem in place.document.problems] == [path]

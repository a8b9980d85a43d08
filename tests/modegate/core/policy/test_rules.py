"""A list of tools becomes rules, each knowing its place in the file."""

from __future__ import annotations

import pytest

from modegate.core.policy.conditions import Equals, Glob, OneOf
from modegate.core.policy.file.document import read_document
from modegate.core.policy.file.modes import read_tools
from modegate.core.policy.model import Effect, Rule
from modegate.core.policy.when import When


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a]", ((Rule(Effect.ALLOW, "a", at=0),), False)),
        ("[exit_plan_mode, {deny: b}]", ((Rule(Effect.DENY, "b", at=1),), True)),
        ("[{allow: exit_plan_mode}]", ((), True)),
        ("['exit_*']", ((Rule(Effect.ALLOW, "exit_*", at=0),), False)),
        (
            "[{allow: a, when: {x: {equals: null}, y: {glob: z*}, w: {one_of: [1]}}}]",
            (
                (
                    Rule(
                        Effect.ALLOW,
                        "a",
                        When({"x": Equals(), "y": Glob(("z*",)), "w": OneOf((1,))}),
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
        ("[{allow: a, when: {b: {glob: []}}}]", "[0].when.b.glob"),
        ("[{allow: a, when: {b: {glob: {c: d}}}}]", "[0].when.b.glob"),
        ("[{deny: a, when: {b: {equals: 1}}}]", "[0].when"),
        ("[{ask: a, when: {b: {equals: 1}, optional: [b]}}]", "[0].when"),
        ("[{allow: a, when: {b: {equals: 1}, others: [b]}}]", "[0].when.others[0]"),
        ("[{allow: a, when: {b: {equals: 1}, others: ['c.']}}]", "[0].when.others[0]"),
        ("[{allow: a, when: {b: {equals: 1}, optional: [c]}}]", "[0].when.optional[0]"),
        ("[{allow: a, when: {b: {absent: true}, optional: [b]}}]", "[0].when.optional[0]"),
        ("[{allow: a, when: {b: {equals: 1}, optional: []}}]", "[0].when.optional"),
        ("[{allow: a, when: {b: {equals: 1}, optional: any}}]", "[0].when.optional"),
        ("[{allow: a, when: {b..c: {equals: 1}}}]", "[0].when.b..c"),
        ("[{allow: a, when: {'b[0]': {equals: 1}}}]", "[0].when.b[0]"),
        ("[{allow: a, when: {a.b.c.d.e.f.g.h.i: {equals: 1}}}]", "[0].when.a.b.c.d.e.f.g.h.i"),
        ("[{allow: a, when: {b: {absent: false}}}]", "[0].when.b.absent"),
        ("[{allow: a, when: {b: {range: {}}}}]", "[0].when.b.range"),
        ("[{allow: a, when: {b: {range: {min: a}}}}]", "[0].when.b.range.min"),
        ("[{allow: a, when: {b: {range: {max: true}}}}]", "[0].when.b.range.max"),
        ("[{allow: a, when: {b: {range: {min: 2, max: 1}}}}]", "[0].when.b.range"),
        ("[{allow: a, when: {b: {not: {}}}}]", "[0].when.b.not"),
        ("[{allow: a, when: {b: {not: {equals: 1, glob: a}}}}]", "[0].when.b.not"),
        ("[{allow: a, when: {b: {not: {not: {equals: 1}}}}}]", "[0].when.b.not.not"),
        ("[{allow: a, when: {b: {not: {absent: true}}}}]", "[0].when.b.not.absent"),
        ("[{allow: a, when: {b: {one_of: c}}}]", "[0].when.b.one_of"),
    ],
)
def test_what_is_no_rule_is_a_problem(text: str, path: str) -> None:
    place = read_document(text)
    assert read_tools(place)[1] is False
    assert [problem.path for problem in place.document.problems] == [path]


@pytest.mark.parametrize(
    "when",
    [
        "{" + ", ".join(f"a{n}: {{equals: 1}}" for n in range(65)) + "}",
        "{a: {one_of: [" + ", ".join(map(str, range(1025))) + "]}}",
        "{a: {glob: [" + ", ".join(f"a{n}" for n in range(1025)) + "]}}",
        "{a: {path: {under: [" + ", ".join(f"a{n}" for n in range(1025)) + "]}}}",
        "{a: {equals: 1}, others: [" + ", ".join(f"b{n}" for n in range(1025)) + "]}",
    ],
    ids=["conditions", "values", "globs", "folders", "others"],
)
def test_a_rule_has_bounds(when: str) -> None:
    place = read_document(f"[{{allow: t, when: {when}}}]")
    read_tools(place)
    (problem,) = place.document.problems
    assert "has more than" in problem.message

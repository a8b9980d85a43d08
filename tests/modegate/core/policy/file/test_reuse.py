"""What a mode takes over: packs with `use`, and another mode with `extends`."""

from __future__ import annotations

from typing import Any

import pytest

from modegate.core.dialects.registered import DIALECTS
from modegate.core.ids import ModeId, ToolName
from modegate.core.policy.file import policy
from modegate.core.policy.file.packs_text import read_packs
from modegate.core.policy.file.problems import PolicyProblems
from modegate.core.policy.judge import ToolCall, judge
from modegate.core.policy.model import Effect, Mode

PACKS = read_packs("""
read-only:
  one: {agent: One 1.0, tools: [read, look, {allow: edit, when: {command: {equals: view}}}]}
  two: {agent: Two 2.0, tools: [read, {allow: edit, when: {command: {equals: show}}}]}
tests:
  one: {agent: One 1.0, tools: [run_tests]}
""")


def parse(text: str) -> Any:
    return policy.parse(text, DIALECTS.names, PACKS)


def rules(tools: str) -> list[str]:
    mode: Mode = parse(f"modes: {{plan: {{section: s, tools: {tools}}}}}").modes[ModeId("plan")]
    return [f"{rule.place(at)} {rule.pattern}" for at, rule in enumerate(mode.rules)]


def problems(text: str) -> list[str]:
    with pytest.raises(PolicyProblems) as caught:
        parse(text)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        (
            "[{use: read-only/one}]",
            [f"use[0] read-only/one {name}" for name in ("read", "look", "edit")],
        ),
        (
            "[first, {use: read-only}, last]",
            [
                "tools[0] first",
                "use[1] read-only/one read",
                "use[1] read-only/one look",
                "use[1] read-only/one edit",
                "use[1] read-only/two edit",
                "tools[2] last",
            ],
        ),
        (
            "[{use: [tests, read-only/two]}]",
            [
                "use[0] tests/one run_tests",
                "use[0] read-only/two read",
                "use[0] read-only/two edit",
            ],
        ),
        (
            "[{use: [tests/one, tests]}, {use: tests}]",
            ["use[0] tests/one run_tests", "use[1] tests/one run_tests"],
        ),
    ],
    ids=["one pack", "all packs between others", "a list", "twice"],
)
def test_packs_are_put_where_they_are_named(tools: str, expected: list[str]) -> None:
    assert rules(tools) == expected


def test_a_rule_in_front_of_a_pack_wins_and_a_judgement_names_the_pack() -> None:
    text = "modes: {plan: {section: s, tools: [{deny: look}, {use: read-only}, {allow: look}]}}"
    plan = parse(text).modes["plan"]
    assert judge(plan, ToolCall(ToolName("look"), {})).rule == 'tools[0] deny "look"'
    read = judge(plan, ToolCall(ToolName("read"), {}))
    assert read.rule == 'use[1] read-only/one allow "read"'
    shown = judge(plan, ToolCall(ToolName("edit"), {"command": "show"}))
    assert shown.rule == 'use[1] read-only/two allow "edit"'


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{use: read-only/tow}", "no such pack; did you mean 'read-only/two'? (found 'read-only/tow')"),
        ("{use: [tests, readonly]}", "no such pack; did you mean 'read-only'? (found 'readonly')"),
        ("{use: /}", "no such pack; known: read-only, tests, read-only/one"),
        ("{use: []}", "must not be empty"),
        ("{use: {a: b}}", "must be a string"),
        ("{use: tests, allow: read}", "use stands alone"),
        ("{use: tests, when: {a: {equals: b}}}", "use stands alone"),
        ("{user: tests}", "unknown key; did you mean 'use'?"),
    ],
)  # fmt: skip
def test_what_use_cannot_name_is_a_problem(entry: str, message: str) -> None:
    found = problems(f"modes: {{plan: {{section: s, tools: [read, {entry}]}}}}")
    assert any(message in problem for problem in found), found


def test_what_packs_say_is_part_of_a_policys_meaning() -> None:
    """A pack that changes with the package changes the hash; where its rules come from does not."""
    by_pack = parse("modes: {plan: {section: s, tools: [{use: [read-only/two]}]}}")
    written = parse(
        "modes: {plan: {section: s, tools: [read, {allow: edit, when: {command: {equals: show}}}]}}"
    )
    assert by_pack.hash == written.hash
    other = read_packs("read-only: {two: {agent: Two 2.1, tools: [read]}}")
    text = "modes: {plan: {section: s, tools: [{use: [read-only/two]}]}}"
    assert policy.parse(text, DIALECTS.names, other).hash != by_pack.hash


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("read-only: {one: {agent: One}}", "needs the key 'tools'"),
        ("read-only: {one: {tools: [read]}}", "needs the key 'agent'"),
        ("read-only: {one: {agent: One, tools: [exit_plan_mode]}}", "a pack cannot open an exit"),
        ("read-only: {one/two: {agent: One, tools: [a]}}", "must be 1 to 64 letters"),
        ("read/only: {one: {agent: One, tools: [a]}}", "must be 1 to 64 letters"),
        ("read-only: {one: {agent: One, tools: [{use: read-only}]}}", "no such pack"),
        ("read-only: {one: {agent: One, tools: [yes]}}", "quote it"),
        ("read-only: []", "must be a mapping"),
    ],
)
def test_a_pack_is_held_to_the_rules_of_a_policy(text: str, message: str) -> None:
    with pytest.raises(PolicyProblems) as caught:
        read_packs(text)
    assert message in str(caught.value)


def test_rules_of_packs_count_as_values_of_the_file() -> None:
    many = "\n".join("    - use: read-only" for _ in range(6_000))
    (found,) = problems(f"modes:\n  plan:\n    section: s\n    tools:\n{many}")
    assert "more than 20000 values" in found


# A mode that extends another -----------------------------------------------------------------------

TEAM = """
modes:
  plan:
    name: Plan
    description: d
    section: Plan; end with exit_plan_mode.
    section_in: input
    tools: [read, {deny: "mcp__*"}]
    exit: {options: [{label: A, to: write}, {label: B, to: default}]}
    without_tools: guide
    text_calls: refuse
    aliases: [architect]
  careful:
    extends: plan
    tools: [mcp__docs__find, {ask: write}]
  review:
    name: Review
    extends: careful
    section: Review.
    exit: {to: plan}
    text_calls: pass
  write: {section: s, tools: ["*"]}
"""


def mode(name: str, text: str = TEAM) -> Mode:
    found: Mode = parse(text).modes[name]
    return found


def test_a_mode_takes_over_what_it_does_not_write() -> None:
    plan, careful, review = mode("plan"), mode("careful"), mode("review")
    for key in ("section", "section_in", "exit", "without_tools", "text_calls"):
        assert getattr(careful, key) == getattr(plan, key), key
    assert (review.section, review.text_calls) == ("Review.", "pass")
    assert review.exit is not None
    assert [option.to for option in review.exit.options] == ["plan"]
    assert (review.section_in, review.without_tools) == ("input", "guide")


def test_how_people_tell_modes_apart_is_not_taken_over() -> None:
    careful = mode("careful")
    assert (careful.id, careful.name, careful.description, careful.aliases) == (
        "careful", "careful", "", (),
    )  # fmt: skip
    assert mode("review").name == "Review"


def test_own_rules_come_first_and_keep_their_place() -> None:
    found = [(rule.place(at), rule.pattern) for at, rule in enumerate(mode("review").rules)]
    assert found == [
        ("careful.tools[0]", "mcp__docs__find"),
        ("careful.tools[1]", "write"),
        ("plan.tools[0]", "read"),
        ("plan.tools[1]", "mcp__*"),
    ]
    assert mode("review").rules[1].effect is Effect.ASK
    assert (
        judge(mode("review"), ToolCall(ToolName("read"), {})).rule == 'plan.tools[0] allow "read"'
    )


def test_rules_of_packs_are_taken_over_with_their_names() -> None:
    text = """
modes:
  plan: {section: s, tools: [{use: read-only/two}]}
  more: {extends: plan}
"""
    rule = judge(mode("more", text), ToolCall(ToolName("read"), {})).rule
    assert rule == 'plan.use[0] read-only/two allow "read"'


def test_the_order_of_modes_in_the_file_does_not_matter() -> None:
    text = "modes: {b: {extends: a, tools: [x]}, a: {section: s, tools: [y]}}"
    assert [rule.pattern for rule in mode("b", text).rules] == ["x", "y"]


def test_the_exit_may_be_named_by_either() -> None:
    text = """
modes:
  a: {section: s, tools: [read, exit_plan_mode]}
  b: {extends: a, section: now exit_plan_mode}
  c: {section: s, tools: [read]}
  d: {extends: c, tools: [exit_plan_mode]}
"""
    found = {name: one.exit is not None for name, one in parse(text).modes.items()}
    assert found == {"a": True, "b": True, "c": False, "d": True}


def test_what_a_mode_takes_over_is_what_it_would_mean_if_written() -> None:
    short = parse("modes: {a: {section: s, tools: [x]}, b: {extends: a, tools: [y]}}")
    long = parse("modes: {a: {section: s, tools: [x]}, b: {section: s, tools: [y, x]}}")
    assert short.hash == long.hash


@pytest.mark.parametrize(
    ("modes", "message"),
    [
        ("{a: {extends: b}, b: {section: s, tools: [x]}, c: {extends: bb}}",
         "no such mode to extend; did you mean 'b'?"),
        ("{a: {extends: default}}", "no such mode to extend; known: a (found 'default')"),
        ("{a: {extends: a}}", "modes extend each other in a circle: a extends a"),
        ("{a: {extends: b}, b: {extends: c}, c: {extends: a}}",
         "modes extend each other in a circle: a extends b extends c extends a"),
        ("{a: {extends: b, tools: [x]}, b: {tools: [x]}}", "needs the key 'section'"),
        ("{a: {extends: [b]}, b: {section: s, tools: [x]}}", "must be a string"),
        ("{a: {extends: b, section: then exit_plan_mode}, b: {section: s, tools: [x]}}",
         "names exit_plan_mode, but the mode has no exit"),
        ("{" + "".join(f"m{n}: {{extends: m{n + 1}}}, " for n in range(9))
         + "m9: {section: s, tools: [x]}}", "in a chain of more than 8"),
    ],
)  # fmt: skip
def test_what_cannot_be_extended_is_a_problem(modes: str, message: str) -> None:
    found = problems(f"modes: {modes}")
    assert any(message in problem for problem in found), found


@pytest.mark.parametrize(
    ("modes", "warnings"),
    [
        (
            '{a: {section: s, tools: [{deny: write}, read]}, b: {extends: a, tools: ["*"]}}',
            [
                'line 1, modes.b.extends: of what it takes over, deny "write" holds for no call: '
                'tools[0] allow "*" in front of it allows every call that it matches; '
                "put it in front of that, in this mode's own tools"
            ],
        ),
        ("{a: {section: s, tools: [{deny: look}, {use: read-only}]}}", []),
        ("{a: {section: s, tools: [edit, {use: read-only}]}}", []),
        ("{a: {section: s, tools: [{use: read-only}]}, b: {extends: a, tools: [look]}}", []),
    ],
    ids=["a deny taken over", "a deny in front", "an allow in front", "the same again"],
)
def test_of_what_is_taken_over_only_a_refusal_must_hold(modes: str, warnings: list[str]) -> None:
    assert [str(one) for one in parse(f"modes: {modes}").warnings] == warnings


def test_a_deny_behind_a_pack_that_allows_is_a_mistake() -> None:
    found = problems("modes: {a: {section: s, tools: [{use: read-only}, {deny: look}]}}")
    assert any('use[0] read-only/one allow "look" in front of it allows' in one for one in found)


def test_rules_taken_over_count_as_values_of_the_file() -> None:
    own = ", ".join(f"t{n}" for n in range(300))
    more = ", ".join(f"m{n}: {{extends: a}}" for n in range(100))
    (found,) = problems(f"modes: {{a: {{section: s, tools: [{own}]}}, {more}}}")
    assert "more than 20000 values" in found

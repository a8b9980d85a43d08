"""The verdict on a call: first match wins, no match denies."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.argument.globs import glob_matches
from modegate.core.ids import ModeId, ToolName
from modegate.core.policy.conditions import Equals, Glob, OneOf
from modegate.core.policy.judge import ToolCall, Verdict, judge, may_offer
from modegate.core.policy.model import EXIT_TOOL, Effect, Mode, Rule
from modegate.core.policy.when import When

ALLOW, ASK, DENY = Effect.ALLOW, Effect.ASK, Effect.DENY
RELEASE, ANSWER = Verdict.RELEASE, Verdict.ANSWER
VIEW = When({"command": Equals("view")}, others_any=True)


def mode(*rules: Rule | str) -> Mode:
    made = tuple(Rule(ALLOW, rule) if isinstance(rule, str) else rule for rule in rules)
    return Mode(ModeId("plan"), "Plan", "", "s", made)


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(ToolName(name), arguments)


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("read", RELEASE),
        ("mcp__fs__read_file", RELEASE),
        ("mcp__fs__read_file_and_delete", ANSWER),
        ("mcp__fs__write_file", ANSWER),
        ("mcp__docs__find", RELEASE),
        ("xmcp__docs__find", ANSWER),
        ("exit_plan_mode", ANSWER),
    ],
)
def test_B016_an_exact_entry_allows_exactly_that_and_a_glob_is_anchored(
    name: str, verdict: Verdict
) -> None:
    plan = mode("read", "mcp__fs__read_file", "mcp__docs__*")
    assert judge(plan, call(name)).verdict is verdict


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("read", RELEASE),
        ("Read", ANSWER),
        (" read", ANSWER),
        ("read\n", ANSWER),
        ("functions.read", ANSWER),
        ("read\u200b", ANSWER),
        ("\uff52\uff45\uff41\uff44", ANSWER),
    ],
)
def test_B019_names_match_by_code_point(name: str, verdict: Verdict) -> None:
    assert judge(mode("read"), call(name)).verdict is verdict
    assert may_offer(mode("read"), ToolName(name)) is (verdict is RELEASE)


def test_B013_a_condition_sees_the_whole_decoded_string() -> None:
    only_ls = mode(Rule(ALLOW, "bash", When({"command": Glob(("ls",))})))
    assert judge(only_ls, call("bash", command="ls")).verdict is RELEASE
    assert judge(only_ls, call("bash", command="ls\nrm -r .")).verdict is ANSWER
    assert judge(only_ls, ToolCall(ToolName("bash"), None)).verdict is ANSWER


def test_the_first_matching_rule_wins() -> None:
    plan = mode(Rule(DENY, "mcp__x__delete_*"), Rule(ASK, "mcp__x__send"), "mcp__x__*")
    assert judge(plan, call("mcp__x__delete_all")).verdict is ANSWER
    assert judge(plan, call("mcp__x__send")).verdict is Verdict.ASK
    assert judge(plan, call("mcp__x__find")).verdict is RELEASE
    assert (
        judge(mode("mcp__x__*", Rule(DENY, "mcp__x__del")), call("mcp__x__del")).verdict is RELEASE
    )


def test_a_rule_whose_condition_fails_is_passed_over() -> None:
    plan = mode(Rule(ALLOW, "edit", VIEW), Rule(ASK, "edit"))
    assert judge(plan, call("edit", command="view")).verdict is RELEASE
    assert judge(plan, call("edit", command="create")).verdict is Verdict.ASK


@pytest.mark.parametrize("pattern", ["*", "exit_*", "exit_plan_mode", "exit_plan_mod?"])
@pytest.mark.parametrize("effect", [ALLOW, ASK])
def test_L9_no_rule_covers_the_exit_tool(pattern: str, effect: Effect) -> None:
    plan = mode(Rule(effect, pattern))
    told = judge(plan, call(EXIT_TOOL, plan="do it"))
    assert (told.verdict, told.rule) == (ANSWER, "exit")
    assert "handled by the mode's exit" in told.reason
    assert not may_offer(plan, EXIT_TOOL)


@pytest.mark.parametrize(
    ("when", "arguments", "holds"),
    [
        (VIEW, {"command": "view"}, True),
        (VIEW, {"command": "view", "path": "a"}, True),
        (VIEW, {"command": "create"}, False),
        (VIEW, {"path": "a"}, False),
        (VIEW, {}, False),
        (VIEW, None, False),
        (When({"command": Equals("view")}), {"command": "view"}, True),
        (When({"command": Equals("view")}), {"command": "view", "path": "a"}, False),
        (When({"n": Equals(1)}), {"n": 1}, True),
        (When({"n": Equals(1)}), {"n": 1.0}, True),
        (When({"n": Equals(1)}), {"n": True}, False),
        (When({"n": Equals(1)}), {"n": "1"}, False),
        (When({"n": Equals("1")}), {"n": 1}, False),
        (When({"n": Equals(True)}), {"n": True}, True),
        (When({"n": Equals(True)}), {"n": 1}, False),
        (When({"n": Equals(False)}), {"n": 0}, False),
        (When({"n": Equals(None)}), {"n": None}, True),
        (When({"n": Equals(None)}), {"n": False}, False),
        (When({"n": Equals(None)}), {}, False),
        (When({"n": Equals("a")}), {"n": ["a"]}, False),
        (When({"n": OneOf(("a", 2))}), {"n": 2}, True),
        (When({"n": OneOf(("a", 2))}), {"n": "2"}, False),
        (When({"p": Glob(("src/*",))}), {"p": "src/a\nb"}, True),
        (When({"p": Glob(("*",))}), {"p": 1}, False),
        (When({"p": Glob(("*",))}), {"p": ["a"]}, False),
    ],
)
def test_a_condition_compares_strictly(
    when: When, arguments: dict[str, Any] | None, holds: bool
) -> None:
    told = judge(mode(Rule(ALLOW, "t", when)), ToolCall(ToolName("t"), arguments))
    assert told.verdict is (RELEASE if holds else ANSWER)


@pytest.mark.parametrize("effect", [DENY, ASK])
def test_L4_unreadable_arguments_do_not_slip_past_a_conditional_rule(effect: Effect) -> None:
    """`{"path": "secret", "path": "ok"}` must not get around what a deny says about `path`."""
    secret = When({"path": Glob(("secret*",))}, others_any=True)
    plan = mode(Rule(effect, "read", secret), "read")
    assert judge(plan, call("read", path="ok")).verdict is RELEASE
    told = judge(plan, ToolCall(ToolName("read"), None))
    assert told.verdict is ANSWER
    assert told.reason == (
        f'tools[0] {effect} "read" depends on the arguments, and nobody can say that it does not cover them: '
        "the arguments cannot be read"
    )


def test_a_judgement_names_its_rule_and_says_why() -> None:
    plan = mode("a", Rule(DENY, "b*", at=7), Rule(ASK, "c"), Rule(ALLOW, "d", VIEW))
    told = [judge(plan, call(name)) for name in ("a", "bb", "c", "d", "e")]
    assert [(j.rule, j.reason) for j in told] == [
        ('tools[0] allow "a"', 'allowed by tools[0] allow "a"'),
        ('tools[7] deny "b*"', 'denied by tools[7] deny "b*"'),
        ('tools[2] ask "c"', 'a person decides, by tools[2] ask "c"'),
        ("no rule", 'tools[3] allow "d" does not cover it: argument `command`: is not there'),
        ("no rule", "no rule of mode 'plan' covers 'e'"),
    ]


@pytest.mark.parametrize(
    ("rules", "offered"),
    [
        ((), False),
        (("t",), True),
        ((Rule(ASK, "t"),), True),
        ((Rule(DENY, "t"), "t"), False),
        ((Rule(DENY, "t", VIEW), "*"), True),
        ((Rule(DENY, "t", VIEW),), False),
        ((Rule(ALLOW, "t", VIEW), Rule(DENY, "*")), True),
        (("other",), False),
    ],
)
def test_a_tool_is_offered_if_some_call_of_it_could_pass(
    rules: tuple[Rule | str, ...], offered: bool
) -> None:
    assert may_offer(mode(*rules), ToolName("t")) is offered


values = st.sampled_from([None, True, False, 0, 1, 1.0, "1", "a", "ab"])
conditions = st.one_of(
    st.builds(Equals, values),
    st.builds(OneOf, st.lists(values, min_size=1, max_size=2).map(tuple)),
    st.builds(Glob, st.sampled_from([("*",), ("a*",), ("?", "b")])),
)
whens = st.builds(
    When, st.dictionaries(st.sampled_from("xy"), conditions, min_size=1, max_size=2), st.booleans()
)
rule_lists = st.lists(
    st.builds(
        Rule, st.sampled_from(Effect), st.sampled_from(["*", "a*", "?", "ab"]), st.none() | whens
    ),
    max_size=4,
)
calls = st.builds(
    ToolCall,
    st.sampled_from(["a", "ab", "b", "exit_plan_mode"]).map(ToolName),
    st.none() | st.dictionaries(st.sampled_from("xyz"), values, max_size=3),
)


@given(rule_lists, calls)
def test_L4_nothing_is_released_without_an_allow_rule_for_it(
    rules: list[Rule], judged: ToolCall
) -> None:
    plan = mode(*rules)
    told = judge(plan, judged)
    if told.verdict is not ANSWER:
        assert judged.name != EXIT_TOOL
        assert may_offer(plan, judged.name)
        effect = ALLOW if told.verdict is RELEASE else ASK
        assert any(r.effect is effect and glob_matches(r.pattern, judged.name) for r in rules)

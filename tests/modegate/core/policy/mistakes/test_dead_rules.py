"""Rules that nothing reaches: which of them make the file unusable, and which are only told of."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.argument.globs import glob_matches
from modegate.core.ids import ModeId, ToolName
from modegate.core.policy.file.problems import PolicyProblems
from modegate.core.policy.judge import ToolCall, Verdict, judge
from modegate.core.policy.mistakes import dead_rules as module
from modegate.core.policy.mistakes.dead_rules import common, covers, dead_rules
from modegate.core.policy.model import Effect, Mode, Rule
from support.policies import parse

FILE = "modes:\n  plan:\n    section: x\n    tools:\n"


def read(*rules: str) -> tuple[list[str], list[str]]:
    """Return problems and warnings of a mode with these rules, each as `INDEX message`."""
    text = FILE + "".join(f"    - {rule}\n" for rule in rules)
    try:
        policy = parse(text)
    except PolicyProblems as error:
        found = (error.problems, error.warnings)
    else:
        found = ((), policy.warnings)
    told: list[list[str]] = []
    for kind in found:
        for one in kind:
            at = re.fullmatch(r"modes\.plan\.tools\[(\d+)\]", one.path)
            assert at
            assert one.line == 5 + int(at[1])
        told.append([f"{one.line - 5} {one.message}" for one in kind])
    return told[0], told[1]


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        pytest.param(
            ['"d_*"', "{deny: d_x}"], '1 deny "d_x" holds for no call', id="behind its glob"
        ),
        pytest.param(['"d_*"', '{deny: "d_x*"}'], "1 deny", id="a glob behind its glob"),
        pytest.param(['"*"', '{deny: "d_*"}'], "1 deny", id="behind everything"),
        pytest.param(["read", "{deny: read}"], "1 deny", id="behind its own name"),
        pytest.param(["read", "{ask: read}"], "1 ask", id="ask behind allow"),
        pytest.param(["{ask: read}", "{deny: read}"], "only asks about", id="deny behind ask"),
        pytest.param(
            ["{use: read-only/codex}", "{deny: view_image}"],
            "use[0] read-only/codex",
            id="behind a pack",
        ),
        pytest.param(
            ["Bash", "{allow: Bash, when: {command: {equals: ls}}}"],
            '1 the conditions of allow "Bash"',
            id="conditions behind none",
        ),
        pytest.param(
            ['"*"', "{deny: Bash, when: {command: {equals: ls}, others: any}}"],
            "1 deny",
            id="a deny with conditions behind everything",
        ),
        pytest.param(
            [
                "{allow: Bash, when: {command: {equals: ls}, others: any}}",
                "{deny: Bash, when: {command: {equals: ls}, others: any}}",
            ],
            "1 deny",
            id="the same conditions",
        ),
    ],
)
def test_what_would_be_looser_than_it_says_is_a_problem(rules: list[str], told: str) -> None:
    problems, _ = read(*rules)
    assert len(problems) == 1
    assert told in problems[0]
    assert re.search(r"(tools|use)\[0\]", problems[0]), "the rule to blame is named"
    assert re.search(r"put it in front of|take one of the two out", problems[0]), "what to do"


def test_a_rule_whose_conditions_are_misspelt_is_not_blamed_for_what_is_behind_it() -> None:
    broken = "{allow: Bash, when: {command: {shell: readonly}}}"
    with pytest.raises(PolicyProblems) as raised:
        parse(f"modes: {{plan: {{section: s, tools: [{broken}, {{ask: Bash}}, read]}}}}")
    assert [one.path for one in raised.value.problems] == ["modes.plan.tools[0].when.command.shell"]
    assert not raised.value.warnings


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        pytest.param(["read", "read"], '1 allow "read" is never reached', id="twice"),
        pytest.param(['"*_read"', "fs_read"], '1 allow "fs_read" is never reached', id="covered"),
        pytest.param(["{deny: read}", "read"], "1 allow", id="allowed behind a deny"),
        pytest.param(['{deny: "*"}', "{ask: read}"], "1 ask", id="asked behind a deny of all"),
        pytest.param(["{ask: read}", "read"], "1 allow", id="allowed behind an ask"),
        pytest.param(
            ["{deny: Bash}", "{allow: Bash, when: {command: {equals: ls}}}"],
            "1 allow",
            id="conditions behind a deny",
        ),
        pytest.param(
            ['"mcp__docs__*"', '{deny: "*delete*"}'],
            "1 deny \"*delete*\" does not decide about 'mcp__docs__delete'",
            id="a deny of names that a glob in front takes in part",
        ),
        pytest.param(['"a?"', '{ask: "?b"}'], "'ab'", id="an ask likewise"),
    ],
)
def test_what_is_no_looser_than_it_says_is_a_warning(rules: list[str], told: str) -> None:
    problems, warnings = read(*rules)
    assert problems == []
    assert len(warnings) == 1
    assert told in warnings[0]


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param(["{deny: d_x}", '"d_*"'], id="in front of its glob"),
        pytest.param(["d_x", '{deny: "d_*"}'], id="an exception from a deny"),
        pytest.param(['"d_get_*"', '{deny: "d_*"}'], id="a glob as an exception"),
        pytest.param(['"d_*"', '{deny: "*"}'], id="a deny of all else at the end"),
        pytest.param(
            ["{allow: Bash, when: {command: {equals: ls}}}", "{ask: Bash}"], id="asked otherwise"
        ),
        pytest.param(
            ["{allow: Bash, when: {command: {equals: ls}}}", "{deny: Bash}"], id="denied otherwise"
        ),
        pytest.param(["a", "A", "a_", '"a?"'], id="other names"),
        pytest.param(
            [
                "{allow: Bash, when: {command: {equals: ls}}}",
                "{allow: Bash, when: {command: {equals: pwd}}}",
            ],
            id="other conditions",
        ),
        pytest.param(["view_image", "{use: read-only/codex}"], id="a pack says it again"),
        pytest.param(["{deny: view_image}", "{use: read-only/codex}"], id="in front of a pack"),
        pytest.param(['"a?c"', '{deny: "b*"}'], id="globs apart"),
        pytest.param(['{deny: "*a"}', '"b*"'], id="the stricter first"),
    ],
)
def test_what_does_something_is_not_told_of(rules: list[str]) -> None:
    assert read(*rules) == ([], [])


def test_rules_that_are_too_many_are_said_not_to_be_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_COMPARED", 3)
    rules = [Rule(Effect.ALLOW, f"{one}*") for one in "abcdef"]
    (finding,) = dead_rules(rules)
    assert "too many rules" in finding.message


def test_examples_are_looked_for_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_EXAMPLES", 0)
    front = Rule(Effect.ALLOW, "*b")
    assert list(dead_rules([front, Rule(Effect.DENY, "c*d")])) == [], "their ends tell them apart"
    (finding,) = dead_rules([front, Rule(Effect.DENY, "c*")])
    assert "too many rules" in finding.message


def test_long_globs_cover_nothing_but_themselves_and_have_no_example() -> None:
    long = "a" * 70 + "*"
    assert common(long, "*a") == ""
    assert covers(long, long)
    assert not covers(long, "a" * 71)
    assert not covers("*", long)


def test_a_long_name_is_shortened_in_messages() -> None:
    (finding,) = dead_rules([Rule(Effect.ALLOW, "a" * 1000)] * 2)
    assert "…" in finding.message


GLOBS = st.text("ab*?", min_size=1, max_size=5)
NAMES = st.text("abc", max_size=6)


@given(GLOBS, GLOBS, NAMES)
def test_a_glob_that_covers_another_matches_all_that_it_does(
    general: str, special: str, name: str
) -> None:
    if covers(general, special) and glob_matches(special, name):
        assert glob_matches(general, name)


@given(GLOBS, GLOBS, NAMES)
def test_an_example_is_found_wherever_there_is_one(first: str, second: str, name: str) -> None:
    example = common(first, second)
    if example:
        assert glob_matches(first, example)
        assert glob_matches(second, example)
    elif name and glob_matches(first, name):
        assert not glob_matches(second, name)


RULES = st.lists(
    st.builds(Rule, st.sampled_from(Effect), st.text("ab*?", min_size=1, max_size=3)), max_size=5
)


@given(RULES, st.text("abc", min_size=1, max_size=4))
def test_without_a_rule_that_is_never_reached_every_verdict_is_the_same(
    rules: list[Rule], name: str
) -> None:
    dead = {one.at for one in dead_rules(rules) if "never reached" in one.message}
    rest = tuple(rule for at, rule in enumerate(rules) if at not in dead)

    def verdict(some: tuple[Rule, ...]) -> Verdict:
        mode = Mode(ModeId("m"), "m", "", "", some)
        return judge(mode, ToolCall(ToolName(name), {})).verdict

    assert verdict(tuple(rules)) == verdict(rest)

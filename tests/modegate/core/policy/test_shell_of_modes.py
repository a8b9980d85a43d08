"""`shell` of the file, of a mode and of one that it extends: what is known of programs in each mode."""

from __future__ import annotations

import pytest

from modegate.core.ids import ModeId, ToolName
from modegate.core.policy.judge import ToolCall, Verdict, judge
from support.policies import parse

POLICY = """\
version: 1
shell: {commands: {mine: any, ours: any}, without: [git log]}
modes:
  plan:
    section: s
    tools: [{allow: sh, when: {command: {shell: read-only}}}]
    shell: {commands: {plans: any}, without: [wc, head]}
  more:
    extends: plan
    shell: {commands: {wc: any}}
  plain: {section: s, tools: [{allow: sh, when: {command: {shell: read-only}}}]}
"""


@pytest.mark.parametrize(
    ("command", "modes"),
    [
        ("ls", {"plan", "more", "plain"}),
        ("mine -x", {"plan", "more", "plain"}),
        ("ours", {"plan", "more", "plain"}),
        ("plans", {"plan", "more"}),
        ("wc a", {"more", "plain"}),
        ("head a", {"plain"}),
        ("git log", set()),
        ("git status", {"plan", "more", "plain"}),
        ("theirs", set()),
    ],
)
def test_the_nearest_section_has_the_last_word(command: str, modes: set[str]) -> None:
    call = ToolCall(ToolName("sh"), {"command": command})
    policy = parse(POLICY)
    assert {
        name for name, mode in policy.modes.items() if judge(mode, call).verdict is Verdict.RELEASE
    } == modes


def test_the_table_of_a_mode_is_built_once() -> None:
    plan = parse(POLICY).modes[ModeId("plan")]
    assert plan.shell.programs is plan.shell.programs


def test_what_is_written_counts_for_the_hash_and_no_table_does() -> None:
    policy = parse(POLICY)
    for mode in policy.modes.values():
        assert mode.shell.programs.entries
    assert parse(POLICY).hash == policy.hash
    for old, new in (("mine: any", "mine2: any"), ("[wc, head]", "[wc]"), ("[git log]", "[git]")):
        assert parse(POLICY.replace(old, new)).hash != policy.hash

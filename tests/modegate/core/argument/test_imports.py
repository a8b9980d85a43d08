"""Parsers and RE2 are imported by the first value that needs them, and not at all where no rule does."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("re2", "tree_sitter", "tree_sitter_bash", "tree_sitter_javascript")

SCRIPT = """
import json, sys
import modegate.cli
from modegate.core.dialects.registered import DIALECTS
from modegate.core.policy.file.policy import parse
from modegate.core.policy.judge import ToolCall, judge
from modegate.server.packs import shipped_packs

policy, calls = json.loads(sys.argv[1])
mode = parse(policy, DIALECTS.names, shipped_packs()).modes["plan"]
verdicts = [judge(mode, ToolCall("t", call)).verdict for call in calls]
print(json.dumps([verdicts, sorted(set(sys.modules) & set(sys.argv[2].split()))]))
"""


def imported(policy: str, *calls: dict[str, object]) -> tuple[list[str], list[str]]:
    """Return the verdicts of a fresh process on calls of `t`, and what heavy modules it imported."""
    told = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps([policy, calls]), " ".join(HEAVY)],
        check=True,
        capture_output=True,
        text=True,
    )
    verdicts, modules = json.loads(told.stdout)
    return verdicts, modules


def plan(when: str) -> str:
    return f"modes: {{plan: {{section: s, tools: [{{allow: t, when: {{{when}}}}}]}}}}"


def test_a_policy_alone_imports_no_parser() -> None:
    """The shipped one is such: it is read by every command, and most agents send no command."""
    when = "a: {shell: read-only}, b: {calls: javascript}, others: any"
    assert imported(plan(when)) == ([], [])


@pytest.mark.parametrize(
    ("when", "call", "modules"),
    [
        ("a: {glob: 'x*'}", {"a": "x"}, []),
        ("a: {path: {under: [x/]}}", {"a": "x/y"}, []),
        (
            "a: {patch: {under: [x/]}}",
            {"a": "*** Begin Patch\n*** Add File: x/y\n+a\n*** End Patch"},
            [],
        ),
        ("a: {matches: 'x+'}", {"a": "xx"}, ["re2"]),
        ("a: {shell: read-only}", {"a": "ls -l"}, ["tree_sitter", "tree_sitter_bash"]),
        ("a: {calls: javascript}", {"a": "text(1)"}, ["tree_sitter", "tree_sitter_javascript"]),
    ],
)
def test_what_a_condition_imports(when: str, call: dict[str, object], modules: list[str]) -> None:
    assert imported(plan(when), call) == (["release"], modules)

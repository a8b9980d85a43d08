"""The policy of a whole team in docs/policies.md gives the verdicts that its sections promise."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from modegate.core.ids import ModeId, ToolName
from modegate.core.policy.judge import ToolCall, Verdict, judge
from support.policies import parse

PAGE = (Path(__file__).parents[1] / "docs" / "policies.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("\n## A whole team's policy\n")[2].partition("\n## ")[0]
(TEXT,) = re.findall(r"(?ms)^```yaml\n(.*?)^```$", SECTION)
POLICY = parse(TEXT)
PASSES, ASKED, REFUSED = Verdict.RELEASE, Verdict.ASK, Verdict.ANSWER


def write(path: str) -> dict[str, Any]:
    return {"file_path": path, "content": "x"}


def patch(*lines: str) -> dict[str, Any]:
    return {"input": "\n".join(["*** Begin Patch", *lines, "*** End Patch"])}


def git_patch(path: str) -> dict[str, Any]:
    return {"input": f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-x\n+y\n"}


def shell(command: str, **more: Any) -> dict[str, Any]:
    return {"command": command, **more}


CALLS: list[tuple[str, str, dict[str, Any], Verdict]] = [
    ("plan", "Bash", shell("just --list"), PASSES),
    ("plan", "Bash", shell("just --list build"), REFUSED),
    ("plan", "Write", write("plans/a.md"), PASSES),
    ("plan", "Write", write("/home/dev/app/plans/sub/a.md"), PASSES),
    ("plan", "Write", write("plans/a.py"), REFUSED),
    ("plan", "Write", write("plans/../a.md"), REFUSED),
    ("plan", "Write", write("plans/a.md/../a.py"), REFUSED),
    ("plan", "Write", {**write("plans/a.md"), "filePath": "src/a.py"}, REFUSED),
    ("plan", "apply_patch", patch("*** Add File: plans/a.md", "+x"), PASSES),
    ("plan", "apply_patch", patch("*** Update File: plans/a.md", "@@", "-x", "+y"), PASSES),
    ("plan", "apply_patch", patch("*** Add File: plans/a.py", "+x"), REFUSED),
    ("plan", "apply_patch", patch("*** Delete File: plans/a.md"), REFUSED),
    ("plan", "apply_patch", git_patch("plans/a.py"), REFUSED),
    (
        "plan",
        "apply_patch",
        patch("*** Add File: plans/a.md", "+x", "*** Add File: src/a.md", "+x"),
        REFUSED,
    ),
    (
        "plan",
        "apply_patch",
        patch("*** Add File: plans/a.md", "+x", " *** Delete File: src/a.py"),
        REFUSED,
    ),
    ("plan-with-web", "WebFetch", {"url": "https://example.org"}, PASSES),
    ("plan-with-web", "Write", write("plans/a.md"), PASSES),
    ("research", "Read", {"file_path": "a"}, REFUSED),
    ("research", "AskUserQuestion", {}, PASSES),
    ("careful", "Read", {"file_path": "src/a.py"}, PASSES),
    ("careful", "Read", {"file_path": "src/.ENV.local"}, REFUSED),
    ("careful", "Write", write("src/a.py"), PASSES),
    ("careful", "Write", write("src/../README.md"), ASKED),
    ("careful", "Write", {**write("src/.env"), "more": 1}, REFUSED),
    ("careful", "apply_patch", patch("*** Add File: src/a.js", "+process.env.X"), PASSES),
    ("careful", "apply_patch", git_patch("src/.env"), REFUSED),
    (
        "careful",
        "apply_patch",
        patch("*** Add File: src/a.py", "+x", "*** Add File: .env", "+x"),
        REFUSED,
    ),
    (
        "careful",
        "apply_patch",
        patch("*** Update File: src/a.py", "*** Move to: src/.env", "@@", "-x", "+y"),
        REFUSED,
    ),
    ("careful", "apply_patch", patch("*** Add File: README.md", "+x"), ASKED),
    ("careful", "Bash", shell("ls"), PASSES),
    ("careful", "Bash", shell("cat .e*"), PASSES),
    ("careful", "Bash", shell("cat .env"), REFUSED),
    ("careful", "Bash", shell("npm test", timeout=600_000), ASKED),
    ("careful", "Bash", shell("npm test", timeout=600_001), REFUSED),
    ("careful", "Bash", shell("npm test", timeout="900000"), REFUSED),
    ("careful", "Bash", shell("npm test", run_in_background=True), REFUSED),
    ("docs-only", "Write", write("docs/a.md"), PASSES),
    ("docs-only", "Write", write("README.md"), PASSES),
    ("docs-only", "Write", write("src/README.md"), REFUSED),
    ("docs-only", "apply_patch", patch("*** Add File: src/a.py", "+x"), REFUSED),
    ("docs-only", "Bash", shell("touch docs/a"), REFUSED),
    ("review", "Bash", shell("gh pr diff 12"), PASSES),
    ("review", "Bash", shell("gh pr diff 1; rm x"), REFUSED),
    ("review", "Bash", shell("gh pr diff 1\nrm x"), REFUSED),
    ("review", "Bash", shell("gh pr diff"), REFUSED),
    ("review", "Bash", shell("curl --version"), REFUSED),
    ("review", "mcp__jira__add_comment", {"issue_key": "PAY-1", "body": "x"}, PASSES),
    ("review", "mcp__jira__add_comment", {"issue_key": "OPS-1", "body": "x"}, REFUSED),
    ("review", "mcp__jira__add_comment", {"issue_key": "PAY-1\n", "body": "x"}, REFUSED),
    ("review", "mcp__jira__get_issue", {"issue_key": "OPS-1"}, PASSES),
    ("review", "mcp__jira__get_and_delete", {}, REFUSED),
]


@pytest.mark.parametrize(("mode", "tool", "arguments", "verdict"), CALLS)
def test_each_call_gets_the_verdict_that_the_team_means(
    mode: str, tool: str, arguments: dict[str, Any], verdict: Verdict
) -> None:
    told = judge(POLICY.modes[ModeId(mode)], ToolCall(ToolName(tool), arguments))
    assert told.verdict is verdict, told.reason


def test_nothing_in_it_is_doubtful() -> None:
    assert POLICY.warnings == ()
    assert {call[0] for call in CALLS} == set(POLICY.modes)

"""What conditions on arguments cost: the verdict on one call, by what its rule has to read of it.

In this process, without a proxy: a step judges each call once when it is complete, in every mode in force.
The usual calls are new ones each time, so that nothing is remembered. See bench/README.md.
"""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import report
import targets
from hostile_calls import WORST

from modegate.core.dialects.registered import DIALECTS
from modegate.core.ids import ToolName
from modegate.core.policy.file.policy import parse
from modegate.core.policy.judge import ToolCall, Verdict, judge
from modegate.core.policy.model import Mode
from modegate.server.packs import shipped_packs

Arguments = dict[str, Any]

POLICY = """\
modes:
  plan:
    section: s
    tools:
      - plain
      - {allow: glob, when: {a: {glob: "src/*"}, others: any}}
      - {allow: shell, when: {a: {shell: read-only}, others: any}}
      - {allow: exec, when: {input: {calls: javascript}}}
      - {allow: path, when: {a: {path: {under: [docs/, plans/]}}, others: any}}
      - {allow: edits, when: {"e[].f": {path: {under: docs/}}, others: [e]}}
      - {allow: deep, when: {"a.b.c.d.e.f.g[]": {equals: 1}}}
      - {allow: patch, when: {input: {patch: {under: docs/}}}}
      - {allow: matches, when: {a: {matches: "(git|hg) (log|diff)( .*)?"}, others: any}}
      - {allow: states, when: {a: {matches: "(a|b)*a(a|b){300}"}, others: any}}
"""
USUAL_ROUNDS, WORST_ROUNDS, COLD_ROUNDS = 2000, 5, 5
PATCH = (
    "*** Begin Patch\n*** Update File: docs/{n}.md\n@@\n-old\n+new\n"
    "*** Add File: docs/b.md\n+x\n*** End Patch\n"
)

USUAL: dict[str, tuple[str, Callable[[int], Arguments]]] = {
    "no condition": ("plain", lambda n: {"a": f"src/{n}"}),
    "glob": ("glob", lambda n: {"a": f"src/{n}"}),
    "path": ("path", lambda n: {"a": f"docs/{n}.md"}),
    "five edits, a path in each": (
        "edits",
        lambda n: {"e": [{"f": f"docs/{n}-{k}.md", "s": "x"} for k in range(5)]},
    ),
    "expression": ("matches", lambda n: {"a": f"git log -{n}"}),
    "patch of two files": ("patch", lambda n: {"input": PATCH.replace("{n}", str(n))}),
    "command: ls": ("shell", lambda n: {"a": f"ls -la src/{n}"}),
    "command: git log": ("shell", lambda n: {"a": f"git log --oneline -{n}"}),
    "command: rg and head": ("shell", lambda n: {"a": f"rg -n 'TODO {n}' src | head -50"}),
    "command: cd, git diff, sed": (
        "shell",
        lambda n: {"a": f"cd src && git diff --stat HEAD~{n} -- core && sed -n '1,{n}p' README.md"},
    ),
    "command as words": ("shell", lambda n: {"a": ["bash", "-lc", f"git log --oneline -{n}"]}),
    "program of one call": (
        "exec",
        lambda n: {
            "input": f'const r = await tools.shell({{a: "git log -{n}"}});\ntext(r.output);'
        },
    ),
    "program of five calls": (
        "exec",
        lambda n: {
            "input": "".join(
                f'const r{k} = await tools.shell({{a: "git log -{n} {k}"}});\ntext(r{k}.output);\n'
                for k in range(5)
            )
        },
    ),
}

COLD = {"no condition": "plain", "expression": "matches", "path": "path", "patch of two files": "patch",
        "command: ls": "shell", "program of one call": "exec"}  # fmt: skip


def mode() -> Mode:
    """Return the mode that judges."""
    return parse(POLICY, DIALECTS.names, shipped_packs()).modes["plan"]


def timed(plan: Mode, tool: str, arguments: Arguments) -> tuple[float, Verdict]:
    """Return how many seconds of CPU a verdict takes, and which it is."""
    call = ToolCall(ToolName(tool), arguments)
    began = time.thread_time()  # of this thread alone, so that other load counts for little
    found = judge(plan, call).verdict
    return time.thread_time() - began, found


def cold(tool: str, name: str) -> float:
    """Return the seconds of the first verdict in a fresh process: what it imports, and the grammar."""
    script = "import conditions; print(conditions.first(*conditions.sys.argv[1:]))"
    told = subprocess.run(
        [sys.executable, "-c", script, tool, name],
        cwd=targets.HERE, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return float(told.stdout)


def first(tool: str, name: str) -> float:
    """Return the seconds of CPU of the first verdict in this process."""
    return timed(mode(), tool, USUAL[name][1](7))[0]


def measure() -> dict[str, dict[str, Any]]:
    """Measure all."""
    plan = mode()
    numbers = itertools.count(1)
    usual: dict[str, list[float]] = {name: [] for name in USUAL}
    for _ in range(USUAL_ROUNDS):  # in turn, so that a machine that slows down slows all
        for name, (tool, make) in USUAL.items():
            took, verdict = timed(plan, tool, make(next(numbers)))
            if verdict is not Verdict.RELEASE:
                raise ValueError(f"{name} is not released")
            usual[name].append(took)
    worst: dict[str, dict[str, Any]] = {}
    for name, (tool, hostile) in WORST.items():
        arguments = hostile()
        found = [timed(plan, tool, arguments) for _ in range(WORST_ROUNDS)]
        worst[name] = {"ms": 1000 * min(took for took, _ in found), "verdict": found[0][1]}
    return {
        "usual_us": {
            name: {"p50": 1e6 * statistics.median(took), "p99": 1e6 * sorted(took)[len(took) * 99 // 100]}
            for name, took in usual.items()
        },
        "worst": worst,
        "cold_ms": {
            name: 1000 * statistics.median(cold(tool, name) for _ in range(COLD_ROUNDS))
            for name, tool in COLD.items()
        },
    }  # fmt: skip


def run(*, as_json: bool) -> str:
    """Measure all and give the report."""
    found = measure()
    return json.dumps(found, indent=2) if as_json else _text(found)


def _text(found: dict[str, dict[str, Any]]) -> str:
    plain = found["usual_us"]["no condition"]["p50"]
    usual = [
        [name, "", f"{one['p50']:.1f}", f"{one['p99']:.1f}", f"{one['p50'] / plain:.0f}"]
        for name, one in found["usual_us"].items()
    ]
    start = [[name, "", f"{took:.1f}"] for name, took in found["cold_ms"].items()]
    worst = [[name, one["verdict"], f"{one['ms']:.1f}"] for name, one in found["worst"].items()]
    return "\n".join(
        [
            report.table(
                "A verdict, by what its rule reads",
                ["call", "", "p50 us", "p99 us", "times no condition"],
                usual,
            ),
            report.table("The first verdict of a process", ["call", "", "ms"], start),
            report.table("The worst calls within the limits", ["call", "verdict", "ms"], worst),
        ]
    )

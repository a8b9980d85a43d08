"""Agents can look around in plan mode with their own tools, and write nothing by them: the gap table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from modegate.core.ids import ModeId, ToolName
from modegate.core.policy.judge import Judgement, ToolCall, Verdict, judge
from modegate.core.policy.model import Mode
from support.policies import parse

ROOT = Path(__file__).parents[1]
PLAN = parse((ROOT / "policies.yaml").read_text(encoding="utf-8")).modes[ModeId("plan")]
GAP = yaml.safe_load((ROOT / "tests" / "golden" / "gap.yaml").read_text(encoding="utf-8"))

REFUSED = {
    # It has no shell, and gives a command to an interpreter of JavaScript: that is no program.
    ("deepagents-code 0.1.88", "git log / blame"),
    ("deepagents-code 0.1.88", "git diff / status"),
}
"""Steps that only read and are refused."""
MOST_REFUSED = 5

OWN: dict[str, Mode] = {
    agent: parse(f"modes: {{plan: {{section: s, tools: [{{use: {table['pack']}}}]}}}}").modes[
        ModeId("plan")
    ]
    for agent, table in GAP["agents"].items()
}
"""By agent, a mode with its own pack alone."""


@dataclass(frozen=True)
class Call:
    """One call of the table."""

    agent: str
    step: str
    tool: str
    arguments: dict[str, Any]

    def judged(self, in_force: Mode, more: Mapping[str, Any]) -> Judgement:
        return judge(in_force, ToolCall(ToolName(self.tool), {**self.arguments, **more}))

    @property
    def usual(self) -> dict[str, Any]:
        """The arguments that the agent's model gives beside."""
        found: dict[str, Any] = GAP["agents"][self.agent].get("usual", {}).get(self.tool, {})
        return found


def calls(kind: str) -> Iterator[Call]:
    for agent, table in GAP["agents"].items():
        for at, entry in enumerate(table[kind]):
            ((tool, arguments),) = entry.items()
            yield Call(agent, GAP["steps"][at] if kind == "steps" else f"{at}", tool, arguments)


STEPS, WRITES = list(calls("steps")), list(calls("writes"))
NAMES: dict[str, dict[str, list[str]]] = {
    agent: table["arguments"] for agent, table in GAP["agents"].items()
}


def told(call: Call) -> str:
    return f"{call.agent}-{call.step}"


def test_the_table_is_whole_and_made_of_arguments_that_the_agents_have() -> None:
    assert len(STEPS) == 105
    assert all(len(table["writes"]) >= 5 for table in GAP["agents"].values())
    for call in (*STEPS, *WRITES):
        assert {*call.arguments, *call.usual} <= {*NAMES[call.agent][call.tool]}, call


@pytest.mark.parametrize("call", STEPS, ids=told)
@pytest.mark.parametrize("mode", ["the shipped policy", "its own pack"])
def test_a_step_that_only_reads_is_released(call: Call, mode: str) -> None:
    in_force = PLAN if mode == "the shipped policy" else OWN[call.agent]
    expected = Verdict.ANSWER if (call.agent, call.step) in REFUSED else Verdict.RELEASE
    for more in ({}, call.usual):
        judgement = call.judged(in_force, more)
        assert judgement.verdict is expected, judgement.reason


def test_few_steps_that_only_read_are_refused() -> None:
    refused = {
        (call.agent, call.step)
        for call in STEPS
        if call.judged(PLAN, {}).verdict is not Verdict.RELEASE
    }
    assert refused == REFUSED
    assert len(refused) <= MOST_REFUSED


@pytest.mark.parametrize("call", WRITES, ids=lambda call: f"{call.agent}-{call.tool}-{call.step}")
@pytest.mark.parametrize("mode", ["the shipped policy", "its own pack"])
def test_a_write_in_disguise_is_refused(call: Call, mode: str) -> None:
    in_force = PLAN if mode == "the shipped policy" else OWN[call.agent]
    for more in ({}, call.usual):
        judgement = call.judged(in_force, {**more, **call.arguments})
        assert judgement.verdict is Verdict.ANSWER, judgement.reason


# An argument that changes what a command does -------------------------------------------------------

HARMLESS = {
    "cmd", "code", "command", "commands", "description", "directory", "initial_wait", "input",
    "justification", "login", "max_output_tokens", "max_tokens", "security_risk", "summary", "timeout",
    "timeout_seconds", "workdir", "yield_time_ms",
}  # fmt: skip
"""Of the tools that run commands: what they run, what is said of it, where, and how long is waited for it."""
RUNNERS = ("Bash", "bash", "exec_command", "run_shell_command", "shell", "terminal", "run_commands")


@pytest.mark.parametrize("value", [True, "x", ["x"], 1, {"x": "y"}], ids=repr)
def test_no_other_argument_of_a_shell_may_be_there_with_any_meaning(value: Any) -> None:
    tried = 0
    for call in STEPS:
        for name in NAMES[call.agent][call.tool] if call.tool in RUNNERS else ():
            if name not in HARMLESS:
                tried += 1
                for in_force in (PLAN, OWN[call.agent]):
                    judgement = call.judged(in_force, {name: value})
                    assert judgement.verdict is Verdict.ANSWER, (call, name)
    assert tried > 40


@pytest.mark.parametrize("name", ["shell", "cwd", "env", "stdin", "background", "Command", "CMD"])
def test_an_argument_that_nobody_has_declared_may_not_be_there(name: str) -> None:
    for call in STEPS:
        if call.tool in RUNNERS:
            assert call.judged(PLAN, {name: "x"}).verdict is Verdict.ANSWER, call


def test_what_the_model_reads_names_the_word_that_writes() -> None:
    """In the agents of one name for their shells, too: not that of an argument that another lacks."""
    for call in STEPS:
        if call.tool in RUNNERS and call.tool != "run_commands":
            (name,) = {"cmd", "command"} & call.arguments.keys()
            reason = call.judged(PLAN, {**call.usual, name: "sort -o out.txt README.md"}).reason
            assert "`sort -o` writes" in reason, reason


def test_the_table_of_commands_holds_by_the_shells_of_agents() -> None:
    """Through the whole policy: the command as a text, in a list, and within a program."""
    table = yaml.safe_load((ROOT / "tests/golden/commands.yaml").read_text(encoding="utf-8"))
    tried, wrong = 0, list[Any]()
    for group in table.values():
        for expected, verdict in (("release", Verdict.RELEASE), ("refuse", Verdict.ANSWER)):
            for entry in group.get(expected) or ():
                command = entry["command"] if isinstance(entry, dict) else entry
                program = f"text(await tools.exec_command({json.dumps({'cmd': command})}));"
                for tool, arguments in (
                    ("Bash", {"command": command, "description": "Look around"}),
                    ("run_commands", {"commands": [command]}),
                    ("exec", {"input": program}),
                ):
                    tried += 1
                    judgement = judge(PLAN, ToolCall(ToolName(tool), arguments))
                    if judgement.verdict is not verdict:
                        wrong.append((tool, expected, command, judgement.reason))
    assert wrong == []
    assert tried > 3000

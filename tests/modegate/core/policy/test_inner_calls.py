"""A program that calls tools is released only if each of its calls would be; none leads out of the mode."""

from __future__ import annotations

import pytest

from modegate.core.ids import ToolName
from modegate.core.policy.conditions import Equals
from modegate.core.policy.judge import ToolCall, Verdict, judge
from modegate.core.policy.model import Effect, Mode
from modegate.core.policy.understood import Calls, ReadOnly
from modegate.core.policy.when import When
from support.playbook import mode, rule

EXEC = rule("exec", When({"input": Calls()}))
SHELL = rule("exec_command", When({"cmd": ReadOnly()}, others=("workdir",)))
PLAN = mode(
    "plan", EXEC, SHELL, "read", rule("fetch", effect=Effect.ASK), "collaboration__list_agents"
)
NO_OTHER = rule("exec", effect=Effect.DENY)
ANY = mode("any", EXEC, NO_OTHER, rule("write", effect=Effect.DENY), "*")

DECLARED = frozenset({"exec", "mcp__fs__write", "Read"})


def program(text: str, declared: frozenset[str] = frozenset()) -> ToolCall:
    return ToolCall(ToolName("exec"), {"input": text}, declared)


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        (
            PLAN,
            "const r = await tools.exec_command({cmd: 'git log -3', workdir: '/a'}); text(r.output);",
        ),
        (PLAN, "text(await tools.read({path: 'a'}))"),
        (PLAN, "await Promise.all([tools.read({}), tools.exec_command({cmd: 'ls'})])"),
        (PLAN, "await tools.collaboration__list_agents({})"),
        (PLAN, "text('nothing')"),
        (ANY, "await tools.look({})"),
    ],
)
def test_a_program_of_calls_that_are_released_is(plan: Mode, text: str) -> None:
    assert judge(plan, program(text)).verdict is Verdict.RELEASE


@pytest.mark.parametrize(
    ("plan", "text", "why"),
    [
        (PLAN, "await tools.exec_command({cmd: 'rm a'})", "its call of `exec_command` is not released"),
        (PLAN, "await tools.exec_command({cmd: 'ls', shell: '/tmp/sh'})", "`shell` must not be there"),
        (PLAN, "await tools.exec_command({cmd: ['rm', 'a']})", "its call of `exec_command`"),
        (PLAN, "await tools.read({}); await tools.write({})", "no rule of mode 'plan' covers 'write'"),
        (PLAN, "await tools.fetch({})", "a person decides"),
        (PLAN, "await tools.exec('await tools.read({})')", "a program may not call `exec`"),
        (PLAN, "await tools.exit_plan_mode({plan: 'x'})", "a program may not call `exit_plan_mode`"),
        (ANY, f"await tools.write{'_' * 1020}({{}})", "no tool has a name as long as"),
        (ANY, "await tools.exit_plan_mode({plan: 'x'})", "a program may not call"),
        (ANY, "await tools.ExitPlanMode({plan: 'x'})", "a program may not call"),
        (ANY, "await tools.Exit_Plan_Mode({plan: 'x'})", "a program may not call"),
        (ANY, "await tools.functions__exit_plan_mode({})", "a program may not call"),
        (ANY, "await tools.plan_exit({})", "a program may not call"),
        (ANY, "await tools.Exec('1')", "a program may not call"),
        (ANY, "await tools.functions__exec('1')", "a program may not call"),
        (ANY, "await tools.write({})", "denied by"),
        (ANY, "await tools.Write({})", "in its spelling alone"),
        (PLAN, "while (1) {}", "argument `input`"),
    ],
)  # fmt: skip
def test_a_program_with_another_call_is_not(plan: Mode, text: str, why: str) -> None:
    told = judge(plan, program(text))
    assert told.verdict is Verdict.ANSWER
    assert why in told.reason


def test_other_tools_that_take_programs_cannot_be_called_from_one() -> None:
    plan = mode("plan", EXEC, NO_OTHER, rule("run_*", When({"code": Calls()})), "*")
    for name in ("run_typescript", "runTypescript", "Run_x"):
        assert judge(plan, program(f"await tools.{name}({{code: ''}})")).verdict is Verdict.ANSWER


def test_under_a_glob_that_takes_programs_nothing_is_called() -> None:
    plan = mode("plan", "read", rule("*", When({"input": Calls()})))
    assert judge(plan, program("await tools.read({})")).verdict is Verdict.ANSWER


@pytest.mark.parametrize(
    ("declared", "verdict"),
    [
        (frozenset(), Verdict.RELEASE),
        (frozenset({"read"}), Verdict.RELEASE),
        (frozenset({"Read"}), Verdict.ANSWER),
        (frozenset({"read", "Read"}), Verdict.RELEASE),
        (frozenset({"mcp__fs__read"}), Verdict.ANSWER),
    ],
)
def test_a_name_that_is_not_declared_counts_as_each_similar_one_that_is(
    declared: frozenset[str], verdict: Verdict
) -> None:
    assert judge(PLAN, program("await tools.read({})", declared)).verdict is verdict


def test_conditions_hold_within_a_program_under_ask_too() -> None:
    plan = mode("plan", rule("exec", When({"input": Calls()}, others=()), Effect.ASK), SHELL)
    read, wrote = "await tools.exec_command({cmd: 'ls'})", "await tools.exec_command({cmd: 'rm a'})"
    assert judge(plan, program(read)).verdict is Verdict.ASK
    assert judge(plan, program(wrote)).verdict is Verdict.ANSWER


def test_a_call_with_arguments_in_two_spellings_is_not_released() -> None:
    plan = mode("plan", EXEC, rule("edit", When({"command": Equals("view")}, others_any=True)))
    for arguments in (
        "{command: 'view', Command: 'create'}",
        "{command: 'view', command: 'create'}",
        "{command: 'create', command: 'view'}",
        "{command: 'view', '__proto__': {command: 'create'}}",
        "{command: 'view', ...other}",
        "{['command']: 'view'}",
        "{get command() { return 'view' }}",
    ):
        assert judge(plan, program(f"await tools.edit({arguments})")).verdict is Verdict.ANSWER
    assert judge(plan, program("await tools.edit({command: 'view'})")).verdict is Verdict.RELEASE

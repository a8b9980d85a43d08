"""The policy that ships reads everything and changes nothing; its examples and its page are right too."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modegate.core.argument.globs import is_glob
from modegate.core.ids import DEFAULT_MODE, ModeId, ToolName
from modegate.core.policy.judge import ToolCall, Verdict, judge, may_offer
from modegate.core.policy.model import EXIT_TOOL, Limits, Sessions
from support.policies import KEYS, parse

TEXT = (Path(__file__).parents[1] / "policies.yaml").read_text()
POLICY = parse(TEXT)
PLAN = POLICY.modes[ModeId("plan")]

# What was seen on the wire of each agent, by what it does.
READS = """
    Read Glob Grep Skill ToolSearch ListAgents ReportFindings CronList TaskGet TaskList TaskOutput
    TodoWrite AskUserQuestion view_image get_goal tool_search request_user_input
    request_user_input_async read glob grep skill tool_search_tool_regex tool_search_tool_bm25 advisor
    todowrite board_read kilo_local_recall read_file grep_search list_directory list_agents update_topic
    read_files search_codebase ask_question team_status List Checklist CheckBackgroundJob AskQuestion
    Skills view rg read_bash list_bash read_agent search_tool_functions todo ls think finish
    LS complete recall task_complete find collaboration__list_agents todo_write report_findings zoom_image
    get_current_thread_id final_answer team_list_runs team_list_outcomes team_read_mailbox
    list_background_processes read_background_output fetch_copilot_cli_documentation
"""
CHANGES = """
    " Write Edit Agent Workflow NotebookEdit ScheduleWakeup CronCreate CronDelete EnterWorktree
    ExitWorktree SendMessage Monitor TaskStop TaskCreate TaskUpdate EnterPlanMode ExitPlanMode Task
    apply_patch send_message send_input close_agent write edit task webfetch board_post schedule_wakeup
    cancel_wakeup plan_exit write_file notebook_edit agent tool_call update_goal replace invoke_agent
    enter_plan_mode editor spawn_agent team_spawn_teammate team_run_task team_send_message Exit
    stop_bash create sql session_store_sql write_agent edit_file delete js_eval save append patch
    ipython tmux WebFetch WebSearch web_search web_fetch google_web_search fetch_web_content Fetch
    fetch_url mcp__docs__find mcp__fs__write_file exit_plan_mode code_execution code_interpreter mcp
    memory computer str_replace_based_edit_tool sleep create_goal followup_task resume_agent
    interrupt_agent DeferredToolPlaceholder collaboration__spawn_agent collaboration__send_message
    collaboration__wait_agent read_mcp_resource compact_conversation convert loop_wakeup monitor
    local_shell execute_command execute_bash python KillShell
"""


BY_ARGUMENTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "Bash": ({"command": "ls"}, {"command": "touch a"}),
    "bash": ({"command": "ls | head"}, {"command": "ls | tee a"}),
    "exec_command": ({"cmd": "ls && pwd"}, {"cmd": "ls && touch a"}),
    "write_stdin": ({"session_id": 1, "chars": ""}, {"session_id": 1, "chars": "y\n"}),
    "exec": (
        {"input": 'text(await tools.exec_command({cmd: "ls"}));'},
        {"input": 'text(await tools.exec_command({cmd: "touch a"}));'},
    ),
    "wait": ({"cell_id": "1"}, {"cell_id": "1", "terminate": True}),
    "shell": ({"command": ["bash", "-lc", "ls"]}, {"command": ["bash", "-lc", "touch a"]}),
    "shell_command": ({"command": "ls"}, {"command": "touch a"}),
    "run_shell_command": ({"command": "ls", "is_background": False}, {"command": "make"}),
    "run_commands": ({"commands": ["ls", "pwd"]}, {"commands": ["ls", "touch a"]}),
    "terminal": ({"command": "ls"}, {"command": "ls", "is_input": True}),
    "execute": ({"command": "ls"}, {"command": "touch a"}),
    "run_typescript": (
        {"code": 'text(await tools.bash({command: "ls"}));'},
        {"code": 'text(await tools.bash({command: "touch a"}));'},
    ),
    "background_process": ({"action": "logs", "id": "1"}, {"action": "start", "command": "ls"}),
    "unified_harness_scratchpad": ({"action": "list"}, {"action": "write", "content": "x"}),
    "file_editor": ({"command": "view", "path": "a"}, {"command": "create", "path": "a"}),
    "task_tracker": ({"command": "view"}, {"command": "drop"}),
}
"""Tools that are offered, with a call that is released and one that is not."""


@pytest.mark.parametrize("name", READS.split())
def test_a_tool_that_reads_is_offered_and_released(name: str) -> None:
    assert may_offer(PLAN, ToolName(name))
    assert judge(PLAN, ToolCall(ToolName(name), {"path": "a"})).verdict is Verdict.RELEASE


@pytest.mark.parametrize("name", CHANGES.split())
def test_a_tool_that_changes_runs_or_calls_out_is_neither(name: str) -> None:
    assert not may_offer(PLAN, ToolName(name))
    assert judge(PLAN, ToolCall(ToolName(name), {"path": "a"})).verdict is Verdict.ANSWER


@pytest.mark.parametrize("name", BY_ARGUMENTS)
def test_a_tool_that_can_do_both_may_only_read(name: str) -> None:
    reads, changes = BY_ARGUMENTS[name]
    assert may_offer(PLAN, ToolName(name))
    assert judge(PLAN, ToolCall(ToolName(name), reads)).verdict is Verdict.RELEASE
    others = () if name in ("file_editor", "task_tracker") else ({**reads, "extra": 1},)
    for arguments in (changes, *others, None):
        assert judge(PLAN, ToolCall(ToolName(name), arguments)).verdict is Verdict.ANSWER


def test_the_tables_name_every_tool_of_the_policy() -> None:
    assert {rule.pattern for rule in PLAN.rules} == {*READS.split(), *BY_ARGUMENTS}


@pytest.mark.parametrize("tool", ["file_editor", "task_tracker"])
@pytest.mark.parametrize(
    ("arguments", "verdict"),
    [
        ({"command": "view", "path": "/a", "summary": "look"}, Verdict.RELEASE),
        ({"command": "create", "path": "/a", "file_text": "x"}, Verdict.ANSWER),
        ({"command": "view "}, Verdict.ANSWER),
        ({"command": ["view"]}, Verdict.ANSWER),
        ({"path": "/a"}, Verdict.ANSWER),
        (None, Verdict.ANSWER),
    ],
)
def test_a_tool_of_several_effects_may_only_view(
    tool: str, arguments: dict[str, Any] | None, verdict: Verdict
) -> None:
    assert may_offer(PLAN, ToolName(tool))
    assert judge(PLAN, ToolCall(ToolName(tool), arguments)).verdict is verdict


@pytest.mark.parametrize(
    ("tool", "verdict"), [("file_editor", Verdict.ANSWER), ("task_tracker", Verdict.RELEASE)]
)
def test_r8_a_list_of_tasks_may_be_written(tool: str, verdict: Verdict) -> None:
    call = ToolCall(ToolName(tool), {"command": "plan", "task_list": [{"title": "a"}]})
    assert judge(PLAN, call).verdict is verdict


def test_the_section_says_what_holds_and_how_the_mode_is_left() -> None:
    assert PLAN.section.startswith("You are in plan mode")
    assert f"call {EXIT_TOOL} with the whole plan" in PLAN.section
    assert "Only a person can end plan mode" in PLAN.section
    assert PLAN.exit is not None
    assert [option.to for option in PLAN.exit.options] == [DEFAULT_MODE]


def test_no_rule_stands_twice_and_none_is_a_glob() -> None:
    rules = [replace(rule, at=None) for rule in PLAN.rules]
    assert [rule for rule in rules if rules.count(rule) > 1] == []
    assert not [rule for rule in rules if is_glob(rule.pattern)]


def test_a_tool_without_conditions_is_not_limited_elsewhere() -> None:
    free = {rule.pattern for rule in PLAN.rules if rule.when is None}
    assert not free & {rule.pattern for rule in PLAN.rules if rule.when is not None}


def test_the_policy_is_short() -> None:
    said = [line for line in TEXT.splitlines() if line.strip() and not line.strip().startswith("#")]
    assert len(said) < 30


def test_the_examples_are_valid_and_show_the_defaults() -> None:
    every = parse(re.sub(r"(?m)^( *)#(?=\S|  )", r"\1", TEXT))
    assert set(every.modes) == {"plan", "plan-with-web", "research"}
    assert every.modes[ModeId("plan-with-web")].section == PLAN.section
    assert len(every.modes[ModeId("plan")].rules) == len(PLAN.rules) + 3
    assert (every.sessions, every.limits) == (Sessions(), Limits())


PAGES = Path(__file__).parents[1] / "docs"
DOCS = (PAGES / "policies.md").read_text()
KEYS_SAID = DOCS + (PAGES / "commands.md").read_text()


@pytest.mark.parametrize(
    "key",
    sorted({key for at, keys in KEYS.items() if not at.startswith("shell") for key in keys}),
)
def test_each_key_is_documented(key: str) -> None:
    """In a table of keys; `allow`, `ask`, `deny` and `when` in the words about rules."""
    row, words = rf"(?m)^\| `{key}` \|", rf"`\{{?{key}(: NAME\}})?`"
    assert re.search(row, KEYS_SAID) or re.search(words, KEYS_SAID)


def test_the_documented_defaults_are_the_defaults() -> None:
    rows = dict(re.findall(r"(?m)^\| `(\w+)` \| [^|]+ \| ([^|]+) \|", DOCS))
    limits = {key: rows[key].replace(" s", "s") for key in KEYS["limits"]}
    written = "".join(f"  {key}: {value}\n" for key, value in limits.items())
    minimal = "modes: {plan: {section: s, tools: [a]}}\n"
    assert parse(f"{minimal}limits:\n{written}").limits == Limits()


@pytest.mark.parametrize("number", range(DOCS.count("```yaml\n")))
def test_each_documented_example_is_a_policy(number: int) -> None:
    examples = re.findall(r"(?ms)^```yaml\n(.*?)^```$", DOCS)
    assert parse(examples[number]).modes

"""Requests of real agents under the policy that ships: what changes things goes, all else keeps its bytes.

`tests/golden/requests` holds one body a file as each agent sent it, with its prose cut.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from modegate.core.log.events import RequestHeader
from modegate.core.wire.json_spans import Span, elements, members
from support.playbook import PLAN, Session, said
from support.policies import parse

ROOT = Path(__file__).parents[5]
POLICY = parse((ROOT / "policies.yaml").read_text())
SECTION = POLICY.modes[PLAN].section
REQUESTS = {
    path.stem: path.read_bytes() for path in sorted((ROOT / "tests/golden/requests").glob("*.json"))
}

# What stays, as some call of it only reads, and what goes, by agent; every tool of every request is in one
# of the two.
READS = {
    "aider": "",
    "cline": "read_files search_codebase ask_question team_status team_list_runs "
    "team_list_outcomes team_read_mailbox run_commands",
    "continue": "Read List Checklist CheckBackgroundJob AskQuestion Skills Bash",
    "copilot": "read_bash list_bash view fetch_copilot_cli_documentation skill read_agent "
    "list_agents rg glob task_complete bash",
    "gptme": "todo complete recall shell",
    "kilo": "board_read glob grep kilo_local_recall read skill todowrite background_process bash",
    "mini": "bash",
    "opencode": "glob grep read skill todowrite bash",
    "openhands": "file_editor task_tracker finish think terminal",
    "pi": "read bash",
    "qwen": "get_goal glob grep_search list_agents read_file skill tool_search report_findings "
    "zoom_image run_shell_command",
    "sdk": "read_file final_answer bash",
    "vibe": "search_tool_functions read_file skill todo run_typescript bash "
    "unified_harness_scratchpad",
}
CHANGES = {
    "aider": "",
    "cline": "fetch_web_content editor spawn_agent team_spawn_teammate team_task "
    "team_shutdown_teammate team_run_task team_cancel_run team_await_runs "
    "team_send_message team_broadcast team_mission_log team_cleanup team_create_outcome "
    "team_attach_outcome_fragment team_review_outcome_fragment team_finalize_outcome",
    "continue": "Write Fetch Edit Exit",
    "copilot": "stop_bash apply_patch sql session_store_sql write_agent task",
    "gptme": "append convert mcp memory patch patch_many save tmux vent ipython",
    "kilo": "board_post cancel_wakeup edit schedule_wakeup task webfetch write",
    "mini": "",
    "opencode": "edit task webfetch write",
    "openhands": "task",
    "pi": "edit write",
    "qwen": "agent edit notebook_edit tool_call update_goal write_file loop_wakeup monitor "
    "read_mcp_resource web_fetch",
    "sdk": "write_file",
    "vibe": "write_file edit",
}


def reads(name: str) -> list[str]:
    return READS[name.partition("-")[0]].split()


def tool_name(definition: dict[str, Any]) -> str:
    return str((definition.get("function") or definition.get("custom") or definition)["name"])


def declared(body: bytes) -> list[str]:
    return [tool_name(one) for one in json.loads(body).get("tools") or ()]


def top(body: bytes) -> dict[str, bytes]:
    return {one.key: body[one.value.start : one.value.end] for one in members(body)}


def items(raw: bytes) -> list[bytes]:
    return [raw[span.start : span.end] for span in elements(raw, Span(0, len(raw)))]


def planned(body: bytes) -> bytes:
    return Session(rules=POLICY).step(body, [said()]).requests[0]


def test_each_agent_is_there_and_each_of_its_tools_is_classified() -> None:
    assert {name.partition("-")[0] for name in REQUESTS} == READS.keys() == CHANGES.keys()
    for agent in READS:
        mine = (body for name, body in REQUESTS.items() if name.startswith(f"{agent}-"))
        seen = {tool for body in mine for tool in declared(body)}
        assert seen == {*READS[agent].split(), *CHANGES[agent].split()}
    assert sum(map(len, REQUESTS.values())) < 200_000


@pytest.mark.parametrize("name", REQUESTS)
def test_l6_no_tool_that_changes_things_is_declared_and_all_that_read_are(name: str) -> None:
    body = REQUESTS[name]
    left = declared(planned(body))
    kept = [tool for tool in declared(body) if tool in reads(name)]
    # The way out of the mode comes last; a request without tools has none.
    assert left == [*kept, *(["exit_plan_mode"] if declared(body) else [])]
    # Nor anywhere else, as a name or a type; the history may speak of what was called.
    beside = {
        key: json.loads(value) for key, value in top(planned(body)).items() if key != "messages"
    }
    assert not set(CHANGES[name.partition("-")[0]].split()) & set(_words(beside))


def _words(value: Any) -> list[str]:
    """Return every string that is a name or a type, outside of schemas."""
    if isinstance(value, dict):
        own = [value[key] for key in ("name", "type") if isinstance(value.get(key), str)]
        inner = (part for key, part in value.items() if key != "parameters")
        return own + [word for part in inner for word in _words(part)]
    if isinstance(value, list):
        return [word for part in value for word in _words(part)]
    return []


@pytest.mark.parametrize("name", REQUESTS)
def test_l3_all_outside_of_tools_and_system_keeps_its_bytes(name: str) -> None:
    body = REQUESTS[name]
    upstream = planned(body)
    before, after = top(body), top(upstream)
    for key in before.keys() - {"messages", "tools"}:
        assert after[key] == before[key]
    assert list(after) == [key for key in before if key in after]
    old, new = items(before["messages"]), items(after["messages"])
    leading = next(at for at, one in enumerate(old) if json.loads(one)["role"] == "user")
    assert new[leading:] == old[leading:]
    assert new[: leading - 1] == old[: leading - 1]
    if "tools" in after:
        kept = [one for one in items(before["tools"]) if tool_name(json.loads(one)) in reads(name)]
        assert items(after["tools"])[:-1] == kept


@pytest.mark.parametrize("name", REQUESTS)
def test_the_section_stands_in_the_last_system_message_where_tools_are_declared(name: str) -> None:
    body = REQUESTS[name]
    messages = json.loads(planned(body))["messages"]
    system = [one["content"] for one in messages if one["role"] == "system"]
    assert json.dumps(system).count(json.dumps(SECTION)[1:-1]) == bool(declared(body))
    if declared(body):
        assert json.dumps(system[-1]).count(json.dumps(SECTION)[1:-1]) == 1


@pytest.mark.parametrize("name", REQUESTS)
def test_the_header_names_what_the_model_is_shown(name: str) -> None:
    body = REQUESTS[name]
    (header,) = Session(rules=POLICY).step(body, [said()]).events
    assert isinstance(header, RequestHeader)
    kept = [tool for tool in declared(body) if tool in reads(name)]
    assert list(header.tools) == [*kept, *(["exit_plan_mode"] if declared(body) else [])]


@pytest.mark.parametrize("name", REQUESTS)
def test_l1_in_default_nothing_changes(name: str) -> None:
    got = Session("default", rules=POLICY).step(REQUESTS[name], [said()])
    assert got.requests == [REQUESTS[name]]
    assert got.events == []
    assert got.body == said()

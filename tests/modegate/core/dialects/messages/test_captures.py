"""Requests of real agents under the policy that ships: what changes things goes, all else keeps its bytes.

`tests/golden/requests/messages` holds one body a file as each agent sent it, with its prose cut; of Claude
Code also what it sends after each 400, with other betas and other tools each time.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from modegate.core.dialects.messages.request import edit
from modegate.core.dialects.messages.request.parsing import MessagesRequest
from modegate.core.ids import Lane
from modegate.core.log.events import RequestHeader
from modegate.core.step.request.assemble import header_event, section_for
from modegate.core.wire.json_spans import Span, elements, members
from modegate.core.wire.request_body import RequestBody
from support.messages import assembled, markers, names
from support.playbook import PLAN, Session
from support.policies import parse

ROOT = Path(__file__).parents[5]
POLICY = parse((ROOT / "policies.yaml").read_text())
SECTION = POLICY.modes[PLAN].section
GOLDEN = ROOT / "tests/golden/requests/messages"
REQUESTS = {path.stem: path.read_bytes() for path in sorted(GOLDEN.glob("*.json"))}

# What stays, as some call of it only reads, and what goes, by agent; every tool of every request is in one
# of the two.
READS = {
    "claude": "Read Skill ToolSearch ListAgents ReportFindings AskUserQuestion CronList TaskGet "
    "TaskList TaskOutput DeferredToolPlaceholder Bash",
    "copilot": "read_bash list_bash view fetch_copilot_cli_documentation skill read_agent "
    "list_agents grep glob bash",
    "opencode": "glob grep read skill todowrite bash",
    "pi": "read bash",
}
CHANGES = {
    "claude": "Agent Edit Write Workflow ScheduleWakeup WebFetch WebSearch NotebookEdit CronCreate "
    "CronDelete EnterWorktree ExitWorktree SendMessage Monitor TaskStop TaskCreate "
    "TaskUpdate ExitPlanMode",
    "copilot": "stop_bash create edit sql session_store_sql write_agent task",
    "opencode": "edit task webfetch write",
    "pi": "edit write",
}


def kept(name: str) -> list[str]:
    reads = READS[name.partition("-")[0]].split()
    return [tool for tool in names(json.loads(REQUESTS[name])) if tool in reads]


def top(body: bytes) -> dict[str, bytes]:
    return {one.key: body[one.value.start : one.value.end] for one in members(body)}


def items(raw: bytes) -> list[bytes]:
    return [raw[span.start : span.end] for span in elements(raw, Span(0, len(raw)))]


def planned(name: str) -> bytes:
    return assembled(REQUESTS[name], POLICY).body


def test_each_agent_is_there_and_each_of_its_tools_is_classified() -> None:
    assert {name.partition("-")[0] for name in REQUESTS} == READS.keys() == CHANGES.keys()
    for agent in READS:
        mine = (body for name, body in REQUESTS.items() if name.startswith(f"{agent}-"))
        seen = {tool for body in mine for tool in names(json.loads(body))}
        assert seen == {*READS[agent].split(), *CHANGES[agent].split()}
    assert sum(map(len, REQUESTS.values())) < 100_000


@pytest.mark.parametrize("name", REQUESTS)
def test_l6_no_tool_that_changes_things_is_declared_and_all_that_read_are(name: str) -> None:
    body = json.loads(planned(name))
    # The way out of the mode comes last; a request without tools has none.
    assert names(body) == [*kept(name), *(["exit_plan_mode"] if kept(name) else [])]
    # Nor is any loaded; the history may speak of what was called.
    assert not set(CHANGES[name.partition("-")[0]].split()) & set(_loads(body["messages"]))


def _loads(value: Any) -> list[str]:
    """Return every name that something refers to so that the tool is loaded."""
    if isinstance(value, dict):
        own = [value["tool_name"]] if value.get("type") == "tool_reference" else []
        return own + [name for part in value.values() for name in _loads(part)]
    return [name for part in value for name in _loads(part)] if isinstance(value, list) else []


@pytest.mark.parametrize("name", REQUESTS)
def test_l3_all_outside_of_tools_and_system_keeps_its_bytes(name: str) -> None:
    before, after = top(REQUESTS[name]), top(planned(name))
    assert list(after) == list(before)
    for key in before.keys() - {"tools", "system", "messages"}:
        assert after[key] == before[key]
    for old, new in zip(items(before["messages"]), items(after["messages"]), strict=True):
        assert new == old or b'"tool_reference"' in old
    blocks = items(after["system"])
    added = [json.dumps({"type": "text", "text": SECTION}, separators=(",", ":")).encode()]
    assert blocks == items(before["system"]) + (added if kept(name) else [])


@pytest.mark.parametrize("name", REQUESTS)
def test_l3_what_stays_of_the_tools_keeps_its_bytes_but_for_a_marker(name: str) -> None:
    before, after = top(REQUESTS[name]), top(planned(name))
    old = [
        one for one in items(before.get("tools", b"[]")) if json.loads(one)["name"] in kept(name)
    ]
    new = items(after.get("tools", b"[]"))[: len(old)]
    for one, other in zip(old, new, strict=True):
        assert other in (one, one[:-1] + b',"cache_control":{"type":"ephemeral"}}')


@pytest.mark.parametrize("name", REQUESTS)
def test_b090_there_are_never_more_markers(name: str) -> None:
    assert markers(json.loads(planned(name))) == markers(json.loads(REQUESTS[name])) <= 4


@pytest.mark.parametrize("name", ["claude-toolsearch", "claude-tui-toolsearch"])
def test_what_toolsearch_loaded_is_not_loaded_in_a_mode(name: str) -> None:
    """Left there, the reference would name a tool that is not in the list, which the API refuses."""
    old, new = (json.loads(body)["messages"] for body in (REQUESTS[name], planned(name)))
    assert old[:-1] == new[:-1]
    (result, rest), (gone, also) = old[-1]["content"], new[-1]["content"]
    assert [one["type"] for one in result["content"]] == ["tool_reference"]
    assert [one["type"] for one in gone["content"]] == ["text"]
    assert {**gone, "content": 0} == {**result, "content": 0}
    assert also == rest


@pytest.mark.parametrize("name", REQUESTS)
def test_the_header_names_what_the_model_is_shown(name: str) -> None:
    read, in_force = MessagesRequest(RequestBody(REQUESTS[name])), Session(rules=POLICY).in_force()
    event = header_event(Lane("l"), assembled(REQUESTS[name], POLICY), "", in_force)
    assert isinstance(event, RequestHeader)
    shown = [tool for tool in kept(name) if tool != "DeferredToolPlaceholder"]
    placeholders = [tool for tool in kept(name) if tool not in shown]
    assert list(event.tools) == [*shown, *(["exit_plan_mode"] if shown else []), *placeholders]
    assert bool(section_for(read, in_force)) == bool(shown)


@pytest.mark.parametrize("name", REQUESTS)
def test_l1_in_default_nothing_changes(name: str) -> None:
    free = Session("default", rules=POLICY).in_force()
    read = MessagesRequest(RequestBody(REQUESTS[name]))
    assert edit.assemble(read, free, section_for(read, free)).body == REQUESTS[name]

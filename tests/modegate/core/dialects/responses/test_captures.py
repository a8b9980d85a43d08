"""Responses requests of real agents under the policy that ships: what changes things goes, all else stays.

`tests/golden/requests/responses` holds one body a file as each agent sent it, with its prose cut and its
schemas shortened.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modegate.core.dialects.responses.dialect import RESPONSES
from modegate.core.dialects.responses.request.parsing import ResponsesRequest
from modegate.core.log.events import RequestHeader
from modegate.core.wire.json_spans import Span, elements, members
from modegate.core.wire.request_body import RequestBody
from support.asked import assembled
from support.playbook import JSON, PLAN, Got, Reply, Session
from support.policies import parse

ROOT = Path(__file__).parents[5]
POLICY = parse((ROOT / "policies.yaml").read_text())
SECTION = POLICY.modes[PLAN].section
REQUESTS = {
    path.stem: path.read_bytes()
    for path in sorted((ROOT / "tests/golden/requests/responses").glob("*.json"))
}

# What stays, as some call of it only reads, and what goes, by agent; every tool of every request is in one
# of the two.
READS = {
    "codex": "request_user_input view_image get_goal tool_search collaboration__list_agents "
    "exec_command write_stdin exec wait",
    "copilot": "read_bash list_bash view fetch_copilot_cli_documentation skill read_agent "
    "list_agents rg glob bash",
    "deepagents": "ls read_file glob grep get_current_thread_id",
    "opencode": "glob grep read skill bash",
    "pi": "read bash",
    "sdk": "read_file bash",
}
CHANGES = {
    "codex": "apply_patch create_goal update_goal web_search multi_agent_v1__close_agent "
    "multi_agent_v1__resume_agent multi_agent_v1__send_input multi_agent_v1__spawn_agent "
    "multi_agent_v1__wait_agent collaboration__followup_task "
    "collaboration__interrupt_agent collaboration__send_message "
    "collaboration__spawn_agent collaboration__wait_agent",
    "copilot": "stop_bash apply_patch sql session_store_sql write_agent task",
    "deepagents": "write_file edit_file delete task compact_conversation update_goal js_eval fetch_url",
    "opencode": "apply_patch task webfetch",
    "pi": "edit write",
    "sdk": "write_file",
}
READS["opencode"] += " todowrite"


def reads(name: str) -> list[str]:
    return READS[name.partition("-")[0]].split()


def changes(name: str) -> list[str]:
    return CHANGES[name.partition("-")[0]].split()


def declared(body: Any) -> Iterator[str]:
    """Yield what is declared anywhere, as a policy knows it: a second reading of the format."""
    lists = [body.get("tools", ()), *(item.get("tools", ()) for item in body["input"])]
    for tool in (tool for tools in lists for tool in tools):
        if tool["type"] != "namespace":
            yield tool.get("name", tool["type"])
        for inner in tool.get("tools", ()):
            home = tool["name"] == "functions"
            yield inner["name"] if home else f"{tool['name']}__{inner['name']}"


def top(body: bytes) -> dict[str, bytes]:
    return {one.key: body[one.value.start : one.value.end] for one in members(body)}


def items(raw: bytes) -> list[bytes]:
    return [raw[span.start : span.end] for span in elements(raw, Span(0, len(raw)))]


def test_each_agent_is_there_and_each_of_its_tools_is_classified() -> None:
    assert {name.partition("-")[0] for name in REQUESTS} == READS.keys() == CHANGES.keys()
    for agent in READS:
        mine = [body for name, body in REQUESTS.items() if name.startswith(f"{agent}-")]
        seen = {tool for body in mine for tool in declared(json.loads(body))}
        assert seen == {*READS[agent].split(), *CHANGES[agent].split()}
    assert sum(map(len, REQUESTS.values())) < 60_000


@pytest.mark.parametrize("name", REQUESTS)
def test_l6_no_tool_that_changes_things_is_declared_and_all_that_read_are(name: str) -> None:
    body = json.loads(REQUESTS[name])
    got = assembled(REQUESTS[name], POLICY)
    kept = [tool for tool in declared(body) if tool in reads(name)]
    # The way out of the mode comes last; a request without tools has none.
    expected = [*kept, *(["exit_plan_mode"] if list(declared(body)) else [])]
    assert list(declared(json.loads(got.body))) == expected
    assert list(got.tools) == expected
    plain = {tool.rpartition("__")[2] for tool in changes(name)}
    assert not plain & set(_words({k: v for k, v in json.loads(got.body).items() if k != "input"}))


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
def test_l3_all_else_keeps_its_bytes(name: str) -> None:
    body = REQUESTS[name]
    got = assembled(body, POLICY).body
    before, after = top(body), top(got)
    for key in before.keys() - {"tools", "input", "instructions"}:
        assert after[key] == before[key]
    if not list(declared(json.loads(body))):
        assert got == body
        return
    told = "instructions" in before or before.get("store") != b"false"
    if told:
        assert json.loads(after["instructions"]).endswith(SECTION)
        assert after["instructions"].startswith(before.get("instructions", b'""')[:-1])
    theirs, ours = items(before["input"]), items(after["input"])
    sections = [item for item in ours if json.loads(item).get("content") == _section()]
    assert len(sections) == (0 if told else 1)
    same = [item for item in ours if item not in sections]
    # One item alone may change: that in which an agent declares its tools.
    assert len(same) == len(theirs)
    for one, other in zip(theirs, same, strict=True):
        assert one == other or json.loads(one)["type"] == "additional_tools"
    kept = items(after.get("tools", b"[]"))
    assert set(kept[:-1]) <= set(items(before.get("tools", b"[]")))


def _section() -> list[dict[str, str]]:
    return [{"type": "input_text", "text": SECTION}]


SAID = [
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "ok", "annotations": []}],
    }
]


def step(body: bytes, mode: str) -> Got:
    """Live through a step that is answered with a few words."""
    answer = {"id": "resp_1", "object": "response", "status": "completed", "output": SAID}
    reply = Reply(json.dumps(answer).encode(), list(JSON))
    return Session(mode, rules=POLICY, dialect=RESPONSES).step(body, [reply])


@pytest.mark.parametrize("name", REQUESTS)
def test_l1_without_a_mode_nothing_changes(name: str) -> None:
    assert step(REQUESTS[name], "default").requests == [REQUESTS[name]]


@pytest.mark.parametrize("name", REQUESTS)
def test_in_a_mode_a_step_sends_it_so_and_logs_what_was_shown(name: str) -> None:
    got = step(REQUESTS[name], "plan")
    shown = assembled(REQUESTS[name], POLICY)
    assert got.requests == [shown.body]
    assert [one.tools for one in got.events if isinstance(one, RequestHeader)] == [shown.tools]


@pytest.mark.parametrize("name", REQUESTS)
def test_every_answer_is_found_and_every_call_known(name: str) -> None:
    read = ResponsesRequest(RequestBody(REQUESTS[name]))
    calls = [item for item in read.history if str(item.get("type")).endswith("_call")]
    assert {call["call_id"] for call in calls} <= read.call_ids
    assert len(read.messages) == len(read.history) == len(json.loads(REQUESTS[name])["input"])
    assert read.first_user_text
    assert not read.chained

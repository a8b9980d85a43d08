"""Which items are calls, what of an answer the provider ran, and under which names policies know them."""

from __future__ import annotations

from typing import Any

import pytest

from modegate.core.log.events import CallJudged
from modegate.core.policy.understood import Calls
from modegate.core.policy.when import When
from support.playbook import POLICY, Got, mode, policy, rule
from support.responses import (
    answer,
    call,
    custom,
    kinds,
    last,
    message,
    request,
    session,
    whole,
)

REQUEST = request("read", "grep", "write", stream=True)
READ, GREP = call("read", '{"path":"a"}'), call("grep", '{"for":"b"}', 2)
WRITE = call("write", '{"path":"SECRET"}')
HOSTED = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "q"}}


def step(*replies: Any, rules: Any = POLICY, body: Any = REQUEST) -> Got:
    return session(rules=rules).step(body, replies)


def output(body: bytes) -> list[Any]:
    found: list[Any] = last(body)["output"]
    return found


def said(body: bytes) -> list[str]:
    return [item["content"][0]["text"] for item in output(body) if item["type"] == "message"]


# What the provider ran --------------------------------------------------------------------------


def test_what_a_policy_allows_to_run_is_shown() -> None:
    rules = policy(mode("plan", "read", "web_search"))
    body = answer(HOSTED, message("Found"))
    assert step(body, rules=rules).body == body


def test_a_hop_may_follow_what_was_allowed_to_run() -> None:
    rules = policy(mode("plan", "read", "web_search"))
    got = step(answer(HOSTED, WRITE), answer(message("b"), n=2), rules=rules)
    assert [item["type"] for item in output(got.body)] == ["web_search_call", "message"]
    assert got.upstream["input"][-3]["type"] == "web_search_call"


@pytest.mark.parametrize("item", [
    HOSTED,
    {"type": "code_interpreter_call", "id": "ci", "code": "SECRET", "container_id": "c"},
    {"type": "image_generation_call", "id": "ig", "result": "SECRET"},
    {"type": "file_search_call", "id": "fs", "queries": ["SECRET"]},
    {"type": "mcp_call", "id": "m", "server_label": "l", "name": "n", "arguments": '{"SECRET":1}'},
    {"type": "mcp_list_tools", "id": "m", "server_label": "l", "tools": [{"name": "SECRET"}]},
    {"type": "program", "id": "p", "code": "SECRET", "call_id": "c", "fingerprint": "f"},
    {"type": "function_call_output", "id": "c", "call_id": "k", "output": "SECRET"},
    {"type": "something_new", "id": "n", "what": "SECRET"},
], ids=lambda item: item["type"])  # fmt: skip
@pytest.mark.parametrize("streamed", [True, False])
def test_what_ran_and_is_not_allowed_is_not_shown_and_ends_it(item: Any, streamed: bool) -> None:
    items = [item, message("I ran it.")]
    got = step(answer(*items) if streamed else whole(*items))
    assert len(got.requests) == 1
    assert b"SECRET" not in got.body
    texts = said(got.body) if streamed else [i["content"][0]["text"] for i in got.json["output"]]
    assert texts[0] == "I ran it."
    assert "[modegate] Not shown in mode 'plan' (Plan)" in texts[1]


def test_mcp_tools_are_known_by_server_and_name() -> None:
    rules = policy(mode("plan", "mcp__docs__*"))
    listed = {"type": "mcp_list_tools", "id": "l", "server_label": "docs", "tools": [{"name": "a"}]}
    ran = {"type": "mcp_call", "id": "m", "server_label": "docs", "name": "a", "arguments": "{}"}
    body = answer(listed, ran, message("ok"))
    assert step(body, rules=rules).body == body


# Names ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("item", "allowed"), [
    (call("spawn", namespace="multi"), ["multi__spawn"]),
    (call("multi__spawn", namespace="multi"), ["multi__spawn"]),
    (call("spawn", namespace="functions"), ["spawn"]),
    (call("spawn", namespace=None), ["spawn"]),
    ({"type": "local_shell_call", "id": "l", "call_id": "k", "action": {"type": "exec"}}, ["local_shell"]),
    ({"type": "apply_patch_call", "id": "l", "call_id": "k", "operation": {}}, ["apply_patch"]),
    ({"type": "tool_search_call", "id": "l", "call_id": "k", "execution": "client", "arguments": {}},
     ["tool_search"]),
    ({"type": "mcp_approval_request", "id": "l", "server_label": "d", "name": "n", "arguments": "{}"},
     ["mcp__d__n"]),
], ids=["namespace", "long", "home", "null", "local_shell", "apply_patch", "tool_search", "mcp"])  # fmt: skip
def test_the_name_under_which_a_policy_knows_a_call(item: Any, allowed: list[str]) -> None:
    body = answer(item)
    assert step(body, rules=policy(mode("plan", *allowed))).body == body
    got = step(body, answer(message("b"), n=2), rules=policy(mode("plan", "spawn_not", "x")))
    assert b'"call_id"' not in got.body
    assert b"mcp_approval" not in got.body
    (judged,) = [event for event in got.events if isinstance(event, CallJudged)]
    assert judged.tool == allowed[0]


def test_a_namespace_does_not_hide_a_tool_of_the_plain_name() -> None:
    rules = policy(mode("plan", "multi__*"))
    item = call("write", namespace="multi")
    body = answer(item)
    assert step(body, rules=rules, body=request("other", stream=True)).body == body
    got = step(body, answer(message("b"), n=2), rules=rules)
    assert "function_call" not in kinds(got.body)
    assert b'"multi"' not in got.body


OUTPUTS: list[tuple[Any, Any]] = [
    (custom("write"), {"type": "custom_tool_call_output", "call_id": "call_of_this_answer_1"}),
    ({"type": "local_shell_call", "id": "l", "call_id": "local_call_1", "action": {}},
     {"type": "local_shell_call_output", "id": "local_call_1"}),
    ({"type": "shell_call", "id": "l", "call_id": "shell_call_1", "action": {"commands": ["x"]}},
     {"type": "shell_call_output", "call_id": "shell_call_1"}),
    ({"type": "apply_patch_call", "id": "l", "call_id": "patch_call_1", "operation": {}},
     {"type": "apply_patch_call_output", "call_id": "patch_call_1", "status": "failed"}),
    ({"type": "tool_search_call", "id": "l", "call_id": "search_call_1", "execution": "client"},
     {"type": "tool_search_output", "call_id": "search_call_1", "tools": []}),
    ({"type": "mcp_approval_request", "id": "approval_request_1", "server_label": "d", "name": "n",
      "arguments": "{}"},
     {"type": "mcp_approval_response", "approval_request_id": "approval_request_1", "approve": False}),
]  # fmt: skip


@pytest.mark.parametrize(("item", "wanted"), OUTPUTS, ids=[one["type"] for one, _ in OUTPUTS])
def test_each_type_of_call_is_answered_in_its_own_way(item: Any, wanted: Any) -> None:
    got = step(answer(item), answer(message("b"), n=2))
    *_, sent, result = got.upstream["input"]
    assert sent == item
    assert {key: result[key] for key in wanted} == wanted
    assert said(got.body) == ["b"]


# Programs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("declared", ["read", "mcp__fs__read", "Read"])
def test_a_program_calls_no_tool_under_a_name_that_is_like_it(declared: str) -> None:
    rules = policy(mode("plan", rule("exec", When({"input": Calls()})), "read"))
    program = custom("exec", "await tools.read({})")
    body = request("exec", declared, stream=True)
    got = step(answer(program), answer(message("Fine.", "msg_2"), n=2), rules=rules, body=body)
    assert (got.body == answer(program)) == (declared == "read")

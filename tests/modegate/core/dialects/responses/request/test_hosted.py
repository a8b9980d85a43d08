"""What makes the provider act from within the history, or beside the API, is refused in a mode (L6)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.dialects.common.hosted import PROVIDER_KEEPS, PROVIDER_RUNS
from support.asked import USER, function, namespace, refused, request, rules, sent

TOOL = function("write")


@pytest.mark.parametrize("key", ["tools", "functions", "function_call", "messages", "custom_tools"])
@pytest.mark.parametrize(
    "item",
    [
        {"type": "message", "role": "developer", "content": "x"},
        {"role": "user", "content": "x"},
        {"type": "function_call_output", "call_id": "c1", "output": "x"},
        {"type": "item_reference", "id": "at_1"},
        {"type": "Additional_Tools"},
        {"type": "additional-tools"},
        {"type": "something_new"},
        {"type": "compaction", "encrypted_content": "x"},
    ],
)
def test_items_that_declare_tools_where_none_belong_are_refused(
    item: dict[str, Any], key: str
) -> None:
    body = request("read", input=[USER, {**item, key: [TOOL]}])
    assert "input[1] declares tools" in refused(body)


@pytest.mark.parametrize("kind", ["additional_tools", "tool_search_output", "mcp_list_tools"])
def test_and_where_they_belong_no_other_key_may(kind: str) -> None:
    body = request("read", input=[{"type": kind, "tools": [], "functions": [TOOL]}])
    assert "input[0] declares tools in 'functions'" in refused(body)


@pytest.mark.parametrize(
    "key", ["functions", "function_call", "messages", "custom_tools", "toolConfig", "Functions"]
)
def test_keys_of_other_apis_declare_nothing_here(key: str) -> None:
    assert f"the key {key!r} is not one of this API's" in refused({**request("read"), key: [TOOL]})
    nothing: list[Any] = [None, [], {}]
    for empty in nothing:
        assert sent({**request("read"), key: empty})[key] == empty


@pytest.mark.parametrize("key", PROVIDER_RUNS)
def test_b100_a_key_that_makes_the_provider_act_is_removed(key: str) -> None:
    body = request("read")
    values: list[Any] = [True, {}, [{"a": 1}], "on"]
    for value in values:
        assert sent({**body, key: value}) == sent(body)
    for off in (None, False):
        assert sent({**body, key: off})[key] == off


def test_b100_background_is_removed_with_its_options() -> None:
    """What runs in the background is fetched by a way that no gate is in."""
    options = {"completion_window": "2h"}
    body = request("read", background=True, background_options=options)
    assert sent(body) == sent(request("read"))
    assert sent(body, rules("read", "background"))["background_options"] == options


@pytest.mark.parametrize("key", PROVIDER_KEEPS)
def test_a_stored_prompt_is_refused_unless_allowed(key: str) -> None:
    body = request("read", **{key: {"id": "pmpt_1", "version": "2"}})
    assert "allow the tool" in refused(body)
    assert sent(body, rules("read", PROVIDER_KEEPS[key]))[key] == body[key]


@pytest.mark.parametrize("key", ["input", "tools", "tool_choice", "functions", "messages"])
def test_no_other_request_is_carried_inside(key: str) -> None:
    assert "'extra_body' holds" in refused(request("read", extra_body={key: [TOOL]}))


@pytest.mark.parametrize("model", ["openai/gpt-5:online", "o3-deep-research", "sonar-pro"])
def test_b100_a_model_that_acts_by_itself_is_refused(model: str) -> None:
    assert repr(model) in refused(request("read", model=model))


ASKED = {
    "type": "mcp_approval_request",
    "id": "mcpr_1",
    "server_label": "docs",
    "name": "search",
    "arguments": "{}",
}


def approval(**more: Any) -> dict[str, Any]:
    approve = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
    return {**approve, **more}


@pytest.mark.parametrize("approve", [True, None, 1, "false", 0])
def test_no_agent_approves_what_the_mode_does_not_allow(approve: Any) -> None:
    message = refused(request("read", input=[ASKED, approval(approve=approve)]))
    assert "input[1] lets the provider run a tool of an MCP server" in message
    assert "allow the tool 'mcp__docs__search'" in message
    # Nor what nobody here has seen.
    message = refused(request("read", input=[approval(approve=approve)], previous_response_id="r"))
    assert "allow the tool 'mcp'" in message


def test_it_may_approve_what_the_mode_allows_and_decline_anything() -> None:
    body = request("read", input=[ASKED, approval()])
    for allowed in ("mcp", "mcp__docs__search", "mcp__docs__*"):
        assert sent(body, rules("read", allowed))["input"][1:] == body["input"]
    declined = request("read", input=[ASKED, approval(approve=False, reason="no")])
    assert sent(declined)["input"][1:] == declined["input"]
    assert sent(request("read", input=[approval()]), rules("mcp"))["input"][1:] == [approval()]


@pytest.mark.parametrize(
    "items",
    [
        [ASKED, {**ASKED, "name": "other"}, approval()],
        [ASKED, approval(approval_request_id="mcpr_2")],
        [{**ASKED, "name": None}, approval()],
        [{**ASKED, "server_label": 1}, approval()],
        [approval(approve=False, Approve=True)],
        [approval(approval_request_id=None), {**ASKED, "id": None, "name": "x"}],
    ],
)
def test_an_approval_that_leaves_a_doubt_is_refused(items: list[Any]) -> None:
    given = rules("read", "mcp__docs__*", "mcp__1__*")
    assert "lets the provider run a tool" in refused(request("read", input=items), given)


def test_an_approval_that_says_two_things_is_refused() -> None:
    text = json.dumps(request("read", input=[ASKED, approval()]))
    for old, new in (
        ('"approve": true', '"approve": false, "approve": true'),
        ('"name": "search"', '"name": "search", "name": "delete"'),
        ('"id": "mcpr_1"', '"id": "mcpr_1", "id": "mcpr_2"'),
    ):
        assert "stands twice" in refused(text.replace(old, new).encode())


def test_history_of_what_the_provider_ran_is_left_alone() -> None:
    """It has run; what it found is the model's to read."""
    items = [
        {
            "type": "web_search_call",
            "id": "ws_1",
            "status": "completed",
            "action": {"type": "search"},
        },
        {"type": "mcp_call", "id": "m", "server_label": "x", "name": "del", "arguments": "{}"},
        {"type": "code_interpreter_call", "id": "ci", "code": "1", "container_id": "c"},
        {"type": "program", "id": "p", "call_id": "c", "code": "tools.write()", "fingerprint": "f"},
        {"type": "program_output", "id": "o", "call_id": "c", "result": "", "status": "completed"},
        {"type": "configuration_update", "reasoning": {"effort": "low"}},
        {"type": "agent_message", "author": "a", "content": [{"type": "encrypted_content"}]},
        {
            "type": "function_call",
            "call_id": "c",
            "name": "write",
            "namespace": "x",
            "arguments": "{}",
        },
    ]
    body = request(namespace("functions", "read"), input=items)
    assert sent(body)["input"][1:] == items


PROGRAM = {"type": "program", "id": "p", "call_id": "c1", "code": "x", "fingerprint": "f"}
ENDED = {"type": "program_output", "id": "o", "call_id": "c1", "result": "", "status": "completed"}
OUTPUT = {"type": "function_call_output", "call_id": "f1", "output": "x"}


def by(caller: Any, kind: str = "function_call_output") -> dict[str, Any]:
    return {**OUTPUT, "type": kind, "caller": caller}


@pytest.mark.parametrize(
    "items",
    [
        [PROGRAM],
        [PROGRAM, by({"type": "program", "caller_id": "c1"})],
        # What began it is with the provider.
        [by({"type": "program", "caller_id": "c1"})],
        [by({"type": "program", "caller_id": "c1"}, "custom_tool_call_output")],
        [by({"type": "program", "caller_id": "c1"}, "shell_call_output")],
        [by({"type": "direct", "caller_id": "c1"})],
        [by("program")],
        [PROGRAM, ENDED, {**PROGRAM, "call_id": "c2"}],
        [PROGRAM, {**ENDED, "call_id": "c2"}],
        [{**PROGRAM, "call_id": None}],
        [{"type": "program"}],
    ],
)
def test_l6_no_program_goes_on_that_the_mode_does_not_allow(items: list[Any]) -> None:
    body = request("read", input=items)
    assert "allow the tool 'programmatic_tool_calling'" in refused(body)
    allowed = rules("read", "programmatic_tool_calling", section="")
    assert sent(body, allowed)["input"] == items


@pytest.mark.parametrize(
    "items",
    [
        [PROGRAM, ENDED],
        [PROGRAM, by({"type": "program", "caller_id": "c1"}), ENDED],
        [by({"type": "direct"}), by(None)],
        [{**OUTPUT, "type": "function_call", "caller": {"type": "program", "caller_id": "c1"}}],
    ],
)
def test_one_that_has_ended_is_history(items: list[Any]) -> None:
    assert sent(request("read", input=items), rules("read", section=""))["input"] == items

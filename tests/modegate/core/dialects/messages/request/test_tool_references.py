"""What the history loads or changes of the tools goes where the tool goes, and nothing else of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.dialects.messages.request.tool_references import NOTHING_LEFT
from support.messages import (
    LEAVE,
    MARK,
    READ,
    USER,
    assembled,
    refused,
    request,
    rules,
    sent,
    tool,
)

GONE = json.loads(NOTHING_LEFT)
SEARCH = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "t1", "name": "ToolSearch", "input": {}}],
}
FIND = rules("read", "grep", "ToolSearch")


def loaded(*found: Any) -> dict[str, Any]:
    """Return the result of a search of the agent's own."""
    blocks = [
        {"type": "tool_reference", "tool_name": one} if isinstance(one, str) else one
        for one in found
    ]
    return {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": blocks},
            {"type": "text", "text": "Tool loaded.", **MARK},
        ],
    }


def late(name: str) -> dict[str, Any]:
    return tool(name, defer_loading=True)


def history(*found: Any, tools: tuple[Any, ...] = ()) -> dict[str, Any]:
    listed = ["ToolSearch", late("read"), late("write"), *tools]
    return request(*listed, messages=[USER, SEARCH, loaded(*found)])


TEXT = {"type": "text", "text": "also"}

REFERENCES: dict[str, tuple[list[Any], list[Any]]] = {
    "to a tool that stays": (["read"], ["read"]),
    "to one that is removed": (["write"], [GONE]),
    "to both": (["write", "read"], ["read"]),
    "to two that are removed": (["write", "write"], [GONE]),
    "beside text": ([TEXT, "write"], [TEXT]),
    "with a marker": ([{"type": "tool_reference", "tool_name": "write", **MARK}], [GONE]),
    "to one that is nowhere and not allowed": (["bash"], [GONE]),
    "to one that is nowhere and allowed": (["grep"], ["grep"]),
    "to the agent's exit": (["ExitPlanMode"], [GONE]),
    "to ours": (["exit_plan_mode"], [GONE]),
    "to nothing": ([{"type": "tool_reference"}], [GONE]),
    "to a number": ([{"type": "tool_reference", "tool_name": 5}], [GONE]),
}


@pytest.mark.parametrize(("found", "left"), REFERENCES.values(), ids=REFERENCES)
def test_a_reference_goes_with_its_tool(found: list[Any], left: list[Any]) -> None:
    """One that names no tool of the list makes the API refuse this and every later request."""
    assert sent(history(*found), FIND)["messages"] == [USER, SEARCH, loaded(*left)]


def test_a_tool_of_two_names_takes_the_references_to_both_along() -> None:
    both = {"name": "grep", "function": {"name": "write"}, "defer_loading": True}
    got = sent(history("grep", "read", tools=(both,)), FIND)
    assert got["messages"][-1] == loaded("read")


def test_a_name_in_escapes_is_seen() -> None:
    body = json.dumps(history("write"))
    hidden = body.replace('"tool_reference"', '"tool\\u005freference"').replace(
        '"tool_name": "write"', '"tool_name": "wr\\u0069te"'
    )
    assert "tool_reference" not in hidden
    assert sent(hidden.encode(), FIND)["messages"][-1] == loaded(GONE)


def test_a_reference_at_the_top_of_a_message_goes_too() -> None:
    message = {"role": "user", "content": [{"type": "tool_reference", "tool_name": "write"}, TEXT]}
    assert sent(request("read", messages=[message]))["messages"] == [{**message, "content": [TEXT]}]


def test_results_that_hold_no_list_and_words_alone_stay() -> None:
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "a tool_reference to write"}
    odd = [result, {"type": "tool_result", "tool_use_id": "t2"}, "tool_reference", 5]
    search = {"type": "tool_search_tool_result", "tool_use_id": "s", "content": "none"}
    messages = [
        {"role": "user", "content": "tool_addition"},
        {"role": "user"},
        {"role": "user", "content": [*odd, search]},
    ]
    assert sent(request("read", messages=messages))["messages"] == messages


def searched(*found: str) -> dict[str, Any]:
    """Return an answer in which the provider has searched."""
    references = [{"type": "tool_reference", "tool_name": one} for one in found]
    content = {"type": "tool_search_tool_search_result", "tool_references": references}
    call = {"type": "server_tool_use", "id": "s1", "name": "tool_search_tool_regex", "input": {}}
    result = {"type": "tool_search_tool_result", "tool_use_id": "s1", "content": content}
    return {"role": "assistant", "content": [call, result]}


@pytest.mark.parametrize(
    ("found", "left"),
    [(["write", "read"], ["read"]), (["write"], []), (["read"], ["read"]), ([], [])],
)
def test_what_the_provider_found_goes_with_its_tool(found: list[str], left: list[str]) -> None:
    body = request("read", "write", messages=[USER, searched(*found), USER])
    assert sent(body)["messages"] == [USER, searched(*left), USER]


# Tools that come and go in the middle of a conversation.


def change(kind: str, what: Any, **more: Any) -> dict[str, Any]:
    return {"type": kind, "tool": what, **more}


def named(name: str) -> dict[str, Any]:
    return {"type": "tool_reference", "name": name}


def defined(definition: Any) -> dict[str, Any]:
    return {"type": "tool_definition", "definition": definition}


def system(*blocks: Any, **more: Any) -> dict[str, Any]:
    return {"role": "system", "content": list(blocks), **more}


WEB = {"type": "web_search_20250305", "name": "web_search"}

# Changes that stay and those that do not.
STAY: dict[str, dict[str, Any]] = {
    "adds a tool that stays": change("tool_addition", named("read")),
    "removes one": change("tool_removal", named("read")),
    "defines one": change("tool_addition", defined(tool("grep"))),
    "defines one with a marker": change(
        "tool_addition", defined(tool("grep", type="custom")), **MARK
    ),
}
GO: dict[str, dict[str, Any]] = {
    "adds one that is removed": change("tool_addition", named("write")),
    "removes one that is removed": change("tool_removal", named("write")),
    "removes the exit tool": change("tool_removal", named("exit_plan_mode")),
    "defines one": change("tool_addition", defined(tool("bash"))),
    "defines one of two names": change("tool_addition", defined({"name": "grep", "Name": "bash"})),
    "defines one that the provider runs": change("tool_addition", defined(WEB)),
    "defines the exit tool": change("tool_addition", defined(tool("exit_plan_mode"))),
    "defines an MCP server's": change(
        "tool_addition", defined({"type": "mcp_toolset", "mcp_server_name": "s"})
    ),
    "names an MCP server": change(
        "tool_addition", {"type": "mcp_toolset_reference", "server_name": "s"}
    ),
    "names an MCP server's tool": change(
        "tool_addition", {"type": "mcp_tool_reference", "server_name": "s", "name": "read"}
    ),
    "names it in a form that nobody knows": change("tool_addition", {"type": "x", "name": "read"}),
    "names nothing": {"type": "tool_addition"},
    "is text": change("tool_addition", "read"),
}


def changed(*blocks: Any) -> dict[str, Any]:
    return request("read", "write", messages=[USER, system(*blocks)])


@pytest.mark.parametrize("block", STAY.values(), ids=STAY)
@pytest.mark.parametrize("policy_", [READ, LEAVE], ids=["without exit", "with exit"])
def test_a_change_of_an_allowed_tool_stays(block: Any, policy_: Any) -> None:
    body = changed(TEXT, block)
    assert sent(body, policy_)["messages"] == body["messages"]


@pytest.mark.parametrize("block", GO.values(), ids=GO)
@pytest.mark.parametrize("policy_", [READ, LEAVE], ids=["without exit", "with exit"])
def test_l6_any_other_goes(block: Any, policy_: Any) -> None:
    assert sent(changed(block, TEXT), policy_)["messages"] == [USER, system(TEXT)]
    assert sent(changed(block), policy_)["messages"] == [USER, system(GONE)]
    # Wherever it stands.
    nested = {"type": "tool_result", "tool_use_id": "t", "content": [TEXT, block]}
    inside = {"role": "user", "content": [nested]}
    left = {"role": "user", "content": [{**nested, "content": [TEXT]}]}
    assert sent(request("read", "write", messages=[inside]), policy_)["messages"] == [left]


def test_what_is_defined_in_the_messages_is_shown_and_logged() -> None:
    body = request("read", messages=[USER, system(STAY["defines one"], GO["defines one"])])
    got = assembled({**body, "tool_choice": {"type": "tool", "name": "grep"}}, LEAVE)
    assert got.tools == ("read", "grep", "exit_plan_mode")
    assert json.loads(got.body)["tool_choice"] == {"type": "tool", "name": "grep"}
    relaxed = sent({**body, "tool_choice": {"type": "tool", "name": "bash"}}, LEAVE)
    assert relaxed["tool_choice"] == {"type": "auto"}


def test_an_allowed_definition_leaves_only_the_model_as_its_caller() -> None:
    callers = ["direct", "code_execution_20260120"]
    block = change("tool_addition", defined(tool("grep", allowed_callers=callers)))
    left = change("tool_addition", defined(tool("grep", allowed_callers=["direct"])))
    assert sent(changed(block))["messages"] == [USER, system(left)]


def test_where_only_the_messages_define_tools_and_none_stays_nothing_is_left_to_choose() -> None:
    body = request(messages=[USER, system(GO["defines one"])], tool_choice={"type": "any"})
    got = sent(body)
    assert "tool_choice" not in got
    assert got["messages"] == [USER, system(GONE)]


def test_where_the_provider_may_run_it_it_stays() -> None:
    ran = ("defines one that the provider runs", "defines an MCP server's", "names an MCP server")
    body = changed(*(GO[one] for one in ran))
    assert sent(body, rules("read", "web_search", "mcp"))["messages"] == body["messages"]


def test_the_list_of_a_servers_tools_goes_without_its_server() -> None:
    listing = {"type": "mcp_tool_listing", "mcp_server_name": "s", "tools": []}
    messages = [USER, {"role": "assistant", "content": [listing, TEXT]}]
    gone = [USER, {"role": "assistant", "content": [TEXT]}]
    assert sent(request("read", messages=messages))["messages"] == gone
    assert sent(request("read", messages=messages), rules("read", "mcp"))["messages"] == messages


def compaction(*blocks: Any) -> dict[str, Any]:
    one = {
        "type": "compaction",
        "content": "so far",
        "signature": "S",
        "tool_changes": list(blocks),
    }
    return {"role": "assistant", "content": [one]}


def test_a_signed_block_stays_whole_or_is_refused() -> None:
    for kept in (compaction(*STAY.values()), compaction()):
        body = request("read", "write", messages=[kept, USER])
        assert sent(body)["messages"] == body["messages"]
    for block in GO.values():
        body = request("read", "write", messages=[compaction(STAY["removes one"], block), USER])
        assert "as it is signed" in refused(body)


AMBIGUOUS: dict[str, str] = {
    "two contents": '{"role":"user","content":"tool_reference","content":[]}',
    "two types": '{"role":"user","content":[{"type":"text","type":"tool_reference","tool_name":"a"}]}',
    "two names": '{"role":"user","content":[{"type":"tool_reference","tool_name":"read","tool_name":"a"}]}',
    "two tools": '{"role":"system","content":[{"type":"tool_addition","tool":{},"tool":{}}]}',
    "two definitions": (
        '{"role":"system","content":[{"type":"tool_addition","tool":{"definition":{},"definition":{}}}]}'
    ),
    "a definition that is text": (
        '{"role":"system","content":[{"type":"tool_addition","tool":{"definition":"a"}}]}'
    ),
    "two lists": (
        '{"role":"assistant","content":[{"type":"tool_search_tool_result","content":'
        '{"tool_references":[],"tool_references":[{"type":"tool_reference","tool_name":"a"}]}}]}'
    ),
}


@pytest.mark.parametrize("message", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_l4_what_can_be_read_in_two_ways_is_refused(message: str) -> None:
    body = json.dumps(request("read")).replace(json.dumps(USER), message).encode()
    assert refused(body)


def test_n021_a_search_that_loads_what_the_mode_does_not_have() -> None:
    """No reference to a missing tool is left, and the way out is offered at once and not deferred."""
    asked = history("write", "read", tools=(late("ExitPlanMode"),))
    told = sent(asked, rules("read", "ToolSearch", leave=True))
    tools = {one["name"]: one for one in told["tools"]}
    assert set(tools) == {"ToolSearch", "read", "exit_plan_mode"}
    assert "defer_loading" not in tools["exit_plan_mode"]
    found = told["messages"][2]["content"][0]["content"]
    assert [one.get("tool_name") for one in found if one["type"] == "tool_reference"] == ["read"]

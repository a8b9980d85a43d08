"""What the model is shown in a mode: tools filtered, the section added, other bytes left alone (L3, L6)."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from modegate.core.dialects.common.texts import grow
from modegate.core.dialects.messages.request.edit import EXIT_ENTRY, assemble
from modegate.core.dialects.messages.request.parsing import MessagesRequest
from modegate.core.policy.model import Policy
from modegate.core.wire.json_spans import apply
from modegate.core.wire.request_body import RequestBody
from support.messages import (
    CALLED,
    LEAVE,
    MARK,
    READ,
    RESULT,
    USER,
    assembled,
    markers,
    names,
    refused,
    request,
    rules,
    sent,
    tool,
)
from support.playbook import SECTION, Session

INERT = "no_tool_in_this_mode"
EXIT = "exit_plan_mode"

# Which tools stay.


def test_b001_only_allowed_tools_are_shown_in_the_agents_order() -> None:
    got = assembled(request("write", "grep", "bash", "read"))
    assert names(json.loads(got.body)) == ["grep", "read"]
    assert got.tools == ("grep", "read")
    assert got.native is None


def test_b016_an_mcp_tool_is_matched_as_it_is_called() -> None:
    fs = ["mcp__fs__read_file", "mcp__fs__read_file_and_delete", "mcp__fs__write_file"]
    body = request("read", *fs)
    assert names(sent(body, rules("read", "mcp__fs__read_file"))) == ["read", "mcp__fs__read_file"]
    assert names(sent(body, rules("read", "mcp__fs__read_*"))) == ["read", *fs[:2]]


@pytest.mark.parametrize(
    "name", ["Read", " read", "read\n", "functions.read", "read\u200b", "ｒｅａｄ"]
)
def test_b019_a_variant_of_a_name_is_another_name(name: str) -> None:
    assert names(sent(request("read", name))) == ["read"]


@pytest.mark.parametrize(
    "shape",
    [
        tool("mcp__x__del"),
        tool("mcp__x__del", type="custom"),
        {"type": "function", "function": {"name": "mcp__x__del"}},
    ],
)
def test_b017_a_tool_is_filtered_in_every_shape(shape: dict[str, Any]) -> None:
    choice = {"type": "tool", "name": "mcp__x__del"}
    got = sent(request("read", shape, tool_choice=choice))
    assert names(got) == ["read"]
    assert got["tool_choice"] == {"type": "auto"}


# When none is left.


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "auto"},
        {"type": "none"},
        {"type": "any"},
        {"type": "auto", "disable_parallel_tool_use": True},
    ],
)
def test_b078_b079_nothing_left_nothing_chosen(choice: dict[str, Any]) -> None:
    got = sent(request("write", tool_choice=choice, unknown={"a": 1}))
    assert got == {**request(unknown={"a": 1}), "system": SECTION}


@pytest.mark.parametrize("messages", [[USER, CALLED, RESULT, USER], [RESULT, USER]])
def test_b081_history_with_calls_keeps_an_inert_tool(messages: list[Any]) -> None:
    got = assembled(request("write", messages=messages, tool_choice={"type": "any"}))
    body = json.loads(got.body)
    assert names(body) == [INERT]
    assert body["tool_choice"] == {"type": "auto"}
    assert body["messages"] == messages
    assert got.tools == ()
    # With an exit, that is the tool.
    assert names(sent(request("write", messages=messages), LEAVE)) == [EXIT]


def test_a_list_in_which_all_tools_are_deferred_gets_one_that_is_not() -> None:
    """The API refuses such a list."""
    late = tool("read", defer_loading=True)
    assert names(sent(request("write", late))) == ["read", INERT]
    assert names(sent(request("write", late), LEAVE)) == ["read", EXIT]
    assert names(sent(request("grep", late))) == ["grep", "read"]


def test_an_mcp_server_goes_with_its_toolset() -> None:
    entry = {"type": "url", "name": "docs", "url": "https://docs"}
    toolset = {"type": "mcp_toolset", "mcp_server_name": "docs"}
    got = sent(request("read", toolset, mcp_servers=[entry]))
    assert names(got) == ["read"]
    assert "mcp_servers" not in got


def test_a_reference_goes_with_its_tool() -> None:
    found = [
        {"type": "tool_reference", "tool_name": name} for name in ("read", "write", "bash", "grep")
    ]
    result = {"type": "tool_result", "tool_use_id": "t1", "content": found}
    messages = [USER, CALLED, {"role": "user", "content": [result]}]
    got = sent(request("read", tool("write", defer_loading=True), messages=messages))
    assert got["messages"][2]["content"] == [{**result, "content": [found[0], found[3]]}]


# The exit tool.


def test_b091_the_exit_tool_is_the_last_and_the_same_bytes() -> None:
    one = assembled(request("read", "write"), LEAVE)
    other = assembled(request("write", "bash", "grep"), LEAVE)
    for got in (one, other):
        assert got.body.count(b"," + EXIT_ENTRY + b"]") == 1
        assert got.tools[-1] == EXIT
    assert one.body.index(b'"read"') < one.body.index(EXIT_ENTRY)


def test_b101_its_schema_is_strict() -> None:
    schema = json.loads(EXIT_ENTRY)["input_schema"]
    assert schema["type"] == "object"
    assert schema["required"] == ["plan"] == list(schema["properties"])
    assert schema["additionalProperties"] is False


def test_b025_no_tools_no_exit_and_no_section() -> None:
    for body in (request(), request(tools=[])):
        assert sent(body, LEAVE) == body


def test_b025_every_tool_is_filtered_and_the_exit_is_there() -> None:
    got = sent(request("write", tool_choice={"type": "any"}), LEAVE)
    assert names(got) == [EXIT]
    assert got["tool_choice"] == {"type": "auto"}
    assert got["system"] == SECTION


# The section.

SYSTEMS: dict[str, tuple[Any, Any]] = {
    "a string": ("A", f"A\n\n{SECTION}"),
    "an empty string": ("", SECTION),
    "no blocks": ([], [{"type": "text", "text": SECTION}]),
    "null": (None, SECTION),
    "blocks": (
        [{"type": "text", "text": "A", **MARK}],
        [{"type": "text", "text": "A", **MARK}, {"type": "text", "text": SECTION}],
    ),
}


@pytest.mark.parametrize(("system", "expected"), SYSTEMS.values(), ids=SYSTEMS)
@pytest.mark.parametrize("space", [None, 2], ids=["compact", "indented"])
def test_b092_it_stands_behind_the_agents_own(
    system: Any, expected: Any, space: int | None
) -> None:
    body = json.dumps(request("read", system=system), indent=space).encode()
    assert sent(body) == request("read", system=expected)
    assert body[: body.index(b'"system"')] in assembled(body).body


def test_b092_without_one_it_is_all_there_is() -> None:
    got = sent(request("read"))
    assert got == {**request("read"), "system": SECTION}


def test_b092_a_system_of_another_kind_is_refused() -> None:
    assert "'system' is neither" in refused(request("read", system=5))


def test_the_sections_text_is_quoted() -> None:
    odd = 'a "b"\n\\ \u2028 ü'
    systems: list[Any] = [None, "A", []]
    for system in systems:
        got = sent(request("read", system=system), rules("read", section=odd))["system"]
        assert odd in (got if isinstance(got, str) else got[-1]["text"])


def test_system_messages_among_the_messages_stay_as_they_are() -> None:
    messages = [
        USER,
        {"role": "system", "content": "Plan mode is active.", "output_config": {}},
        USER,
    ]
    assert sent(request("read", messages=messages))["messages"] == messages


# Cache markers.


def test_b090_the_marker_of_a_removed_tool_moves_to_the_last_that_is_kept() -> None:
    body = request(
        "read",
        "grep",
        tool("write", **MARK),
        system=[{"type": "text", "text": "A", **MARK}],
        messages=[{"role": "user", "content": [{"type": "text", "text": t, **MARK}]} for t in "ab"],
    )
    for policy_ in (READ, LEAVE):
        got = sent(body, policy_)
        assert got["tools"][:2] == [tool("read"), tool("grep", **MARK)]
        assert markers(got) == markers(body) == 4
        assert got["system"][-1] == {"type": "text", "text": SECTION}


def test_b090_a_marker_that_has_no_place_goes() -> None:
    assert markers(sent(request(tool("write", **MARK)), LEAVE)) == 0
    # The API refuses one on a deferred tool.
    late = tool("read", defer_loading=True)
    assert markers(sent(request(late, tool("write", **MARK)), LEAVE)) == 0
    got = sent(request("grep", late, tool("write", **MARK)), LEAVE)
    assert [markers(one) for one in got["tools"]] == [1, 0, 0]


def test_b090_one_that_has_a_marker_gets_no_second() -> None:
    got = sent(request(tool("read", **MARK), tool("write", **MARK)))
    assert got["tools"] == [tool("read", **MARK)]


# Who may call.

CODE = {"type": "code_execution_20260120", "name": "code_execution"}
BY_CODE = "code_execution_20260120"


def test_without_code_at_the_provider_only_the_model_calls() -> None:
    both = tool("read", allowed_callers=["direct", BY_CODE])
    code_only = tool("grep", allowed_callers=[BY_CODE])
    got = sent(request(both, code_only, CODE), LEAVE)
    assert got["tools"][0] == tool("read", allowed_callers=["direct"])
    assert names(got) == ["read", EXIT]
    assert assembled(request(both, code_only, CODE), LEAVE).tools == ("read", EXIT)


def test_where_code_may_run_callers_stay() -> None:
    both = tool("read", allowed_callers=["direct", BY_CODE])
    code_only = tool("grep", allowed_callers=[BY_CODE])
    assert sent(request(both, code_only, CODE), rules("read", "grep", "code_execution"))[
        "tools"
    ] == [
        both,
        code_only,
        CODE,
    ]


@pytest.mark.parametrize("callers", [[], None, ["direct"]])
def test_callers_that_say_nothing_more_stay(callers: Any) -> None:
    body = request(tool("read", allowed_callers=callers))
    assert sent(body)["tools"] == body["tools"]


# All else keeps its bytes.

ODD = (
    b'{"model":"m",  "b":1,"a":2,"t":"\\u00e9\xc3\xa9\\/","n":1.0,"e":1E2,"z":-0,"dup":1,"dup":2,'
    b'"metadata":{"id":12345678901234567890},"seed":18446744073709551615,'
    b'"tools":[ {"name":"read","input_schema":{"maximum":9007199254740993}} , {"name":"write"} ],'
    b'"messages":[{"role":"user","content":"x \\ud83d"}] }\n'
)


def test_b085_b087_l3_other_bytes_are_the_agents_own() -> None:
    expected = ODD.replace(b' , {"name":"write"}', b"").replace(
        b'{"model"', b'{"system":"PLAN-SECTION","model"'
    )
    assert assembled(ODD).body == expected
    assert assembled(ODD).body == assembled(ODD).body


def test_b089_an_earlier_turn_is_the_beginning_of_a_later_one() -> None:
    marked = {"role": "user", "content": [{"type": "text", "text": "go", **MARK}]}
    tools = [tool("read"), tool("write")]
    turns = [
        {"system": "A", "tools": tools, "messages": [marked, CALLED, RESULT, marked][:length]}
        for length in (1, 3, 4)
    ]
    bodies = [assembled(turn, LEAVE).body for turn in turns]
    for one, other in pairwise(bodies):
        assert other.startswith(one[:-2])


def test_b098_unknown_fields_pass() -> None:
    more = {"unknown_new_field": {"a": 1}, "context_management": {"edits": []}, "speed": "fast"}
    assert sent(request("read", **more)) == {**request("read", **more), "system": SECTION}


def test_b102_no_block_of_an_answer_is_altered() -> None:
    blocks = [
        {"type": "thinking", "thinking": "so \u2028 it is  ", "signature": "S"},
        {"type": "text", "text": "t"},
        {"type": "tool_use", "id": "t1", "name": "write", "input": {"a": 1.0}},
    ]
    messages = [USER, {"role": "assistant", "content": blocks}, RESULT]
    raw = json.dumps(messages, indent=1).encode()
    body = b'{"tools":[{"name":"write"}],"messages":' + raw + b"}"
    assert raw in assembled(body, LEAVE).body


def test_b083_nothing_comes_between_a_call_and_its_result() -> None:
    assert sent(request("read", messages=[USER, CALLED, RESULT]))["messages"] == [
        USER,
        CALLED,
        RESULT,
    ]


def test_count_tokens_counts_what_would_be_sent() -> None:
    body = request("read", "write")
    del body["max_tokens"]
    assert sent(body) == {
        "system": SECTION,
        "model": "m",
        "messages": [USER],
        "tools": [tool("read")],
    }


def test_in_default_mode_nothing_is_filtered_and_nothing_added() -> None:
    tools = ["read", tool("write", **MARK), tool("ExitPlanMode", defer_loading=True), CODE]
    more = {
        "thread": {"type": "continue"},
        "container": {"skills": [{}]},
        "preset": "x",
        "system": 5,
    }
    body = json.dumps(request(*tools, **more)).encode()
    got = assemble(MessagesRequest(RequestBody(body)), Session("default").in_force(), "")
    assert got.body == body
    assert got.tools == ("read", "write", "ExitPlanMode", "code_execution")


def test_b083_a_notice_stands_behind_the_results_of_its_message() -> None:
    body = json.dumps(request(messages=[USER, CALLED, RESULT])).encode()
    read = MessagesRequest(RequestBody(body))
    grown = grow(read, read.messages[-1], "Note.")
    assert grown is not None
    blocks = json.loads(apply(body, [grown]))["messages"][-1]["content"]
    assert blocks == [*RESULT["content"], {"type": "text", "text": "Note."}]


@pytest.mark.parametrize("policy_", [READ, LEAVE], ids=["without exit", "with exit"])
def test_without_a_list_of_tools_the_exit_makes_one(policy_: Policy) -> None:
    added = {"type": "tool_definition", "definition": tool("read")}
    change = {"role": "system", "content": [{"type": "tool_addition", "tool": added}]}
    lists: list[dict[str, Any]] = [{}, {"tools": []}, {"tools": None}]
    for more in lists:
        got = sent(request(messages=[USER, change], **more), policy_)
        assert names({"tools": got.get("tools") or []}) == ([EXIT] if policy_ is LEAVE else [])
        assert got["messages"] == [USER, change]

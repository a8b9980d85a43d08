"""The exit tool in Responses: ours last in the list that the agent uses, or the agent's own."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.responses import FunctionTool

from modegate.core.dialects.responses.request.tool_lists import EXIT_ENTRY
from modegate.core.ids import ModeId
from modegate.core.policy.model import Exit, ExitOption
from support.asked import (
    USER,
    assembled,
    custom,
    function,
    leaving,
    namespace,
    request,
    rules,
    sent,
    server,
)

PLAN = {"plan": {"type": "string"}}
OURS = json.loads(EXIT_ENTRY)


def own(name: str, properties: dict[str, Any], *required: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return function(name, parameters=schema)


def names(body: Any) -> list[str]:
    return [one.get("name", one["type"]) for one in body.get("tools", ())]


def test_b101_its_definition_is_a_valid_one() -> None:
    """By the official types, and by the rules for strict schemas though it does not ask for them."""
    FunctionTool.model_validate(OURS, strict=True)
    schema = OURS["parameters"]
    assert schema["required"] == list(schema["properties"]) == ["plan"]
    assert schema["additionalProperties"] is False


def test_b091_it_is_last_and_the_same_bytes_each_time() -> None:
    body = request("write", "read", custom("apply_patch"))
    got = assembled(body, leaving("read"))
    assert names(json.loads(got.body)) == ["read", "exit_plan_mode"]
    assert got.tools == ("read", "exit_plan_mode")
    assert got.body.count(EXIT_ENTRY) == 1
    assert assembled(request("write"), leaving("read")).body.count(EXIT_ENTRY) == 1


def test_nothing_left_it_stands_alone_and_the_choice_is_relaxed() -> None:
    got = sent(request("write", tool_choice="required", parallel_tool_calls=True), leaving("read"))
    assert names(got) == ["exit_plan_mode"]
    assert (got["tool_choice"], got["parallel_tool_calls"]) == ("auto", True)


def additional(*tools: Any, **more: Any) -> dict[str, Any]:
    return {"type": "additional_tools", "role": "developer", "tools": list(tools), **more}


def test_where_all_is_declared_in_an_item_it_goes_inside() -> None:
    """Newer Codex models declare nothing elsewhere."""
    item = additional(
        namespace("functions", custom("exec"), "wait"), namespace("collaboration", "spawn")
    )
    got = sent(request(input=[item, USER]), leaving("wait"))
    assert "tools" not in got
    assert got["input"][0]["tools"] == [namespace("functions", "wait"), OURS]
    nothing = sent(request(input=[item, USER]), leaving("read"))
    assert nothing["input"][0]["tools"] == [OURS]


def test_of_several_items_the_first_that_declares_something_takes_it() -> None:
    """So that it does not move when the agent adds one."""
    first, second = additional(function("read")), additional(function("grep"), function("write"))
    got = sent(request(input=[additional(), USER, first, USER, second]), leaving("read", "grep"))
    assert [one["tools"] for one in got["input"] if "tools" in one] == [
        [],
        [function("read"), OURS],
        [function("grep")],
    ]


def test_beside_a_list_of_its_own_the_item_gets_none() -> None:
    got = sent(request("read", input=[additional(function("grep")), USER]), leaving("read", "grep"))
    assert names(got) == ["read", "exit_plan_mode"]
    assert got["input"][0]["tools"] == [function("grep")]


@pytest.mark.parametrize("tools", [None, []])
def test_a_request_without_tools_gets_none(tools: Any) -> None:
    body = request(**({} if tools is None else {"tools": tools}))
    assert sent(body, leaving("read")) == body


@pytest.mark.parametrize(
    ("definition", "shown"),
    [
        (own("ExitPlanMode", {}), ["read", "exit_plan_mode"]),
        (own("plan_exit", PLAN), ["read", "exit_plan_mode"]),
        (own("ExitPlanMode", {"plan": {"type": "object"}}, "plan"), ["read", "exit_plan_mode"]),
        (custom("ExitPlanMode"), ["read", "exit_plan_mode"]),
        (own("ExitPlanMode", PLAN, "plan"), ["read", "ExitPlanMode"]),
        (own("exit_plan_mode", PLAN, "plan"), ["read", "exit_plan_mode"]),
        ({**own("ExitPlanMode", {}), "defer_loading": True}, ["read", "exit_plan_mode"]),
        (namespace("ui", own("ExitPlanMode", PLAN, "plan")), ["read", "exit_plan_mode"]),
        (namespace("functions", own("ExitPlanMode", {})), ["read", "exit_plan_mode"]),
    ],
    ids=["no-plan", "optional", "object", "freeform", "bridged", "same", "deferred", "ns", "home"],
)
def test_b025_one_exit_tool_never_two(definition: dict[str, Any], shown: list[str]) -> None:
    got = sent(request("read", definition), leaving("*"))
    assert names(got) == shown
    hidden = sent(request("read", definition), rules("*"))
    assert names(hidden) == ["read"]


def test_it_is_bridged_in_the_home_namespace_too() -> None:
    item = additional(namespace("functions", "read", own("ExitPlanMode", PLAN, "plan")))
    got = assembled(request(input=[item]), leaving("read"))
    assert json.loads(got.body)["input"][0] == item
    assert got.native == "ExitPlanMode"
    assert got.tools == ("read", "ExitPlanMode")


def test_native_can_be_switched_off() -> None:
    leave = Exit((ExitOption("Go", ModeId("default")),), native=False)
    got = assembled(request("read", own("ExitPlanMode", PLAN, "plan")), rules("*", exit=leave))
    assert names(json.loads(got.body)) == ["read", "exit_plan_mode"]
    assert got.native is None


def test_a_loaded_exit_tool_is_hidden() -> None:
    found = {
        "type": "tool_search_output",
        "tools": [own("ExitPlanMode", PLAN, "plan"), function("read")],
    }
    got = sent(request("grep", input=[found]), leaving("*"))
    assert got["input"][1]["tools"] == [function("read")]


def test_a_tool_of_a_remote_server_is_never_the_agents_exit() -> None:
    got = assembled(request("read", server("x", "exit_plan_mode")), leaving("read", "mcp__x__*"))
    assert got.native is None
    assert got.tools == ("read", "mcp__x__exit_plan_mode", "exit_plan_mode")

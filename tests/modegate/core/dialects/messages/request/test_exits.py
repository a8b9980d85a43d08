"""The agent's own exit tool is hidden, or stays where a person can read the plan that it carries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from modegate.core.policy.model import Mode, Policy
from support.messages import LEAVE, READ, assembled, names, request, sent, tool
from support.playbook import PLAN

PLANNED = {
    "type": "object",
    "properties": {"plan": {"type": "string"}, "more": {}},
    "required": ["plan"],
}
EXIT = "exit_plan_mode"


def without_native() -> Policy:
    plan: Mode = LEAVE.modes[PLAN]
    assert plan.exit is not None
    return replace(LEAVE, modes={PLAN: replace(plan, exit=replace(plan.exit, native=False))})


@pytest.mark.parametrize("name", ["ExitPlanMode", "plan_exit", "exit_plan_mode"])
def test_one_that_requires_a_plan_stays_in_the_place_of_ours(name: str) -> None:
    own = {"name": name, "input_schema": PLANNED}
    got = assembled(request("read", own, "write"), LEAVE)
    assert names(sent(request("read", own, "write"), LEAVE)) == ["read", name]
    assert got.native == name
    assert got.tools == ("read", name)


NO_PLAN: dict[str, Any] = {
    "no properties": {"type": "object"},
    "an optional plan": {**PLANNED, "required": []},
    "a plan that is no text": {**PLANNED, "properties": {"plan": {"type": "object"}}},
    "other arguments": {"type": "object", "properties": {"allowedPrompts": {"type": "array"}}},
    "no schema": None,
}


@pytest.mark.parametrize("schema", NO_PLAN.values(), ids=NO_PLAN)
def test_any_other_is_hidden_and_ours_is_offered(schema: Any) -> None:
    own = {"name": "ExitPlanMode", "input_schema": schema, "defer_loading": True}
    got = assembled(request("read", own), LEAVE)
    assert names(sent(request("read", own), LEAVE)) == ["read", EXIT]
    assert got.native is None


@pytest.mark.parametrize("policy_", [READ, without_native()], ids=["no exit", "native: false"])
def test_it_is_hidden_where_the_mode_has_no_exit_or_wants_ours(policy_: Policy) -> None:
    own = {"name": "ExitPlanMode", "input_schema": PLANNED}
    left = names(sent(request("read", own), policy_))
    assert left == (["read"] if policy_ is READ else ["read", EXIT])


def test_it_is_hidden_where_another_name_stands_beside_or_the_provider_runs_it() -> None:
    for more in ({"function": {"name": "write"}}, {"type": "web_search_20250305"}):
        own = {"name": "ExitPlanMode", "input_schema": PLANNED, **more}
        assert names(sent(request("read", own), LEAVE)) == ["read", EXIT]


def test_a_deferred_one_that_stays_keeps_what_loads_it() -> None:
    own = {"name": "ExitPlanMode", "input_schema": PLANNED, "defer_loading": True}
    loaded = {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "t",
                "content": [{"type": "tool_reference", "tool_name": "ExitPlanMode"}],
            }
        ],
    }
    got = sent(request("read", own, messages=[loaded]), LEAVE)
    assert names(got) == ["read", "ExitPlanMode"]
    assert got["messages"] == [loaded]


def test_a_tool_of_ours_that_the_agent_declares_without_a_plan_gives_way() -> None:
    got = sent(request("read", tool(EXIT)), LEAVE)
    assert names(got) == ["read", EXIT]
    assert got["tools"][-1] != tool(EXIT)

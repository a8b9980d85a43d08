"""The agent's own exit tool: hidden, or bridged where a person can read a plan from it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from modegate.core.ids import ModeId
from modegate.core.log.events import ModeSet
from modegate.core.policy.model import Exit, ExitOption, Policy
from support.playbook import (
    Got,
    Session,
    answer,
    bytewise,
    call,
    mode,
    policy,
    read_stream,
    request,
    said,
    stream,
    tool,
    tool_call,
    whole,
)

PLAN = {"plan": {"type": "string"}}


def rules(*, native: bool = True) -> Policy:
    """Return a plan mode with an exit."""
    return policy(mode("plan", "read", exit=Exit((ExitOption("Go", ModeId("default")),), native)))


def own(name: str, properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """Return the agent's own exit tool."""
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def offered(got: Got) -> list[str]:
    """Return the names that the model was shown."""

    return [one["function"]["name"] for one in json.loads(got.requests[0])["tools"]]


@pytest.mark.parametrize(
    ("definition", "shown"),
    [
        (own("ExitPlanMode", {}), ["read", "exit_plan_mode"]),
        (own("plan_exit", {"plan": {"type": "string"}}), ["read", "exit_plan_mode"]),
        (own("ExitPlanMode", {"plan": {"type": "object"}}, "plan"), ["read", "exit_plan_mode"]),
        (own("ExitPlanMode", PLAN, "plan"), ["read", "ExitPlanMode"]),
        (own("exit_plan_mode", PLAN, "plan"), ["read", "exit_plan_mode"]),
    ],
    ids=["no-plan", "optional", "object", "bridged", "same-name"],
)
def test_what_is_offered(definition: dict[str, Any], shown: list[str]) -> None:
    """One exit tool, never two."""
    body = {**request("read"), "tools": [tool("read"), definition]}
    got = Session(rules=rules()).step(body, [answer({"content": "ok"}, "stop")])
    assert offered(got) == shown


def test_native_can_be_switched_off() -> None:
    """Then ours is offered in every case; `*` does not bring the agent's back."""
    body = {**request("read"), "tools": [tool("read"), own("ExitPlanMode", PLAN, "plan")]}
    for given in (rules(native=False), policy(mode("plan", "*"))):
        shown = offered(Session(rules=given).step(body, [answer({"content": "ok"}, "stop")]))
        assert "ExitPlanMode" not in shown


@pytest.mark.parametrize("cut", [whole, bytewise], ids=["whole", "bytewise"])
@pytest.mark.parametrize("option", ["approve", "reject", None])
def test_bridged_calls_are_asked_about(option: str | None, cut: Callable[[bytes], Any]) -> None:
    """Approved, the call goes to the agent as it came and the mode is left; else it is answered."""
    session = Session(rules=rules())
    if option:
        session.person = lambda asked: session.settle(asked, option)
    body = {
        **request("read", stream=True),
        "tools": [tool("read"), own("ExitPlanMode", PLAN, "plan")],
    }
    first = stream(call("ExitPlanMode", '{"plan":"# P"}'))
    got = session.step(body, [first, said("I revise.")], cut=cut)
    assert [asked.text for asked in got.asked] == ["# P"]
    calls = read_stream(got.body)[0]["calls"]
    if option == "approve":
        assert got.body == first
        assert session.events[-1] != ModeSet(ModeId("plan"))
        assert session.state.mode == "default"
    else:
        assert calls == {}
        assert session.state.mode == "plan"
        assert len(got.requests) == 2


@pytest.mark.parametrize("name", ["ExitPlanMode", "exit_plan_mode"])
@pytest.mark.parametrize("more", ['"Plan":"# Q"', '"__proto__":{"plan":"# Q"}'])
def test_h9_a_plan_that_says_two_things_is_not_asked_about(name: str, more: str) -> None:
    """Approved, the agent could take another plan from it than the person has read."""
    body = {**request("read", stream=True), "tools": [tool("read"), own(name, PLAN, "plan")]}
    first = stream(call(name, '{"plan":"# P",' + more + "}"))
    got = Session(rules=rules()).step(body, [first, said("I revise.")])
    assert got.asked == []
    assert name.encode() not in got.body
    assert b"could be read in different ways" in got.requests[1]


def test_bridged_whole_answers() -> None:
    """The same, not streamed."""
    session = Session(rules=rules())
    session.person = lambda asked: session.settle(asked, "approve")
    body = {**request("read"), "tools": [tool("read"), own("exit_plan_mode", PLAN, "plan")]}
    one = tool_call("exit_plan_mode", '{"plan":"p"}', "call_0123456789")
    got = session.step(body, [answer({"tool_calls": [one]})])
    assert got.json["choices"][0]["message"]["tool_calls"] == [one]
    assert session.state.mode == "default"


def test_only_the_tool_that_was_offered_leaves() -> None:
    """Ours is refused where the agent's own is offered, and the other way round."""
    for name, definition in (
        ("exit_plan_mode", own("ExitPlanMode", PLAN, "plan")),
        ("ExitPlanMode", own("ExitPlanMode", {})),
    ):
        session = Session(rules=rules())
        session.person = lambda asked, session=session: session.settle(asked, "approve")
        body = {**request("read"), "tools": [tool("read"), definition]}
        one = tool_call(name, '{"plan":"p"}')
        got = session.step(body, [answer({"tool_calls": [one]}), answer({"content": "ok"}, "stop")])
        assert got.asked == []
        assert session.state.mode == "plan"

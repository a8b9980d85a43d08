"""The log lists every tool that was sent (G9), also what stands in and what no model uses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.dialects.chat.dialect import CHAT
from modegate.core.dialects.messages.dialect import MESSAGES
from modegate.core.dialects.responses.dialect import RESPONSES
from modegate.core.ids import DEFAULT_MODE
from modegate.core.log.events import RequestHeader, RequestHeaderDelta
from modegate.core.policy.gating import left_out
from modegate.core.policy.model import Effect, Exit, ExitOption, Policy
from modegate.core.step.dialect import AnyDialect
from support import message_frames, messages, playbook, responses
from support.playbook import Session, mode, policy, rule

Json = dict[str, Any]
LEAVES = Exit((ExitOption("Approve", DEFAULT_MODE),))
PLAIN = policy(mode("plan", "read"))
LEFT = policy(mode("plan", "read", "exit_plan_mode", exit=LEAVES))
ALL = policy(mode("plan", "*"))

CALL = {"role": "assistant", "content": None, "tool_calls": [playbook.tool_call("write")]}
CHAT_HISTORY = [{"role": "user", "content": "x"}, CALL,
                {"role": "tool", "tool_call_id": "c0", "content": "x"}]  # fmt: skip
LATE = messages.tool("read", defer_loading=True)
HOLDER = messages.tool("DeferredToolPlaceholder", defer_loading=True)
MESSAGES_HISTORY = [messages.USER, messages.CALLED, messages.RESULT]
FUNCTION = {"name": "write", "parameters": {"type": "object"}}
MORE = {"type": "additional_tools", "role": "developer",
        "tools": [responses.tool("read"), responses.tool("write")]}  # fmt: skip
SEARCH = {"type": "web_search"}

CASES: dict[str, tuple[AnyDialect, Json]] = {
    "chat": (CHAT, playbook.request("read", "write")),
    "chat, none left": (CHAT, playbook.request("write")),
    "chat, none left beside calls": (
        CHAT, playbook.request("write", messages=CHAT_HISTORY)),
    "chat, functions": (CHAT, {**playbook.request(), "functions": [FUNCTION]}),
    "messages": (MESSAGES, messages.request("read", "write")),
    "messages, none left": (MESSAGES, messages.request("write")),
    "messages, none left beside calls": (
        MESSAGES, messages.request("write", messages=MESSAGES_HISTORY)),
    "messages, all deferred": (MESSAGES, messages.request(LATE, "write")),
    "messages, a placeholder": (MESSAGES, messages.request("read", HOLDER, "write")),
    "messages, a placeholder alone": (MESSAGES, messages.request("write", HOLDER)),
    "messages, a placeholder beside calls": (
        MESSAGES, messages.request("write", HOLDER, messages=MESSAGES_HISTORY)),
    "messages, a placeholder beside deferred": (
        MESSAGES, messages.request(LATE, HOLDER, "write")),
    "responses": (RESPONSES, responses.request("read", "write")),
    "responses, none left": (RESPONSES, responses.request("write")),
    "responses, hosted": (
        RESPONSES, {**responses.request(), "tools": [responses.tool("read"), SEARCH]}),
    "responses, additional": (
        RESPONSES, responses.request(history=[MORE, {"role": "user", "content": "x"}])),
}  # fmt: skip


def sent_names(body: Json) -> list[str]:
    """Return every tool that a request declares."""
    listed = [*body.get("tools", ()), *body.get("functions", ())]
    listed += [
        tool
        for item in body.get("input", ())
        if isinstance(item, dict)
        for tool in item.get("tools", ())
    ]
    return [
        tool.get("name") or tool.get("function", {}).get("name") or tool["type"] for tool in listed
    ]


def answered(dialect: AnyDialect) -> bytes:
    if dialect.name == "chat":
        return playbook.said()
    return message_frames.said() if dialect.name == "messages" else responses.answer()


@pytest.mark.parametrize("rules", [PLAIN, LEFT, ALL], ids=["no way", "exit", "all allowed"])
@pytest.mark.parametrize(("dialect", "body"), CASES.values(), ids=CASES)
def test_g9_the_header_lists_every_tool_that_was_sent(
    dialect: AnyDialect, body: Json, rules: Policy
) -> None:
    session = Session(rules=rules, dialect=dialect)
    got = session.step({**body, "stream": True}, [answered(dialect)])
    (header,) = [one for one in got.events if isinstance(one, RequestHeader)]
    assert sorted(header.tools) == sorted(sent_names(got.upstream))
    assert len(set(header.tools)) == len(header.tools)


def test_g9_a_delta_says_what_stands_in() -> None:
    session = Session(rules=PLAIN, dialect=CHAT)
    session.step(playbook.request("read", "write", messages=CHAT_HISTORY), [playbook.said()])
    got = session.step(playbook.request("write", messages=CHAT_HISTORY), [playbook.said()])
    (delta,) = [one for one in got.events if isinstance(one, RequestHeaderDelta)]
    assert (delta.added, delta.removed) == (("no_tool_in_this_mode",), ("read",))


@pytest.mark.parametrize("rules", [PLAIN, ALL], ids=["plan", "all allowed"])
def test_g9_a_refusal_names_no_tool_that_is_none(rules: Policy) -> None:
    """What stands in, and a placeholder, is nothing that a mode allows."""
    chat = Session(rules=PLAIN, dialect=CHAT)
    hops = [playbook.stream(playbook.call("write")), playbook.said()]
    got = chat.step(playbook.request("write", messages=CHAT_HISTORY), hops)
    assert "No tool is allowed in this mode" in got.upstream["messages"][-1]["content"]
    spoken = Session(rules=rules, dialect=MESSAGES)
    odd = message_frames.use(0, "write", "[1]")
    body = messages.request(LATE, HOLDER, stream=True)
    got = spoken.step(body, [message_frames.stream(odd), message_frames.said()])
    told = json.dumps(got.upstream["messages"][-1])
    assert "Tools that this mode allows: `read`." in told


ODD = {"xVendor": {"a": 1}}


def odd(name: str, api: str) -> Json:
    make: Any = {"chat": playbook, "messages": messages, "responses": responses}[api]
    return {**make.tool(name), **ODD}


@pytest.mark.parametrize("api", ["chat", "messages", "responses"])
def test_s7_an_allowed_tool_that_goes_is_named(api: str) -> None:
    """An object that nobody knows could be another tool; what no rule allows is not named, nor what stays."""
    dialect = {d.name: d for d, _ in CASES.values()}[api]
    make: Any = {"chat": playbook, "messages": messages, "responses": responses}[api]
    session = Session(rules=policy(mode("plan", "read", "grep")), dialect=dialect)
    body: Json = {
        **make.request(),
        "tools": [odd("read", api), odd("write", api), make.tool("grep")],
    }
    body["stream"] = True
    got = session.step(body, [answered(dialect)])
    (header,) = [one for one in got.events if isinstance(one, RequestHeader)]
    assert (header.tools, header.left_out) == (("grep",), ("read",))
    assert left_out(session.state) == ["read"]
    body["tools"] = [make.tool("read"), make.tool("grep")]
    got = session.step(body, [answered(dialect)])
    (delta,) = [one for one in got.events if isinstance(one, RequestHeaderDelta)]
    assert (delta.added, delta.left_out) == (("read",), ())
    assert left_out(session.state) == []


def test_s7_what_the_provider_would_run_under_a_condition_is_named() -> None:
    """Nobody sees its arguments before it runs; no exit tool of the agent's is named, which is hidden."""
    ask = rule("web_search", None, Effect.ASK)
    session = Session(rules=policy(mode("plan", ask, "*", exit=LEAVES)), dialect=RESPONSES)
    tools = [SEARCH, responses.tool("ExitPlanMode"), responses.tool("read")]
    got = session.step(
        {**responses.request(), "tools": tools, "stream": True}, [responses.answer()]
    )
    (header,) = [one for one in got.events if isinstance(one, RequestHeader)]
    assert header.left_out == ("web_search",)


def test_s7_not_all_are_named() -> None:
    names = [f"read{number}" for number in range(40)]
    session = Session(rules=policy(mode("plan", "read*")), dialect=CHAT)
    body = {**playbook.request(), "tools": [odd(name, "chat") for name in names]}
    got = session.step(body, [playbook.answer({"content": "ok"}, "stop")])
    (header,) = [one for one in got.events if isinstance(one, RequestHeader)]
    assert header.left_out == tuple(sorted(names)[:16])

"""Requests that would cost too much to read are refused before they are read, in each API (H23)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.dialects import registered
from modegate.core.dialects.chat.dialect import CHAT
from modegate.core.dialects.common.body import MAX_ITEMS, MAX_TOOLS
from modegate.core.dialects.messages.dialect import MESSAGES
from modegate.core.dialects.responses.dialect import RESPONSES
from modegate.core.dialects.responses.request.parsing import ResponsesRequest
from modegate.core.errors import BadRequest
from modegate.core.identify.body import body_fields
from modegate.core.policy.routes import model_of_body
from modegate.core.step.dialect import AnyDialect
from modegate.core.wire.json_spans import MAX_MEMBERS, Span
from modegate.core.wire.request_body import RequestBody
from modegate.core.wire.surrogates import MAX_HALVES
from modegate.core.wire.weight import ESCAPES, REQUEST_VALUES
from modegate.server.upstream.litellm_request import asked
from support.dialect_facts import translation
from support.playbook import Session, mode, policy

SAYS = {"role": "user", "content": "hi"}
DIALECTS: dict[str, tuple[AnyDialect, str]] = {
    "chat": (CHAT, "messages"),
    "messages": (MESSAGES, "messages"),
    "responses": (RESPONSES, "input"),
}
TOO_MUCH: dict[str, tuple[dict[str, Any], str]] = {
    "tools": ({"tools": [{"type": "function", "name": "t"}] * (MAX_TOOLS + 1)}, "tools"),
    "keys": ({f"key_{number}": 1 for number in range(MAX_MEMBERS)}, "keys"),
    "items": ({"HISTORY": [{}] * (MAX_ITEMS + 1)}, "items"),
    "values": ({"x": [1] * (REQUEST_VALUES + 1)}, "values"),
    "escapes": ({"x": "\n" * (ESCAPES * REQUEST_VALUES + 1)}, "values"),
    "halves": ({"x": "\ud83d" * (MAX_HALVES + 1)}, "stand alone"),
}
MUCH: dict[str, dict[str, Any]] = {
    "tools": {"tools": [{"type": "function", "name": "t"}] * 1000},
    "items": {"HISTORY": [SAYS] * 20_000},
    "words": {"x": "a, b, c, [] {} " * 200_000},
    "halves": {"x": "\ud83d" * 1000},
}


def body(key: str, more: dict[str, Any]) -> bytes:
    """Return a request with these members; `HISTORY` stands for the key of the history."""
    named = {key if name == "HISTORY" else name: value for name, value in more.items()}
    return json.dumps({"model": "m", key: [SAYS]} | named).encode()


def test_every_dialect_is_in_the_table() -> None:
    assert sorted(DIALECTS) == sorted(registered.DIALECTS.names)


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("what", TOO_MUCH)
def test_h23_what_no_agent_sends_is_refused(name: str, what: str) -> None:
    dialect, key = DIALECTS[name]
    more, why = TOO_MUCH[what]
    with pytest.raises(BadRequest, match=why):
        dialect.read(RequestBody(body(key, more)))


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("what", MUCH)
def test_h23_what_agents_send_is_read(name: str, what: str) -> None:
    """Several hundred tools, sessions of many thousand messages, long texts full of signs."""
    dialect, key = DIALECTS[name]
    dialect.read(RequestBody(body(key, MUCH[what])))


def test_h23_tools_of_all_lists_count_together() -> None:
    """A namespace, an item and the top-level list of a Responses request."""
    tool = {"type": "function", "name": "t"}
    lists: list[dict[str, Any]] = [
        {"type": "additional_tools", "tools": [tool] * 1000},
        {"type": "additional_tools", "tools": [{"type": "namespace", "name": "n", "tools": [tool] * 1000}]},
        {"type": "mcp_list_tools", "server_label": "s", "tools": [{"name": "t"}] * 1000},
    ]  # fmt: skip
    request = {"input": lists, "tools": [tool] * 2000}
    with pytest.raises(BadRequest, match="tools"):
        RESPONSES.read(RequestBody(json.dumps(request).encode()))


def test_h23_a_body_of_values_alone_is_not_read_for_its_session() -> None:
    """It gets a name of its own, as what nobody can read does."""
    more, _ = TOO_MUCH["values"]
    found = body_fields(RequestBody(body("messages", more)))
    assert found.unread
    assert not found.first_user_text


def test_h23_a_body_of_values_alone_is_not_routed_by_its_model() -> None:
    more, _ = TOO_MUCH["values"]
    with pytest.raises(BadRequest, match="values"):
        model_of_body(RequestBody(body("messages", more)))


def test_h23_a_body_of_values_alone_is_not_translated() -> None:
    more, _ = TOO_MUCH["values"]
    with pytest.raises(BadRequest, match="values"):
        asked(translation("chat"), body("messages", more))


def test_h23_approvals_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,200 of them with their answers, 200 KB of a history, held the loop for two minutes."""
    looks: list[str] = []
    member_of = ResponsesRequest.member_of

    def noted(self: ResponsesRequest, span: Span, key: str) -> Span | None:
        looks.append(key)
        return member_of(self, span, key)

    monkeypatch.setattr(ResponsesRequest, "member_of", noted)
    asks = [
        {"type": "mcp_approval_request", "id": f"a{at}", "server_label": "s", "name": "n"}
        for at in range(100)
    ]
    answers = [
        {"type": "mcp_approval_response", "approve": True, "approval_request_id": f"a{at}"}
        for at in range(100)
    ]
    request = ResponsesRequest(
        RequestBody(json.dumps({"model": "m", "input": [*asks, *answers]}).encode())
    )
    state = Session(rules=policy(mode("plan", "mcp__s__n"))).in_force()
    RESPONSES.assemble(request, state, "")
    assert len(looks) < 20 * 100


@pytest.mark.parametrize("depth", [2, 9, 300])
def test_h23_blocks_within_blocks_are_read_to_a_depth(depth: int) -> None:
    """At each level all that stands inside is passed over: 240 levels of 4 MB took five seconds."""
    inside: list[Any] = [{"type": "tool_reference", "tool_name": "x"}]
    for _ in range(depth):
        inside = [{"type": "tool_result", "tool_use_id": "t", "content": inside}]
    messages = [{"role": "user", "content": inside}]
    body = {"model": "m", "messages": messages, "tools": [{"name": "read", "input_schema": {}}]}
    state = Session(rules=policy(mode("plan", "read"))).in_force()
    dialect = MESSAGES

    def assemble() -> bytes:
        return dialect.assemble(
            dialect.read(RequestBody(json.dumps(body).encode())), state, ""
        ).body

    if depth > 2:
        with pytest.raises(BadRequest, match="deep"):
            assemble()
    else:
        assert b"tool_reference" not in assemble()


def test_h23_cache_markers_are_looked_for_in_a_definition_and_its_function_alone() -> None:
    """Functions within one another, which no API has, were passed over at each level."""
    inner: Any = {"name": "write", "cache_control": {"type": "ephemeral"}}
    for within, moved in ((0, True), (1, False), (300, False)):
        function = inner
        for _ in range(within):
            function = {"name": "write", "function": function}
        tools = [
            {"type": "function", "function": {"name": "read"}},
            {"type": "function", "function": function},
        ]
        body = {"model": "m", "messages": [], "tools": tools}
        dialect = CHAT
        state = Session(rules=policy(mode("plan", "read"))).in_force()
        sent = dialect.assemble(
            dialect.read(RequestBody(json.dumps(body).encode())), state, ""
        ).body
        assert (b"cache_control" in sent) is moved

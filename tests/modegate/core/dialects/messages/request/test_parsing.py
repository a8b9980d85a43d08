"""A Messages request is read without a doubt, or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.dialects.messages.request.parsing import MessagesRequest
from modegate.core.errors import BadRequest
from modegate.core.wire.request_body import RequestBody
from support.messages import CALLED, RESULT, USER, request, tool


def read(body: dict[str, Any] | bytes) -> MessagesRequest:
    return MessagesRequest(
        RequestBody(body if isinstance(body, bytes) else json.dumps(body).encode())
    )


def addition(name: str) -> dict[str, Any]:
    added = {"type": "tool_definition", "definition": tool(name)}
    return {"role": "system", "content": [{"type": "tool_addition", "tool": added}]}


def test_its_parts() -> None:
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
    body = request("read", search, messages=[USER, addition("late"), CALLED, RESULT])
    found = read(body)
    assert found.declared == {"read", "web_search", "late"}
    assert found.declares_tools
    assert found.first_user_text == "rename foo"
    assert found.call_ids == {"t1"}
    assert [json.loads(found.text(span)) for span in found.messages] == body["messages"]


def test_a_request_without_tools() -> None:
    for body in (request(), request(tools=[]), request(tools=None), request(messages=[])):
        found = read(body)
        assert not found.declares_tools
        assert found.declared == frozenset()
    assert read(request(messages=[])).first_user_text == ""


def test_tools_may_be_defined_in_the_messages_alone() -> None:
    found = read(request(messages=[USER, addition("late")]))
    assert found.declares_tools
    assert found.declared == {"late"}


def test_the_first_user_text_is_that_of_all_blocks() -> None:
    blocks = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]
    system = {"role": "system", "content": "s"}
    assert (
        read(request(messages=[system, {"role": "user", "content": blocks}])).first_user_text
        == "a\nb"
    )


@pytest.mark.parametrize("kind", ["tool_use", "server_tool_use", "mcp_tool_use"])
def test_every_kind_of_call_has_an_id(kind: str) -> None:
    blocks = ["odd", {"type": "text", "id": "no"}, {"type": kind, "id": "c1", "name": "n"}]
    found = read(request(messages=[USER, {"role": "assistant", "content": blocks}]))
    assert found.call_ids == {"c1"}
    assert found.holds_tool_blocks


@pytest.mark.parametrize(
    ("messages", "holds"), [([USER], False), ([RESULT], True), ([CALLED], True)]
)
def test_whether_the_history_holds_tool_blocks(messages: list[Any], holds: bool) -> None:
    assert read(request(messages=messages)).holds_tool_blocks is holds


UNREADABLE: dict[str, tuple[bytes, str]] = {
    "no object": (b"[]", "not a JSON object"),
    "no messages": (b'{"model":"m"}', "'messages' is missing"),
    "messages null": (b'{"messages":null}', "'messages' is missing"),
    "messages no list": (b'{"messages":{}}', "'messages' is not a list"),
    "a message that is text": (b'{"messages":["a"]}', "not an object"),
    "a tool that is text": (b'{"messages":[],"tools":["a"]}', "not an object"),
    "servers no list": (b'{"messages":[],"mcp_servers":{}}', "'mcp_servers' is not a list"),
    "tools twice": (b'{"messages":[],"tools":[],"tools":[]}', "stands twice"),
    "tools in another spelling": (b'{"messages":[],"Tools":[]}', "did you mean 'tools'"),
    "choice in another spelling": (
        b'{"messages":[],"toolChoice":{}}',
        "did you mean 'tool_choice'",
    ),
    "servers in another spelling": (
        b'{"messages":[],"mcpServers":[]}',
        "did you mean 'mcp_servers'",
    ),
    "thread twice": (b'{"messages":[],"thread":null,"thread":null}', "stands twice"),
    "callers twice": (
        b'{"messages":[],"tools":[{"name":"a","allowed_callers":[],"allowed_callers":[]}]}',
        "stands twice",
    ),
    "not UTF-8": (b'{"messages":[],"a":"\xff"}', "not a JSON object"),
}


@pytest.mark.parametrize(("body", "why"), UNREADABLE.values(), ids=UNREADABLE)
def test_l4_what_can_be_read_in_two_ways_is_refused(body: bytes, why: str) -> None:
    with pytest.raises(BadRequest, match=why):
        read(body)

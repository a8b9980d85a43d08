"""Messages requests for tests, and what the model is sent of them in plan mode."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.dialects.messages.request.edit import assemble
from modegate.core.dialects.messages.request.parsing import MessagesRequest
from modegate.core.errors import BadRequest
from modegate.core.ids import DEFAULT_MODE
from modegate.core.policy.model import Exit, ExitOption, Policy, Rule
from modegate.core.step.dialect import Assembled
from modegate.core.step.request.assemble import section_for
from modegate.core.wire.request_body import RequestBody
from support.playbook import SECTION, Session, mode, policy

USER = {"role": "user", "content": "rename foo"}
CALLED = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "t1", "name": "write", "input": {}}],
}
RESULT = {
    "role": "user",
    "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "x"}],
}
MARK = {"cache_control": {"type": "ephemeral"}}


def tool(name: str, **more: Any) -> dict[str, Any]:
    """Return a tool definition."""
    return {"name": name, "input_schema": {"type": "object"}, **more}


def request(*tools: Any, **more: Any) -> dict[str, Any]:
    """Return a request; tools are definitions, or names of plain ones."""
    listed = [tool(one) if isinstance(one, str) else one for one in tools]
    declared = {"tools": listed} if listed else {}
    return {"model": "m", "max_tokens": 9, "messages": [USER], **declared, **more}


def rules(*tools: str | Rule, leave: bool = False, section: str = SECTION) -> Policy:
    """Return a policy with these tools in plan mode, and with an exit if asked for."""
    way = Exit((ExitOption("Approve", DEFAULT_MODE),)) if leave else None
    return policy(mode("plan", *tools, section=section, exit=way))


READ = rules("read", "grep")
LEAVE = rules("read", "grep", leave=True)


def assembled(body: bytes | dict[str, Any], policy_: Policy = READ) -> Assembled:
    """Return what the model is sent in plan mode."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    read = MessagesRequest(RequestBody(raw))
    in_force = Session(rules=policy_).in_force()
    return assemble(read, in_force, section_for(read, in_force))


def sent(body: bytes | dict[str, Any], policy_: Policy = READ) -> Any:
    """Return the same, decoded."""
    return json.loads(assembled(body, policy_).body)


def names(body: dict[str, Any]) -> list[Any]:
    """Return the names, or else the types, of the tools of a decoded request."""
    return [one.get("name", one.get("type")) for one in body.get("tools", ())]


def refused(body: bytes | dict[str, Any], policy_: Policy = READ) -> str:
    """Return the message with which a request is refused."""
    with pytest.raises(BadRequest) as error:
        assembled(body, policy_)
    return str(error.value)


def markers(value: Any) -> int:
    """Count cache markers, wherever they stand."""
    if isinstance(value, dict):
        own = value.get("cache_control") is not None
        return own + sum(markers(one) for key, one in value.items() if key != "cache_control")
    return sum(map(markers, value)) if isinstance(value, list) else 0

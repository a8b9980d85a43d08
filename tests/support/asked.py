"""Requests of the Responses API: made in short, and as the model gets to see them in a mode."""

from __future__ import annotations

import json
from typing import Any

from modegate.core.dialects.responses.request import edit
from modegate.core.dialects.responses.request.parsing import ResponsesRequest
from modegate.core.errors import BadRequest
from modegate.core.ids import ModeId
from modegate.core.policy.model import Exit, ExitOption, Policy
from modegate.core.step.dialect import Assembled
from modegate.core.step.request.assemble import section_for
from modegate.core.wire.request_body import RequestBody
from support.playbook import POLICY, Session, mode, policy

USER = {"role": "user", "content": "rename foo"}
DEVELOPER = {"role": "developer", "content": [{"type": "input_text", "text": "A"}]}
LEAVE = Exit((ExitOption("Go", ModeId("default")),))


def rules(*tools: Any, **more: Any) -> Policy:
    """Return a plan mode that allows these tools."""
    return policy(mode("plan", *tools, **more))


def leaving(*tools: Any, **more: Any) -> Policy:
    """Return one that has an exit."""
    return rules(*tools, exit=LEAVE, **more)


def function(name: str, **more: Any) -> dict[str, Any]:
    """Return a function's definition."""
    parameters = {"type": "object", "properties": {}}
    return {"type": "function", "name": name, "parameters": parameters, "strict": False, **more}


def custom(name: str) -> dict[str, Any]:
    """Return a freeform tool's definition."""
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
    return {"type": "custom", "name": name, "description": "d", "format": grammar}


def namespace(name: str, *tools: Any, **more: Any) -> dict[str, Any]:
    """Return a namespace with these tools."""
    made = [function(tool) if isinstance(tool, str) else tool for tool in tools]
    return {"type": "namespace", "name": name, "description": "d", "tools": made, **more}


def server(label: str, *tools: str, **more: Any) -> dict[str, Any]:
    """Return a remote MCP server, of which only these tools may be called if there are any."""
    listed = {"allowed_tools": list(tools)} if tools else {}
    url = f"https://{label}.example"
    return {"type": "mcp", "server_label": label, "server_url": url, **listed, **more}


def request(*tools: Any, **more: Any) -> dict[str, Any]:
    """Return a request that declares these tools."""
    made = [function(tool) if isinstance(tool, str) else tool for tool in tools]
    body: dict[str, Any] = {"model": "m", "input": [USER], "store": False}
    return {**body, **({"tools": made} if made else {}), **more}


def assembled(body: bytes | dict[str, Any], rules_: Policy = POLICY) -> Assembled:
    """Return what the model gets to see of a request in plan mode."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    in_force = Session(rules=rules_).in_force()
    read = ResponsesRequest(RequestBody(raw))
    return edit.assemble(read, in_force, section_for(read, in_force))


def sent(body: bytes | dict[str, Any], rules_: Policy = POLICY) -> Any:
    """Return it decoded."""
    return json.loads(assembled(body, rules_).body)


def refused(body: bytes | dict[str, Any], rules_: Policy = POLICY) -> str:
    """Return why a request is refused."""
    try:
        assembled(body, rules_)
    except BadRequest as error:
        return str(error)
    raise AssertionError("it was not refused")

"""The exit tool in a chat completions request: ours, or the agent's own where a plan can be read from it."""

from __future__ import annotations

from typing import Any

import msgspec

from modegate.core import leaving
from modegate.core.dialects.chat.request import ChatRequest
from modegate.core.dialects.chat.tools import Declared
from modegate.core.policy import EXIT_TOOL, Exit

EXIT_FUNCTION = {
    "name": EXIT_TOOL,
    "description": leaving.DESCRIPTION,
    "parameters": {
        "type": "object",
        "properties": {"plan": {"type": "string", "description": leaving.PLAN}},
        "required": ["plan"],
        "additionalProperties": False,
    },
}
EXIT_ENTRIES = {
    "tools": msgspec.json.encode({"type": "function", "function": EXIT_FUNCTION}),
    "functions": msgspec.json.encode(EXIT_FUNCTION),
}
"""The exit tool's definition: the same bytes in every session, at the end of the list."""


def is_native(tool: Declared) -> bool:
    """Tell whether an agent declares a tool of this purpose: it is hidden, and ours stands in its place."""
    return not leaving.NATIVE.isdisjoint(tool.names)


def bridged(request: ChatRequest, leave: Exit | None) -> Declared | None:
    """Give the agent's own exit tool if it stays: where its schema requires a plan as a string.

    Most native ones carry no plan that a person could read. What is kept is asked about in the same way
    and, once approved, released to the agent.
    """
    if leave is None or not leave.native:
        return None
    return next((tool for tool in request.tools if _carries_plan(request, tool)), None)


def _carries_plan(request: ChatRequest, tool: Declared) -> bool:
    if not is_native(tool) or len(tool.names) != 1:
        return False
    definition: Any = request.decode(tool.span)
    schema = _inner(_inner(definition, "function"), "parameters")
    required = schema.get("required")
    plan = _inner(_inner(schema, "properties"), "plan")
    return isinstance(required, list) and "plan" in required and plan.get("type") == "string"


def _inner(value: dict[str, Any], key: str) -> dict[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}

"""The exit tool in a request: ours, or the agent's own where a plan can be read from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

from modegate.core.dialects.common.body import Body
from modegate.core.dialects.common.tools import Declared
from modegate.core.policy.model import Exit
from modegate.core.step import exit_tool

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"plan": {"type": "string", "description": exit_tool.PLAN}},
    "required": ["plan"],
    "additionalProperties": False,
}
"""What our exit tool takes, as JSON schema."""


def is_native(tool: Declared) -> bool:
    """Return whether an agent declares a tool of this purpose: it is hidden, and ours stands in its place."""
    return not exit_tool.NATIVE.isdisjoint(tool.names)


def bridged(
    request: Body, tools: Iterable[Declared], leave: Exit | None, *path: str
) -> Declared | None:
    """Return the agent's own exit tool if it stays: where its schema requires a plan as a string.

    Most native ones carry no plan that a person could read. What is kept is asked about in the same way
    and, once approved, released to the agent. `path` leads to the JSON schema in a definition.
    """
    if leave is None or not leave.native:
        return None
    found = (tool for tool in tools if is_native(tool) and len(tool.names) == 1)
    return next((one for one in found if _requires_plan(request.decode(one.span), path)), None)


def _requires_plan(definition: Any, path: Sequence[str]) -> bool:
    schema = reduce(inner, path, definition)
    required = inner(schema, "required")
    plan = inner(inner(schema, "properties"), "plan")
    return isinstance(required, list) and "plan" in required and inner(plan, "type") == "string"


def inner(value: Any, key: str) -> Any:
    """Return what stands under a key; None if there is none, or the value is not an object."""
    return value.get(key) if isinstance(value, dict) else None

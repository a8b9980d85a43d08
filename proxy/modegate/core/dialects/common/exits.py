"""The exit tool in a request: ours, or the agent's own where a plan can be read from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

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
    tools: Iterable[Declared], leave: Exit | None, schema: Callable[[Declared], Any]
) -> Declared | None:
    """Return the agent's own exit tool if it stays: where its schema requires a plan as a string.

    Most native ones carry no plan that a person could read. What is kept is asked about in the same way
    and, once approved, released to the agent. `schema` gives a definition's JSON schema of its arguments.
    """
    if leave is None or not leave.native:
        return None
    found = (tool for tool in tools if is_native(tool) and len(tool.names) == 1)
    return next((tool for tool in found if _requires_plan(schema(tool))), None)


def _requires_plan(schema: Any) -> bool:
    required = inner(schema, "required")
    plan = inner(inner(schema, "properties"), "plan")
    return isinstance(required, list) and "plan" in required and inner(plan, "type") == "string"


def inner(value: Any, key: str) -> Any:
    """Return what stands under a key; None if there is none, or the value is not an object."""
    return value.get(key) if isinstance(value, dict) else None

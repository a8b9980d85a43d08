"""The tools of a request in a mode, as edits: which stay, the exit tool, and a choice of one that went."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any, NamedTuple

from modegate.core.dialects.common.body import Body
from modegate.core.dialects.common.tools import Declared, spelling, tool_names
from modegate.core.ids import ToolName
from modegate.core.policy.in_force import ModesInForce
from modegate.core.policy.model import NATIVE_EXITS, Exit
from modegate.core.step import exit_tool
from modegate.core.wire.json_spans import Edit, Member, Span, without

EXIT_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"plan": {"type": "string", "description": exit_tool.PLAN}},
    "required": ["plan"],
    "additionalProperties": False,
}
"""What our exit tool takes, as JSON schema."""


def is_native(tool: Declared) -> bool:
    """Return whether an agent declares a tool of this purpose: it is hidden, and ours stands in its place."""
    return not NATIVE_EXITS.isdisjoint(tool.names)


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


class Filtered(NamedTuple):
    """What becomes of one list."""

    edits: list[Edit]
    kept: tuple[ToolName, ...] = ()
    drop: frozenset[str] = frozenset()
    """Top-level keys to take out whole."""
    beside: tuple[ToolName, ...] = ()
    """What stays or is put in and is no tool to use."""


def may_stay(tool: Declared, in_force: ModesInForce) -> bool:
    """Return whether a definition may be shown; never the agent's own exit tool.

    Each of its names must be one of which some call could be allowed or asked about; where no call passes
    the gate, one of which every call is allowed.
    """
    if not tool.names or (in_force.gated and is_native(tool)):
        return False
    may = in_force.may_run if tool.hosted else in_force.may_offer
    return all(may(name) for name in tool.names)


def names_of(tools: Sequence[Declared]) -> tuple[ToolName, ...]:
    return tuple(name for tool in tools for name in tool.names)


def keep_edits(
    request: Body,
    declared: Sequence[Declared],
    kept: Sequence[Declared],
    *,
    markable: Sequence[Declared] | None = None,
) -> list[Edit]:
    """Take out of a list what is not kept, and move its cache marker.

    `markable` are those of the kept that may have one; all unless it is given.
    """
    able = kept if markable is None else markable
    starts = {tool.span.start for tool in kept}
    lost = {index for index, tool in enumerate(declared) if tool.span.start not in starts}
    edits = without([tool.span for tool in declared], lost)
    if lost and able:
        edits += _marker_edits(request, [declared[index] for index in sorted(lost)], able[-1])
    return edits


def exit_edit(declared: Sequence[Declared], entry: bytes, *, any_kept: bool) -> Edit:
    """Put the exit tool behind what is kept, or in the place of all that is not.

    In the second case the edit stands for those of `keep_edits`.
    """
    last = declared[-1].span.end
    if any_kept:
        return Edit(last, last, b"," + entry)
    return Edit(declared[0].span.start, last, entry)


def _marker_edits(request: Body, lost: Sequence[Declared], last: Declared) -> list[Edit]:
    """Move the cache marker of a removed tool to the last one that is kept, so that none is added."""
    markers = [marker for tool in lost for marker in _markers(request, tool.span)]
    if not markers or _markers(request, last.span):
        return []
    at = last.span.end - 1
    return [Edit(at, at, b',"cache_control":' + request.text(markers[-1].value))]


def _markers(request: Body, span: Span, *, inside: bool = False) -> list[Member]:
    """Return the cache markers of a definition; gateways take them inside its `function` too."""
    if b"cache" not in request.text(span):
        return []  # hardly any definition has one, and finding its members costs more than the rest
    found: list[Member] = []
    for member in request.members_of(span):
        if spelling(member.key) == "cachecontrol":
            found.append(member)
        elif member.key == "function" and not inside and request.text(member.value)[:1] == b"{":
            found += _markers(request, member.value, inside=True)
    return [marker for marker in found if request.text(marker.value) != b"null"]


Names = Callable[[bytes, Span], Iterable[ToolName]]
"""Gives every name in a tool choice, or an entry of one, that is an object."""


def choice_edits(
    request: Body,
    key: str,
    kept: frozenset[ToolName],
    *,
    relaxed: bytes = b'"auto"',
    names: Names = tool_names,
) -> list[Edit]:
    """Relax a choice of tools that names one which is not there, or requires one of none.

    `kept` are the names that are left to choose from, other than the exit tool's; `relaxed` stands for "as
    the model likes" in this API. Raises `BadRequest` if allowed tools cannot be read in one way.
    """
    span = request.top.get(key)
    value = request.value(key)
    if span is None or value is None:
        return []
    word = value.get("type") if isinstance(value, dict) else value
    if word in ("auto", "none"):
        return []
    if word == "allowed_tools":
        return _allowed_edits(request, span, kept, relaxed, names)
    if word in ("required", "any"):
        stays = bool(kept)
    elif isinstance(value, dict):
        stays = _is_kept(request, span, kept, names)
    else:
        stays = isinstance(value, str) and value in kept
    return [] if stays else [Edit(*span, relaxed)]


def _is_kept(request: Body, span: Span, kept: frozenset[ToolName], names: Names) -> bool:
    found = tuple(names(request.readable, span))
    return bool(found) and kept.issuperset(found)


def _allowed_edits(
    request: Body, span: Span, kept: frozenset[ToolName], relaxed: bytes, names: Names
) -> list[Edit]:
    """Filter the list of `{"type":"allowed_tools",…}`, which chat wraps once more and Responses does not."""
    holder = request.member_of(span, "allowed_tools") or span
    listed = request.member_of(holder, "tools")
    entries = request.elements_of(listed) if listed else []
    drop = {
        index
        for index, entry in enumerate(entries)
        if request.text(entry)[:1] != b"{" or not _is_kept(request, entry, kept, names)
    }
    if len(drop) == len(entries):
        return [Edit(*span, relaxed)]
    return without(entries, drop)

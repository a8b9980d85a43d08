"""The lists of tools in a Responses request in a mode: which stay, inside of those that hold others too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec

from modegate.core.dialects.common import tool_filter
from modegate.core.dialects.common.tool_filter import exit_edit, keep_edits, may_stay
from modegate.core.dialects.common.tools import Declared
from modegate.core.dialects.responses.request.parsing import ADDITIONAL, ResponsesRequest
from modegate.core.dialects.responses.request.tools import Tool
from modegate.core.ids import ToolName
from modegate.core.policy.in_force import ModesInForce
from modegate.core.policy.model import EXIT_TOOL, NATIVE_EXITS, Exit
from modegate.core.step import exit_tool
from modegate.core.wire.json_spans import Edit, without


class FilteredTools(NamedTuple):
    """What is left of all lists, and how."""

    edits: list[Edit]
    tools: tuple[Tool, ...] = ()
    emptied: bool = False
    """Nothing is left of the top-level list: it goes."""
    dropped: frozenset[int] = frozenset()
    """Indices of items that go, since nothing is left of them."""
    exit: bool = False
    """The exit tool was added."""

    @property
    def names(self) -> tuple[ToolName, ...]:
        """What is left, as a policy knows it, each once."""
        return tuple(dict.fromkeys(name for tool in self.tools for name in _names(tool)))

    @property
    def choices(self) -> frozenset[ToolName]:
        """What is left, as a choice of tools names it."""
        return frozenset(ToolName(name) for tool in self.tools for name in _choices(tool))

    @property
    def open_labels(self) -> frozenset[str]:
        """MCP servers of which every tool may be called."""
        return frozenset(tool.label for tool in self.tools if tool.label and not tool.inner)


def _names(tool: Tool) -> list[ToolName]:
    return [name for one in tool.inner for name in one.names] or list(tool.names)


def _choices(tool: Tool) -> list[str]:
    return [*tool.choices, *(name for one in tool.inner for name in one.choices)]


def keep(
    request: ResponsesRequest, in_force: ModesInForce, native: Declared | None, *, exit_too: bool
) -> FilteredTools:
    """Filter every list; `exit_too`: add the exit tool at the end of the first that can take it."""
    rules = _Rules(request, in_force, native)
    edits, tools = rules.filter(request.tools)
    home = _home(request) if exit_too else None
    emptied = bool(request.tools) and not tools and home != -1
    edits = [] if emptied else _ended(request.tools, edits, tools, home=home == -1)
    kept, dropped = list(tools), set()
    for index, item in enumerate(request.items):
        if not item.tools:
            continue
        inside, left = rules.filter(item.tools)
        if item.kind == ADDITIONAL and not left and home != index:
            dropped.add(index)
            continue
        edits += _ended(item.tools, inside, left, home=home == index)
        kept += left
    return FilteredTools(edits, tuple(kept), emptied, frozenset(dropped), home is not None)


def _home(request: ResponsesRequest) -> int | None:
    """Return where the exit tool goes: -1 for the top-level list, an item's index, None for nowhere."""
    if request.tools:
        return -1
    items = enumerate(request.items)
    return next((index for index, item in items if item in request.additional), None)


def _ended(
    declared: Sequence[Tool], edits: list[Edit], left: Sequence[Tool], *, home: bool
) -> list[Edit]:
    if not home:
        return edits
    added = exit_edit(declared, EXIT_ENTRY, any_kept=bool(left))
    return [*edits, added] if left else [added]


class _Rules:
    """What may stay under the modes in force."""

    def __init__(
        self, request: ResponsesRequest, in_force: ModesInForce, native: Declared | None
    ) -> None:
        self._request = request
        self._in_force = in_force
        self._native = native

    def filter(self, tools: Sequence[Tool]) -> tuple[list[Edit], list[Tool]]:
        """Filter one list, and what holds others inside; an entry of which nothing is left goes whole."""
        edits: list[Edit] = []
        left: list[Tool] = []
        for tool in tools:
            if self._stays(tool):
                left.append(replace(tool, inner=()) if tool.label else tool)
            elif tool.inner:
                inside, inner = self.filter(tool.inner)
                edits += inside if inner else []
                left += [replace(tool, inner=tuple(inner))] if inner else []
        return [*edits, *self._taken_out(tools, left)], left

    def _stays(self, tool: Tool) -> bool:
        if self._native is not None and tool.span == self._native.span:
            return True
        if self._in_force.gated and is_native(tool):
            return False
        return may_stay(tool, self._in_force)

    def _taken_out(self, tools: Sequence[Tool], left: Sequence[Tool]) -> list[Edit]:
        if tools and self._request.text(tools[0].span)[:1] == b"{":
            return keep_edits(self._request, tools, left)
        starts = {tool.span.start for tool in left}
        drop = {index for index, tool in enumerate(tools) if tool.span.start not in starts}
        return without([tool.span for tool in tools], drop)


EXIT_ENTRY = msgspec.json.encode(
    {
        "type": "function",
        "name": EXIT_TOOL,
        "description": exit_tool.DESCRIPTION,
        "parameters": tool_filter.EXIT_PARAMETERS,
        "strict": False,
    }
)
"""The exit tool's definition: the same bytes in every session, at the end of the list."""


def is_native(tool: Tool) -> bool:
    """Return whether it is an agent's own tool of this purpose, in whatever namespace."""
    return not NATIVE_EXITS.isdisjoint((*tool.names, *tool.choices))


def bridged(request: ResponsesRequest, leave: Exit | None) -> Declared | None:
    lists = (request.tools, *(item.tools or () for item in request.additional))
    listed = [tool for one in lists for tool in one]
    # In a namespace too, if a call of it then has its plain name.
    each = [one for tool in listed for one in (tool, *tool.inner)]
    return tool_filter.bridged(request, each, leave, "parameters")

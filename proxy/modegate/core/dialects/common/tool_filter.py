"""A list of tool definitions in a mode: which stay, as edits of its spans, and the exit tool at its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from modegate.core.dialects.common.body import Body
from modegate.core.dialects.common.exits import is_native
from modegate.core.dialects.common.tools import Declared, spelling
from modegate.core.ids import ToolName
from modegate.core.policy.in_force import ModesInForce
from modegate.core.wire.json_spans import Edit, Member, Span, without


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
    """Return all their names, in order."""
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

"""A choice of tools, relaxed where it names one that the mode took away."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from modegate.core.dialects.common.body import Body
from modegate.core.dialects.common.tools import tool_names
from modegate.core.ids import ToolName
from modegate.core.wire.json_spans import Edit, Span, without

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

    Args:
        request: what holds the choice.
        key: its top-level key.
        kept: the names that are left to choose from, other than the exit tool's.
        relaxed: what stands for "as the model likes" in this API.
        names: how this API's choices name tools.

    Raises:
        BadRequest: a list of allowed tools that cannot be read in one way.
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

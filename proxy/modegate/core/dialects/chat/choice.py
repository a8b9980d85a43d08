"""A choice of tools in a chat completions request, relaxed where it names one that the mode took away."""

from __future__ import annotations

from modegate.core.dialects.chat.request import ChatRequest
from modegate.core.dialects.chat.tools import tool_names
from modegate.core.errors import BadRequest
from modegate.core.ids import ToolName
from modegate.core.spans import Edit, Span, without


def choice_edits(request: ChatRequest, key: str, kept: frozenset[ToolName]) -> list[Edit]:
    """Relax a choice of tools that names one which is not there, or requires one of none."""
    span = request.top.get(key)
    value = request.value(key)
    if span is None or value is None:
        return []
    word = value.get("type") if isinstance(value, dict) else value
    if word in ("auto", "none"):
        return []
    if word == "allowed_tools":
        return _allowed_edits(request, span, kept)
    if word in ("required", "any"):
        stays = bool(kept)
    elif isinstance(value, dict):
        stays = _is_kept(request, span, kept)
    else:
        stays = isinstance(value, str) and value in kept
    return [] if stays else [Edit(*span, b'"auto"')]


def _is_kept(request: ChatRequest, span: Span, kept: frozenset[ToolName]) -> bool:
    names = tool_names(request.body, span)
    return bool(names) and kept.issuperset(names)


def _allowed_edits(request: ChatRequest, span: Span, kept: frozenset[ToolName]) -> list[Edit]:
    """Filter the list of `{"type":"allowed_tools","allowed_tools":{"mode":…,"tools":[…]}}`."""
    holder = _only(request, span, "allowed_tools") or span
    listed = _only(request, holder, "tools")
    entries = request.elements_of(listed) if listed else []
    drop = {
        index
        for index, entry in enumerate(entries)
        if request.text(entry)[:1] != b"{" or not _is_kept(request, entry, kept)
    }
    if len(drop) == len(entries):
        return [Edit(*span, b'"auto"')]
    return without(entries, drop)


def _only(request: ChatRequest, span: Span, key: str) -> Span | None:
    found = [member.value for member in request.members_of(span) if member.key == key]
    if len(found) > 1:
        raise BadRequest(f"the key {key!r} stands twice in 'tool_choice'")
    return found[0] if found else None

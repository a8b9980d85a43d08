"""The soft layer for chat completions: what the model is shown in a mode, as edits of spans."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from modegate.core import leaving
from modegate.core.dialects.base import Assembled
from modegate.core.dialects.chat import exits, hosted
from modegate.core.dialects.chat.choice import choice_edits
from modegate.core.dialects.chat.request import ChatRequest
from modegate.core.dialects.chat.tools import Declared, spelling
from modegate.core.ids import ToolName
from modegate.core.policy import EXIT_TOOL
from modegate.core.spans import Edit, Member, Span, apply, quote, without, without_members
from modegate.core.standing import Standing

INERT_TOOL = {
    "type": "function",
    "function": {
        "name": "no_tool_in_this_mode",
        "description": "No tool can be used in this mode. Calls of this one are refused.",
        "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
    },
}
"""Stands in where the history holds calls and nothing is left: some providers then want a tool."""

CHOICE_KEYS = {"tools": "tool_choice", "functions": "function_call"}
GO_TOGETHER = {
    "tools": frozenset({"tools", "tool_choice", "parallel_tool_calls"}),
    "functions": frozenset({"functions", "function_call"}),
}
"""What goes when nothing is left: providers refuse a choice among none."""


class _Filtered(NamedTuple):
    edits: list[Edit]
    kept: tuple[ToolName, ...] = ()
    drop: frozenset[str] = frozenset()
    """Top-level keys to take out whole."""


def assemble(request: ChatRequest, standing: Standing, section: str) -> Assembled:
    """Filter the tools, add the exit tool and the section, if there are any to add.

    Raises:
        BadRequest: the request asks for something that the provider would run by itself, and that
            cannot be taken out without changing what is asked.
    """
    hosted.refuse(request, standing)
    leave = leaving.exit_of(standing)
    native = exits.bridged(request, leave)
    tools = _filter(request, "tools", request.tools, standing, native)
    functions = _filter(request, "functions", request.functions, standing, None)
    if leave is not None and request.tools and native is None:
        tools = _with_exit(request, "tools", request.tools, tools)
    elif leave is not None and request.functions:
        functions = _with_exit(request, "functions", request.functions, functions)
    drop = hosted.removable(request, standing) | tools.drop | functions.drop
    edits = [*tools.edits, *functions.edits, *without_members(request.members, drop)]
    if section:
        edits += section_edits(request, section)
    kept = dict.fromkeys(tools.kept + functions.kept)
    name = native.names[0] if native else None
    return Assembled(apply(request.body, edits), tuple(kept), name)


def _filter(
    request: ChatRequest,
    key: str,
    declared: list[Declared],
    standing: Standing,
    native: Declared | None,
) -> _Filtered:
    stay = [tool is native or _may_stay(tool, standing) for tool in declared]
    spans = [tool.span for tool in declared]
    if declared and not any(stay):
        if key != "tools" or not request.call_ids:
            return _Filtered([], drop=GO_TOGETHER[key])
        inert = Edit(spans[0].start, spans[-1].end, msgspec.json.encode(INERT_TOOL))
        return _Filtered([inert, *choice_edits(request, CHOICE_KEYS[key], frozenset())])
    kept = [tool for tool, ok in zip(declared, stay, strict=True) if ok]
    names = tuple(name for tool in kept for name in tool.names)
    edits = without(spans, {index for index, ok in enumerate(stay) if not ok})
    edits += _marker_edits(request, declared, kept)
    edits += choice_edits(request, CHOICE_KEYS[key], frozenset(names))
    return _Filtered(edits, names)


def _may_stay(tool: Declared, standing: Standing) -> bool:
    if not tool.names or (standing.gated and exits.is_native(tool)):
        return False
    return all(standing.may_offer(name) for name in tool.names)


def _with_exit(
    request: ChatRequest, key: str, declared: list[Declared], filtered: _Filtered
) -> _Filtered:
    """Add the exit tool behind what was kept, or in the place of all that was not."""
    entry = exits.EXIT_ENTRIES[key]
    names = (*filtered.kept, EXIT_TOOL)
    last = declared[-1].span.end
    if filtered.kept:
        return _Filtered([*filtered.edits, Edit(last, last, b"," + entry)], names)
    alone = Edit(declared[0].span.start, last, entry)
    # Nothing that the agent asks for is left, so a choice of its cannot be kept either.
    return _Filtered([alone, *choice_edits(request, CHOICE_KEYS[key], frozenset())], names)


def _marker_edits(
    request: ChatRequest, declared: list[Declared], kept: list[Declared]
) -> list[Edit]:
    """Move the cache marker of a removed tool to the last one that is kept, so that none is added."""
    lost = [m for tool in declared if tool not in kept for m in _markers(request, tool.span)]
    if not lost or not kept or _markers(request, kept[-1].span):
        return []
    at = kept[-1].span.end - 1
    return [Edit(at, at, b',"cache_control":' + request.text(lost[-1].value))]


def _markers(request: ChatRequest, span: Span) -> list[Member]:
    """Give the cache markers of a definition; gateways take them inside `function` too."""
    if b"cache" not in request.text(span):
        return []  # hardly any definition has one, and finding its members costs more than the rest
    found: list[Member] = []
    for member in request.members_of(span):
        if spelling(member.key) == "cachecontrol":
            found.append(member)
        elif member.key == "function" and request.text(member.value)[:1] == b"{":
            found += _markers(request, member.value)
    return [marker for marker in found if request.text(marker.value) != b"null"]


def section_edits(request: ChatRequest, section: str) -> list[Edit]:
    """Put the section behind the client's own instructions, so that their cached prefix survives."""
    leading: list[Span] = []
    for span in request.messages:
        if request.role(span) not in ("system", "developer"):
            break
        leading.append(span)
    role = request.role(leading[-1]) if leading else "system"
    if leading:
        grown = grow(request, leading[-1], section)
        if grown is not None:
            return [grown]
    message = msgspec.json.encode({"role": role, "content": section})
    if leading:
        return [Edit(leading[-1].end, leading[-1].end, b"," + message)]
    at = request.top["messages"].start + 1
    return [Edit(at, at, message + (b"," if request.messages else b""))]


def grow(request: ChatRequest, span: Span, section: str) -> Edit | None:
    """Lengthen a message's content; None where it has none of a known shape, or two."""
    contents = [m.value for m in request.members_of(span) if m.key == "content"]
    if len(contents) != 1:
        return None
    start, end = contents[0]
    first = request.body[start : start + 1]
    if first == b'"':
        # In front of the closing quote, as one more paragraph.
        return Edit(end - 1, end - 1, quote("\n\n" + section)[1:-1])
    if first == b"[":
        part = msgspec.json.encode({"type": "text", "text": section})
        comma = b"," if request.elements_of(contents[0]) else b""
        return Edit(end - 1, end - 1, comma + part)
    return None


def extend(request: ChatRequest, turn: bytes) -> bytes:
    """Add history messages at the end of `messages`."""
    at = request.messages[-1].end if request.messages else request.top["messages"].start + 1
    return apply(request.body, [Edit(at, at, (b"," if request.messages else b"") + turn)])

"""The soft layer for chat completions: what the model is shown in a mode, as edits of spans."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from modegate.core.dialects.base import Assembled
from modegate.core.dialects.chat.request import (
    ONLINE_SUFFIX,
    PROVIDER_RUNS,
    ChatRequest,
    Declared,
)
from modegate.core.errors import BadRequest
from modegate.core.ids import ToolName
from modegate.core.spans import Edit, Member, Span, apply, elements, quote, without, without_members
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

CHOICE_KEYS = {"tools": {"tool_choice", "parallel_tool_calls"}, "functions": {"function_call"}}


def assemble(request: ChatRequest, standing: Standing, section: str) -> Assembled:
    """Filter the tools and add the section, if there is one to add.

    Raises:
        BadRequest: the request asks for something that the provider would run by itself, and that
            cannot be taken out without changing what is asked.
    """
    _refuse_online(request, standing)
    edits: list[Edit] = []
    drop = {
        key
        for key, name in PROVIDER_RUNS.items()
        if request.flag(key) and not standing.may_offer(ToolName(name))
    }
    kept = _filter(request, "tools", request.tools, standing, edits, drop)
    kept += _filter(request, "functions", request.functions, standing, edits, drop)
    edits += without_members(request.members, drop)
    if section:
        edits += section_edits(request, section)
    return Assembled(apply(request.body, edits), tuple(dict.fromkeys(kept)))


def _refuse_online(request: ChatRequest, standing: Standing) -> None:
    model = request.value("model")
    if isinstance(model, str) and model.endswith(ONLINE_SUFFIX):
        if standing.may_offer(ToolName("web_search")):
            return
        raise BadRequest(
            f"model {model!r} searches the web by itself, which mode {standing.label!r} does not allow; "
            f"ask for it without {ONLINE_SUFFIX!r}, or allow the tool web_search"
        )


def _filter(
    request: ChatRequest,
    key: str,
    declared: list[Declared],
    standing: Standing,
    edits: list[Edit],
    drop: set[str],
) -> list[ToolName]:
    removed = {
        index
        for index, tool in enumerate(declared)
        if not tool.names or not all(standing.may_offer(name) for name in tool.names)
    }
    kept = [
        name for index, tool in enumerate(declared) if index not in removed for name in tool.names
    ]
    spans = [tool.span for tool in declared]
    if declared and not kept and key == "tools" and request.call_ids:
        edits += _replace_all(spans, msgspec.json.encode(INERT_TOOL))
    elif declared and not kept:
        drop |= {key} | CHOICE_KEYS[key]
        return kept
    else:
        edits += without(spans, removed)
    if declared:
        edits += choice_edits(request, CHOICE_KEYS[key], set(kept))
    return kept


def _replace_all(spans: list[Span], new: bytes) -> list[Edit]:
    return [Edit(spans[0].start, spans[-1].end, new)]


def choice_edits(request: ChatRequest, keys: Iterable[str], kept: set[ToolName]) -> list[Edit]:
    """Relax a choice of tools that names one which is no longer there, or requires one of none."""
    edits: list[Edit] = []
    for key in sorted(keys):
        span = request.top.get(key)
        if span is None or key == "parallel_tool_calls":
            continue
        value = request.value(key)
        names = _chosen(value)
        if value == "required" and not kept:
            edits.append(Edit(*span, b'"auto"'))
        elif isinstance(value, dict) and "allowed_tools" in value:
            edits += _allowed_edits(request, span, kept)
        elif isinstance(value, dict) and (not names or not names <= kept):
            edits.append(Edit(*span, b'"auto"'))
    return edits


def _chosen(choice: Any) -> set[str]:
    """Give every name in a named choice: `{"type":"function","function":{"name":…}}` and its kin."""
    if not isinstance(choice, dict):
        return set()
    names = [choice.get("name")]
    names += [inner.get("name") for inner in choice.values() if isinstance(inner, dict)]
    return {name for name in names if isinstance(name, str)}


def _allowed_edits(request: ChatRequest, span: Span, kept: set[ToolName]) -> list[Edit]:
    """Filter `{"type":"allowed_tools","allowed_tools":{"mode":…,"tools":[…]}}` like the tools."""
    value = request.value("tool_choice")
    inner = value["allowed_tools"]
    tools = inner.get("tools") if isinstance(inner, dict) else None
    if not isinstance(tools, list):
        return [Edit(*span, b'"auto"')]
    stay = [_chosen(tool) <= kept and bool(_chosen(tool)) for tool in tools]
    if not any(stay):
        return [Edit(*span, b'"auto"')]
    listed = _only(request, _only(request, span, "allowed_tools"), "tools")
    spans = elements(request.body, listed)
    return without(spans, {index for index, ok in enumerate(stay) if not ok})


def _only(request: ChatRequest, span: Span, key: str) -> Span:
    found = [member.value for member in request.members_of(span) if member.key == key]
    if len(found) != 1:
        raise BadRequest(f"the key {key!r} stands twice in 'tool_choice'")
    return found[0]


def section_edits(request: ChatRequest, section: str) -> list[Edit]:
    """Put the section behind the client's own instructions, so that their cached prefix survives."""
    leading: list[Span] = []
    for span in request.messages:
        if request.role(span) not in ("system", "developer"):
            break
        leading.append(span)
    role = request.role(leading[-1]) if leading else "system"
    if leading:
        grown = _grow(request, leading[-1], section)
        if grown is not None:
            return [grown]
    message = msgspec.json.encode({"role": role, "content": section})
    if leading:
        return [Edit(leading[-1].end, leading[-1].end, b"," + message)]
    at = request.top["messages"].start + 1
    return [Edit(at, at, message + (b"," if request.messages else b""))]


def _grow(request: ChatRequest, span: Span, section: str) -> Edit | None:
    """Lengthen a message's content; None where it has none of a known shape, or two."""
    contents: list[Member] = [m for m in request.members_of(span) if m.key == "content"]
    if len(contents) != 1:
        return None
    start, end = contents[0].value
    first = request.body[start : start + 1]
    if first == b'"':
        # In front of the closing quote, as one more paragraph.
        return Edit(end - 1, end - 1, quote("\n\n" + section)[1:-1])
    if first == b"[":
        part = msgspec.json.encode({"type": "text", "text": section})
        comma = b"," if elements(request.body, Span(start, end)) else b""
        return Edit(end - 1, end - 1, comma + part)
    return None


def extend(body: bytes, turn: bytes) -> bytes:
    """Add history messages at the end of `messages`."""
    request = ChatRequest(body)
    at = request.messages[-1].end if request.messages else request.top["messages"].start + 1
    return apply(body, [Edit(at, at, (b"," if request.messages else b"") + turn)])

"""The soft layer for chat completions: what the model is shown in a mode, as edits of spans."""

from __future__ import annotations

from itertools import takewhile

import msgspec

from modegate.core.dialects.chat.answer.visible_text import TELL
from modegate.core.dialects.chat.request.parsing import ChatRequest
from modegate.core.dialects.common import hosted
from modegate.core.dialects.common.texts import grow
from modegate.core.dialects.common.tool_filter import (
    EXIT_PARAMETERS,
    Filtered,
    bridged,
    choice_edits,
    exit_edit,
    keep_edits,
    may_stay,
    names_of,
)
from modegate.core.dialects.common.tools import Declared
from modegate.core.policy.in_force import ModesInForce
from modegate.core.policy.model import EXIT_TOOL, NO_TOOL
from modegate.core.step import exit_tool
from modegate.core.step.dialect import Assembled
from modegate.core.wire.json_spans import Edit, apply, without_members

INERT_TOOL = {
    "type": "function",
    "function": {
        "name": NO_TOOL,
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


def assemble(request: ChatRequest, in_force: ModesInForce, section: str) -> Assembled:
    hosted.refuse(request, in_force)
    hosted.refuse_tools_in(request.history, "messages", in_force)
    leave = exit_tool.exit_of(in_force)
    native = bridged(request, request.tools, leave, "function", "parameters")
    tools = _filter(request, "tools", request.tools, in_force, native)
    functions = _filter(request, "functions", request.functions, in_force, None)
    if leave is not None and request.tools and native is None:
        tools = _with_exit(request, "tools", request.tools, tools)
    elif leave is not None and request.functions:
        functions = _with_exit(request, "functions", request.functions, functions)
    drop = hosted.removable(request, in_force) | tools.drop | functions.drop
    edits = [*tools.edits, *functions.edits, *without_members(request.members, drop)]
    if section:
        edits += section_edits(request, section)
    kept = dict.fromkeys(tools.kept + functions.kept)
    name = native.names[0] if native else None
    return Assembled(apply(request.body, edits), tuple(kept), name, tools.beside)


def _filter(
    request: ChatRequest,
    key: str,
    declared: list[Declared],
    in_force: ModesInForce,
    native: Declared | None,
) -> Filtered:
    kept = [tool for tool in declared if tool is native or may_stay(tool, in_force)]
    if declared and not kept:
        if key != "tools" or not request.call_ids:
            return Filtered([], drop=GO_TOGETHER[key])
        inert = Edit(declared[0].span.start, declared[-1].span.end, msgspec.json.encode(INERT_TOOL))
        choice = choice_edits(request, CHOICE_KEYS[key], frozenset())
        return Filtered([inert, *choice], beside=(NO_TOOL,))
    names = names_of(kept)
    edits = keep_edits(request, declared, kept)
    edits += choice_edits(request, CHOICE_KEYS[key], frozenset(names))
    return Filtered(edits, names)


def _with_exit(
    request: ChatRequest, key: str, declared: list[Declared], filtered: Filtered
) -> Filtered:
    """Add the exit tool behind what was kept, or in the place of all that was not."""
    names = (*filtered.kept, EXIT_TOOL)
    added = exit_edit(declared, EXIT_ENTRIES[key], any_kept=bool(filtered.kept))
    if filtered.kept:
        return Filtered([*filtered.edits, added], names)
    # Nothing that the agent asks for is left, so a choice of its cannot be kept either.
    return Filtered([added, *choice_edits(request, CHOICE_KEYS[key], frozenset())], names)


def section_edits(request: ChatRequest, section: str) -> list[Edit]:
    """Put the section behind the client's own instructions, so that their cached prefix survives."""
    leading = list(takewhile(lambda span: request.role(span) in TELL, request.messages))
    grown = grow(request, leading[-1], section) if leading else None
    if grown is not None:
        return [grown]
    role = request.role(leading[-1]) if leading else "system"
    message = msgspec.json.encode({"role": role, "content": section})
    if leading:
        return [Edit(leading[-1].end, leading[-1].end, b"," + message)]
    at = request.top["messages"].start + 1
    return [Edit(at, at, message + (b"," if request.messages else b""))]


_EXIT = {"name": EXIT_TOOL, "description": exit_tool.DESCRIPTION, "parameters": EXIT_PARAMETERS}
EXIT_ENTRIES = {
    "tools": msgspec.json.encode({"type": "function", "function": _EXIT}),
    "functions": msgspec.json.encode(_EXIT),
}
"""The exit tool's definition: the same bytes in every session, at the end of the list."""

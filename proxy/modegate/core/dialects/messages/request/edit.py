"""The soft layer for Messages: what the model is shown in a mode, as edits of spans."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from modegate.core.dialects.common import tool_filter
from modegate.core.dialects.common.texts import grow_value
from modegate.core.dialects.common.tool_filter import Filtered, exit_edit, keep_edits, names_of
from modegate.core.dialects.messages.request import hosted, tool_references
from modegate.core.dialects.messages.request.mcp import Servers
from modegate.core.dialects.messages.request.parsing import MessagesRequest
from modegate.core.dialects.messages.request.tools import Tool, may_stay, names_in_choice
from modegate.core.errors import BadRequest
from modegate.core.ids import ToolName
from modegate.core.policy.in_force import ModesInForce
from modegate.core.policy.model import EXIT_TOOL, NATIVE_EXITS, NO_TOOL
from modegate.core.step import exit_tool
from modegate.core.step.dialect import Assembled
from modegate.core.wire.json_spans import Edit, Span, apply, quote, without, without_members

INERT_ENTRY = msgspec.json.encode(
    {
        "name": NO_TOOL,
        "description": "No tool can be used in this mode. Calls of this one are refused.",
        "input_schema": {"type": "object", "properties": {}, "additionalProperties": False},
    }
)
"""Stands in where the API wants a tool and none is left: for calls in the history, beside deferred tools."""

DIRECT = "direct"
"""In `allowed_callers`: the model itself, and no code at the provider."""


@dataclass(frozen=True, slots=True)
class _RemainingTools:
    """The definitions that stay."""

    tools: list[Tool]
    inline: list[Tool]

    @property
    def names(self) -> frozenset[ToolName]:
        """What the model can choose from."""
        return frozenset(name for tool in self.usable for name in tool.names)

    @property
    def usable(self) -> list[Tool]:
        return [tool for tool in (*self.tools, *self.inline) if not tool.placeholder]

    @property
    def placeholders(self) -> tuple[ToolName, ...]:
        return names_of([tool for tool in (*self.tools, *self.inline) if tool.placeholder])


def assemble(request: MessagesRequest, in_force: ModesInForce, section: str) -> Assembled:
    if not in_force.gated:
        return Assembled(request.body, names_of([*request.tools, *request.inline]))
    servers = Servers(request, in_force)
    hosted.refuse(request, in_force, servers)
    leave = exit_tool.exit_of(in_force)
    own = [tool for tool in request.tools if not tool.hosted]
    native = tool_filter.bridged(request, own, leave, "input_schema")

    def stays(tool: Tool) -> bool:
        if tool.toolset:
            return servers.toolset_stays(tool.span)
        return tool is native or (may_stay(tool, in_force) and _callable(request, tool, in_force))

    # A server's tools cannot be told from a definition within the messages.
    inline = [tool for tool in request.inline if not tool.toolset or servers.every]
    kept = _RemainingTools(list(filter(stays, request.tools)), list(filter(stays, inline)))
    ours = leave is not None and native is None and request.declares_tools
    tools = _with_exit(request, kept) if ours else _filtered(request, kept)
    drop = hosted.removable(request, in_force, servers) | tools.drop
    edits = [
        *without_members(request.members, drop),
        *tools.edits,
        *hosted.server_edits(request, servers),
        *_caller_edits(request, kept, in_force),
        *tool_references.edits(request, request.contents, _stays(request, kept, in_force, servers)),
    ]
    if section:
        edits += section_edits(request, section)
    name = native.names[0] if native else None
    names = tuple(dict.fromkeys(tools.kept))
    return Assembled(apply(request.body, edits), names, name, tools.beside)


def _filtered(request: MessagesRequest, kept: _RemainingTools) -> Filtered:
    """Keep what stays, and see to it that the API has a tool where it wants one."""
    declared = request.tools
    names = names_of(kept.usable)
    if request.declares_tools and not kept.usable:
        if not declared or not request.holds_tool_blocks:
            return Filtered([], drop=frozenset({"tools", "tool_choice"}))
        inert = exit_edit(declared, INERT_ENTRY, any_kept=False)
        return Filtered([inert, *choice_edits(request, frozenset())], beside=(NO_TOOL,))
    edits = choice_edits(request, kept.names) if request.declares_tools else []
    if not declared:
        return Filtered(edits, names, beside=kept.placeholders)
    loaded = [tool for tool in kept.tools if not tool.deferred]
    if loaded:
        edits += keep_edits(request, declared, kept.tools, markable=loaded)
        return Filtered(edits, names, beside=kept.placeholders)
    # The API refuses a list in which every tool is deferred.
    edits += _beside(request, kept, INERT_ENTRY)
    return Filtered(edits, names, beside=(*kept.placeholders, NO_TOOL))


def _with_exit(request: MessagesRequest, kept: _RemainingTools) -> Filtered:
    """Add the exit tool behind what was kept, or in the place of all that was not."""
    edits = [*choice_edits(request, kept.names), *_beside(request, kept, EXIT_ENTRY)]
    return Filtered(edits, (*names_of(kept.usable), EXIT_TOOL), beside=kept.placeholders)


def _beside(request: MessagesRequest, kept: _RemainingTools, entry: bytes) -> list[Edit]:
    """Return the edits that leave what is kept and an entry of ours behind it."""
    if not request.tools:
        return [request.set_member("tools", b"[" + entry + b"]")]
    added = exit_edit(request.tools, entry, any_kept=bool(kept.tools))
    if not kept.tools:
        return [added]
    loaded = [tool for tool in kept.tools if not tool.deferred]
    return [*keep_edits(request, request.tools, kept.tools, markable=loaded), added]


def _stays(
    request: MessagesRequest, kept: _RemainingTools, in_force: ModesInForce, servers: Servers
) -> tool_references.Stays:
    gone = request.declared - kept.names
    starts = {tool.span.start for tool in kept.inline}

    def tool(name: str) -> bool:
        if name in kept.names:
            return True
        # What the agent refers to without declaring it is between it and the API.
        return name not in gone and name not in NATIVE_EXITS and in_force.may_offer(ToolName(name))

    return tool_references.Stays(tool, servers.__contains__, lambda span: span.start in starts)


def _callers(request: MessagesRequest, tool: Tool) -> list[Span]:
    if tool.callers is None or request.text(tool.callers) == b"null":
        return []
    return request.elements_of(tool.callers)


def _callable(request: MessagesRequest, tool: Tool, in_force: ModesInForce) -> bool:
    """Return whether anything may call a tool that code at the provider calls."""
    callers = _callers(request, tool)
    if not callers or in_force.may_run(hosted.CODE):
        return True
    return any(request.decode(span) == DIRECT for span in callers)


def _caller_edits(
    request: MessagesRequest, kept: _RemainingTools, in_force: ModesInForce
) -> list[Edit]:
    """Leave the model itself as the only caller, where code may not run."""
    if in_force.may_run(hosted.CODE):
        return []
    edits: list[Edit] = []
    for tool in (*kept.tools, *kept.inline):
        spans = _callers(request, tool)
        drop = {index for index, span in enumerate(spans) if request.decode(span) != DIRECT}
        edits += without(spans, drop)
    return edits


def section_edits(request: MessagesRequest, section: str) -> list[Edit]:
    """Put the section behind the client's own instructions, so that their cached prefix survives."""
    span = request.top.get("system")
    if span is None or request.text(span) in (b"null", b'""'):
        return [request.set_member("system", quote(section))]
    grown = grow_value(request, span, section)
    if grown is None:
        raise BadRequest("'system' is neither a string nor a list of blocks")
    return [grown]


EXIT_ENTRY = msgspec.json.encode(
    {
        "name": EXIT_TOOL,
        "description": exit_tool.DESCRIPTION,
        "input_schema": tool_filter.EXIT_PARAMETERS,
    }
)
"""The exit tool's definition: the same bytes in every session, at the end of the list."""


KEY = "tool_choice"
PARALLEL = "disable_parallel_tool_use"


def choice_edits(request: MessagesRequest, kept: frozenset[ToolName]) -> list[Edit]:
    """Relax a choice of a tool that is not there, or of any; raises `BadRequest` if a key is there twice."""
    span = request.top.get(KEY)
    if span is None:
        return []
    relaxed = b'{"type":"auto"}'
    if request.text(span)[:1] == b"{":
        for key in ("type", "name"):
            request.member_of(span, key)
        parallel = request.member_of(span, PARALLEL)
        if parallel is not None:
            relaxed = b'{"type":"auto","%b":%b}' % (PARALLEL.encode(), request.text(parallel))
    return tool_filter.choice_edits(request, KEY, kept, relaxed=relaxed, names=names_in_choice)

"""The soft layer for Responses: what the model is shown in a mode, as edits of spans."""

from __future__ import annotations

from functools import partial
from itertools import product

import msgspec

from modegate.core.dialects.common import hosted
from modegate.core.dialects.common.texts import grow_value
from modegate.core.dialects.common.tool_filter import choice_edits
from modegate.core.dialects.common.tools import OWN_TYPES, text_or_raw, tool_names
from modegate.core.dialects.responses.request import hosted as carried
from modegate.core.dialects.responses.request.parsing import ADDITIONAL, MESSAGE, ResponsesRequest
from modegate.core.dialects.responses.request.tool_lists import FilteredTools, bridged, keep
from modegate.core.dialects.responses.request.tools import MCP, NAMESPACE, mcp_name, policy_name
from modegate.core.ids import ToolName
from modegate.core.policy.in_force import ModesInForce
from modegate.core.policy.model import EXIT_TOOL
from modegate.core.step import exit_tool
from modegate.core.step.dialect import Assembled
from modegate.core.wire.json_spans import Edit, Span, apply, members, without, without_members

GO_TOGETHER = frozenset({"tools", "tool_choice", "parallel_tool_calls"})
"""What goes when nothing is left: providers refuse a choice among none."""


def assemble(request: ResponsesRequest, in_force: ModesInForce, section: str) -> Assembled:
    hosted.refuse(request, in_force)
    carried.refuse(request, in_force)
    leave = exit_tool.exit_of(in_force)
    native = bridged(request, leave)
    kept = keep(request, in_force, native, exit_too=leave is not None and native is None)
    drop = hosted.removable(request, in_force) | _dropped(request, kept)
    edits = [*kept.edits, *without_members(request.members, drop)]
    edits += without([item.span for item in request.items], set(kept.dropped))
    if "tool_choice" not in drop:
        names = partial(choice_names, open_labels=kept.open_labels)
        edits += choice_edits(request, "tool_choice", kept.choices, names=names)
    if section:
        edits += section_edits(request, section, in_force.section_in, kept.dropped)
    added = (EXIT_TOOL,) if kept.exit else ()
    name = native.names[0] if native else None
    return Assembled(apply(request.body, edits), (*kept.names, *added), name)


def _dropped(request: ResponsesRequest, kept: FilteredTools) -> frozenset[str]:
    if request.declares_tools and not kept.tools and not kept.exit:
        return GO_TOGETHER
    return frozenset({"tools"}) if kept.emptied else frozenset()


def section_edits(
    request: ResponsesRequest, section: str, section_in: str, dropped: frozenset[int] = frozenset()
) -> list[Edit]:
    """Put the section behind the client's own instructions, so that their cached prefix survives.

    That is at the end of `instructions`, or a message behind the leading ones of the developer. `dropped`
    are the items that go. Where the provider may keep the history, a message would stay in it for ever,
    also behind the mode, so there it is `instructions`, which are not kept.
    """
    instructs = request.instructions is not None or request.may_be_kept or not request.items
    if section_in == "instructions" and instructs:
        return _instruct(request, section)
    at, role = _behind_leading(request)
    content = [{"type": "input_text", "text": section}]
    message = msgspec.json.encode({"type": MESSAGE, "role": role, "content": content})
    return insert_items(request, at, message, dropped)


def _instruct(request: ResponsesRequest, section: str) -> list[Edit]:
    span = request.top.get("instructions")
    if span is None or request.instructions is None or request.text(span) == b'""':
        return [request.set_member("instructions", msgspec.json.encode(section))]
    grown = grow_value(request, span, section)
    return [grown] if grown else []


def _behind_leading(request: ResponsesRequest) -> tuple[int, str]:
    """Return the index behind the leading instructions, and the role in which they are given."""
    role = "developer"
    for index, item in enumerate(request.items):
        if item.kind == MESSAGE and item.role in ("system", "developer"):
            role = item.role
        elif item.kind != ADDITIONAL:
            return index, role
    return len(request.items), role


def insert_items(
    request: ResponsesRequest, at: int, added: bytes, dropped: frozenset[int] = frozenset()
) -> list[Edit]:
    """Put items into `input` in front of the one with this index; the number of items means behind all.

    A plain string becomes a list, of which it is the only message. `added` are items with commas between;
    `dropped` are the indices of items that other edits take out.
    """
    if request.string_input and request.input is not None:
        start, end = request.input
        opening, closing = b'{"type":"message","role":"user","content":', b"}"
        front, behind = (added + b",", b"") if at == 0 else (b"", b"," + added)
        return [Edit(start, start, b"[" + front + opening), Edit(end, end, closing + behind + b"]")]
    if request.input is None:
        return [request.set_member("input", b"[" + added + b"]")]
    stay = [index for index in range(len(request.items)) if index not in dropped]
    before = [index for index in stay if index < at]
    if before:
        end = request.items[before[-1]].span.end
        return [Edit(end, end, b"," + added)]
    if stay:
        start = request.items[stay[0]].span.start
        return [Edit(start, start, added + b",")]
    start = request.input.start + 1
    return [Edit(start, start, added)]


def extend(request: ResponsesRequest, turn: bytes) -> bytes:
    """Add items, with commas between, at the end of `input`."""
    return apply(request.body, insert_items(request, len(request.messages), turn))


def choice_names(text: bytes, span: Span, open_labels: frozenset[str]) -> set[ToolName]:
    """Return every name in a tool choice, or in an entry of `allowed_tools`, as `Tool.choices` has them.

    An agent's own tool is named as a policy knows it, or by its plain name; a namespace is `namespace:NAME`,
    an MCP server `mcp:LABEL`, what has a type of its own its type. Of a server in `open_labels` every tool
    may be chosen. Raises `ValueError` if it is not an object.
    """
    found: dict[str, list[str]] = {"type": [], "name": [], "namespace": [], "server_label": []}
    names: set[str] = set()
    for member in members(text, span):
        if member.key not in found:
            names.update(tool_names(text, span))  # whatever a server could make of it
        elif text[member.value.start : member.value.end] != b"null":
            found[member.key].append(text_or_raw(text, member.value))
    for kind in found["type"] or ["function"]:
        names.update(_chosen(kind, found, open_labels))
    return {ToolName(name) for name in names}


def _chosen(kind: str, found: dict[str, list[str]], open_labels: frozenset[str]) -> set[str]:
    labels, named = found["server_label"], found["name"]
    names: set[str] = set()
    if kind == MCP:
        names.update(f"{MCP}:{label}" for label in labels)
        closed = [label for label in labels if label not in open_labels]
        names.update(mcp_name(label, name) for label, name in product(closed, named))
    elif kind == NAMESPACE:
        names.update(f"{NAMESPACE}:{name}" for name in named)
    else:
        spaces = found["namespace"] or [""]
        names.update(policy_name(space, name) for space, name in product(spaces, named))
    # A type that the agent does not run is a name too, and where nothing is named, nothing is there.
    return names if names and kind in {MCP, NAMESPACE, *OWN_TYPES} else {*names, kind}

"""The calls of an answer, the agent's and the provider's, read as the blocks that they are."""

from __future__ import annotations

from typing import Any

from modegate.core.dialects.common.call_members import ambiguity
from modegate.core.dialects.messages.answer import parsing
from modegate.core.dialects.messages.answer.answer_items import (
    CALL,
    SHOWN,
    TEXT,
    THINKING,
    Block,
    MessageRead,
)
from modegate.core.dialects.messages.request.hosted import CODE, PARTS
from modegate.core.step.answer.calls import Gathered
from modegate.core.step.reasons import Reason
from modegate.core.wire.arguments import has_half

MCP = "mcp"
"""The tool that stands for every call of a remote MCP server."""

_MADE_BY = {"container_upload": CODE}
"""Blocks in which the provider gives what a tool of its own has made."""

_RUN_BY_PROVIDER = frozenset({"server_tool_use", "mcp_tool_use"})
_RESULT = "_tool_result"
_CALL_MEMBERS = frozenset({"type", "id", "name", "input"})
_CALL = _CALL_MEMBERS | {"toolset_name"}
_OWN = _CALL | {"server_name", "tool_use_id", "content"}


def begin_block(start: dict[str, Any], read: MessageRead) -> Block:
    """Begin a block that comes, and note the call that it is, if it is one."""
    kind = start.get("type")
    name = kind if isinstance(kind, str) else ""
    if name in SHOWN:
        return _shown(name, start, read)
    if name.endswith(_RESULT):
        use = start.get("tool_use_id")
        call = next((call for call in read.calls if call.ran and call.id == use), None)
        call = call or _ran(start, name.removesuffix(_RESULT), read)
        call.has_run = True
        return Block(name, start, call)
    if name in _RUN_BY_PROVIDER:
        return Block(name, start, _ran(start, _hosted_name(start), read))
    if name == CALL:
        return Block(name, start, _call(start, read))
    if name in _MADE_BY:
        made = _ran(start, _MADE_BY[name], read)
        made.has_run = True
        return Block(name, start, made)
    unknown = _ran(start, name, read)
    unknown.odd = Reason.UNKNOWN_TYPE
    return Block(name, start, unknown)


def _shown(kind: str, start: dict[str, Any], read: MessageRead) -> Block:
    block = Block(kind, start)
    for key in (TEXT, THINKING):
        text = start.get(key)
        if key == kind and isinstance(text, str) and text:
            read.add_text(block, text)
    signature = start.get("signature")
    if isinstance(signature, str) and signature:
        block.sign(signature)
    return block


def _call(start: dict[str, Any], read: MessageRead) -> Gathered:
    call = _new(start, read)
    # A member of a toolset is named by two words, and agents differ in which of them they go by.
    for key in ("toolset_name", "name"):
        name = start.get(key)
        if isinstance(name, str) and name:
            call.names.append(name)
        elif name is not None or key == "name":
            call.odd = Reason.MEMBER_NO_NAME.with_(repr(key))
    call.odd = call.odd or ambiguity(start, _CALL)
    call.extra = {
        key: value
        for key, value in start.items()
        if key not in _CALL_MEMBERS and not ambiguity({key: value}, _CALL)
    }
    return call


def _ran(start: dict[str, Any], name: str, read: MessageRead) -> Gathered:
    call = _new(start, read)
    call.ran = True
    call.family = MCP if name.startswith("mcp_") else ""
    call.names.append(PARTS.get(name, name) or "unknown")
    call.odd = ambiguity(start, _OWN, beside=None)
    return call


def _hosted_name(start: dict[str, Any]) -> str:
    name, server = start.get("name"), start.get("server_name")
    if start.get("type") == "mcp_tool_use":
        return f"mcp__{server}__{name}"
    return name if isinstance(name, str) else ""


def _new(start: dict[str, Any], read: MessageRead) -> Gathered:
    call = Gathered(0, "function")
    name = start.get("id")
    if isinstance(name, str):
        call.id = name
    elif name is not None:
        call.odd = Reason.ID_NO_STRING
    # LangChain puts the pieces of a call without an id together as another one, which has no arguments.
    call.restarts = not call.id
    read.calls.append(call)
    return call


def begin_input(block: Block, data: bytes) -> None:
    """Take the arguments that a call begins with: mostly none, from some servers all of them."""
    if block.call is None or block.kind in SHOWN or "input" not in block.start:
        return
    value = block.start["input"]
    if isinstance(value, dict):
        if value:
            block.call.pieces.append(parsing.raw_input(parsing.block_data(data)))
            block.complete = True
    elif value not in (None, ""):
        block.call.odd = Reason.ARGUMENTS_NO_OBJECT


def add_input(block: Block, piece: str) -> None:
    """Take a piece of a call's arguments."""
    call = block.call
    if call is None or not piece:
        return
    if block.complete:
        call.odd = Reason.ARGUMENTS_TWICE
    call.pieces.append(piece)
    call.split = call.split or has_half(piece)

"""The content blocks of an answer: gathered as they come, told again to the model as they were.

An answer of this API is one ordered list of blocks. What the client gets of it is that list without the
calls that were not released, and without what the provider ran and no rule allows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

from modegate.core.dialects.common.call_members import second
from modegate.core.dialects.messages.request.hosted import CODE, PARTS
from modegate.core.ids import CallId
from modegate.core.log.events import Segment
from modegate.core.step.answer.calls import SIGNATURE, Gathered, digest
from modegate.core.step.answer.parts import ChoiceRead, Refused
from modegate.core.step.reasons import Reason
from modegate.core.wire.arguments import parse_arguments

TEXT = "text"
THINKING = "thinking"
CALL = "tool_use"
"""The agent runs it, be it a tool of its own or one that Anthropic defines."""

SHOWN = frozenset(
    {TEXT, THINKING, "redacted_thinking", "compaction", "fallback", "mcp_tool_listing"}
)
"""Blocks that nobody runs: they go to the client as they come."""

_MADE_BY = {"container_upload": CODE}
"""Blocks in which the provider gives what a tool of its own has made."""

DELTAS = {
    TEXT: frozenset({"text_delta", "citations_delta"}),
    THINKING: frozenset({"thinking_delta", "signature_delta"}),
    "compaction": frozenset({"compaction_delta"}),
}
"""What a block is made of, beside `input_json_delta` for calls."""

MCP = "mcp"
"""The tool that stands for every call of a remote MCP server."""

CUT = "cut"
"""Kind of a segment: thinking that was never finished, so that no provider takes it back."""

_RUN_BY_PROVIDER = frozenset({"server_tool_use", "mcp_tool_use"})
_RESULT = "_tool_result"
_CALL_MEMBERS = frozenset({"type", "id", "name", "input"})
_CALL = _CALL_MEMBERS | {"toolset_name"}
_OWN = _CALL | {"server_name", "tool_use_id", "content"}
_BAD_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_TWO = 2
_encode = msgspec.json.encode


@dataclass(eq=False, slots=True)
class Block:
    """One content block."""

    kind: str
    start: dict[str, Any]
    """As it began; whole, where the answer is one JSON body."""
    call: Gathered | None = None
    """What decides whether the client gets it: a call, or for a result the call that it belongs to."""
    pieces: list[str] = field(default_factory=list)
    """Of text, thinking or a summary."""
    signatures: list[str] = field(default_factory=list)
    citations: list[Any] = field(default_factory=list)
    complete: bool = False
    """Its arguments stood in its beginning."""
    closed: bool = False
    strange: bool = False
    """Something of it cannot be told again."""
    raw: bytes = b""
    """Its bytes, where the answer is one JSON body."""

    @property
    def said(self) -> str:
        """Its text."""
        return "".join(self.pieces)

    @property
    def signature(self) -> str:
        """What the provider signed it with; empty where it is not signed, or more than once."""
        return self.signatures[0] if len(self.signatures) == 1 else ""

    @property
    def signed(self) -> bool:
        """Whether its provider can tell that it is as it was."""
        return self.kind != THINKING or bool(self.signature)

    def sign(self, signature: str) -> None:
        """Note a signature; more than two tell no more than two."""
        self.signatures = [*self.signatures[:1], signature]

    @property
    def shown(self) -> bool:
        """Whether the client gets it."""
        return self.call is None or self.call.released

    @property
    def repeatable(self) -> bool:
        """Whether it can be told to the model again: providers refuse empty text and cut thinking."""
        if self.kind == TEXT:
            return bool(self.said.strip())
        if self.kind == THINKING:
            return self.closed and len(self.signatures) < _TWO and not self.strange
        return not self.strange

    def encoded(self) -> bytes:
        """Return it as it stands in the history."""
        if self.raw:
            return self.raw
        value = dict(self.start)
        if self.call is not None and "input" in value:
            value["input"] = _input(self.call)
        elif self.kind == TEXT:
            value["text"] = self.said
            if self.citations:
                value["citations"] = [*(value.get("citations") or ()), *self.citations]
        elif self.kind == THINKING:
            value["thinking"] = self.said
            if self.signatures or "signature" in value:
                value["signature"] = self.signature
        elif self.kind == "compaction" and self.pieces:
            value["content"] = self.said
        return _encode(value)

    def segment(self) -> Segment | None:
        """Return what the client gets, for the log; None where that is nothing that it would keep."""
        if self.kind == TEXT:
            text = self.said.strip()
            return Segment(TEXT, len(text), digest(text)) if text else None
        if self.kind == CALL:
            name = self.call.id if self.call else ""
            return Segment(CALL, 1, digest(name), (CallId(name),))
        if self.kind == THINKING and not self.closed:
            return Segment(CUT, len(self.said), "")
        return Segment(self.kind, len(self.said), mark(self.start | self._marks()))

    def _marks(self) -> dict[str, str]:
        found = {"thinking": self.said} if self.kind == THINKING else {}
        return found | ({"signature": self.signature} if self.signature else {})


def mark(block: dict[str, Any]) -> str:
    """Return the hash by which a block that is neither text nor the agent's call is known again."""
    for key in ("signature", "data", "tool_use_id", "id", "thinking"):
        value = block.get(key)
        if isinstance(value, str) and value:
            return digest(value)
    return digest(str(block.get("type")))


@dataclass(slots=True)
class MessageRead(ChoiceRead):
    """An answer as the ordered list of its blocks."""

    blocks: list[Block] = field(default_factory=list)

    def hear(self, block: Block, text: str) -> None:
        """Add a piece of a block's text, and keep it as long as the whole can be of use."""
        self.size += len(text)
        if self.whole:
            block.pieces.append(text)

    def cite(self, block: Block, citation: Any) -> None:
        """Add where a text is taken from, as long as the whole can be of use."""
        self.size += len(str(citation))
        if self.whole:
            block.citations.append(citation)

    def shown(self) -> list[Block]:
        """Return the blocks that the client gets."""
        return [block for block in self.blocks if block.shown]

    def released(self) -> list[Gathered]:
        """Return the calls that the client gets and runs."""
        return [call for call in self.calls if call.released and not call.ran]

    def segments(self) -> list[Segment]:
        """Return what the client gets, for the log: a segment for each block that it would keep."""
        return [one for block in self.shown() if (one := block.segment()) is not None]


def begin(start: dict[str, Any], read: MessageRead) -> Block:
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
            read.hear(block, text)
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
    call.odd = call.odd or second(start, _CALL)
    call.extra = {
        key: value
        for key, value in start.items()
        if key not in _CALL_MEMBERS and not second({key: value}, _CALL)
    }
    return call


def _ran(start: dict[str, Any], name: str, read: MessageRead) -> Gathered:
    call = _new(start, read)
    call.ran = True
    call.family = MCP if name.startswith("mcp_") else ""
    call.names.append(PARTS.get(name, name) or "unknown")
    call.odd = second(start, _OWN, beside=None)
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


def _input(call: Gathered) -> msgspec.Raw:
    # What does not parse would be refused by providers for ever after.
    readable = parse_arguments(call.arguments) is not None
    return msgspec.Raw(call.arguments.encode() if readable else b"{}")


def refused_block(one: Refused) -> dict[str, Any]:
    """Return a refused call as it stands in the history."""
    call = one.call
    return {
        "type": CALL,
        "id": acceptable(one.id),
        # Behind the name of its toolset, if it has one.
        "name": acceptable(call.names[-1] if call.names else ""),
        "input": _input(call),
        **call.extra,
    }


def result_block(one: Refused) -> dict[str, Any]:
    """Return our answer to a refused call; to one that stood in text there is no result, but words."""
    if one.call.text:
        return {"type": TEXT, "text": one.answer}
    result = {"type": "tool_result", "tool_use_id": acceptable(one.id), "content": one.answer}
    return result if one.approved else {**result, "is_error": True}


def acceptable(name: str) -> str:
    """Return an id or a name as the API takes it: letters, digits, `_` and `-`, at most 128.

    A signature in an id is litellm's, which takes it as it gave it.
    """
    head, sign, signature = name.partition(SIGNATURE)
    return (_BAD_NAME.sub("_", head)[:128] or "unknown") + sign + signature

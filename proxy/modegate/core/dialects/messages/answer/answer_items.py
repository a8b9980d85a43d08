"""The content blocks of an answer: gathered as they come, told again to the model as they were.

An answer of this API is one ordered list of blocks. What the client gets of it is that list without the
calls that were not released, and without what the provider ran and no rule allows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from modegate.core.ids import CallId
from modegate.core.log.events import Segment
from modegate.core.step.answer.calls import Gathered, digest
from modegate.core.step.answer.parts import ChoiceRead
from modegate.core.wire.arguments import parse_arguments

TEXT = "text"
THINKING = "thinking"
CALL = "tool_use"
"""The agent runs it, be it a tool of its own or one that Anthropic defines."""

TEXT_DELTAS = {"text_delta": TEXT, "thinking_delta": THINKING}
SHOWN = frozenset(
    {TEXT, THINKING, "redacted_thinking", "compaction", "fallback", "mcp_tool_listing"}
)
"""Blocks that nobody runs: they go to the client as they come."""

DELTAS = {
    TEXT: frozenset({"text_delta", "citations_delta"}),
    THINKING: frozenset({"thinking_delta", "signature_delta"}),
    "compaction": frozenset({"compaction_delta"}),
}
"""What a block is made of, beside `input_json_delta` for calls."""

CUT = "cut"
"""Kind of a segment: thinking that was never finished, so that no provider takes it back."""

_TWO = 2
_encode = msgspec.json.encode


@dataclass(eq=False, slots=True)
class Block:
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
    def text(self) -> str:
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
        return self.call is None or self.call.released

    @property
    def repeatable(self) -> bool:
        """Whether it can be told to the model again: providers refuse empty text and cut thinking."""
        if self.kind == TEXT:
            return bool(self.text.strip())
        if self.kind == THINKING:
            return self.closed and len(self.signatures) < _TWO and not self.strange
        return not self.strange

    def encoded(self) -> bytes:
        """Return it as it stands in the history."""
        if self.raw:
            return self.raw
        value = dict(self.start)
        if self.call is not None and "input" in value:
            value["input"] = input_of(self.call)
        elif self.kind == TEXT:
            value["text"] = self.text
            if self.citations:
                value["citations"] = [*(value.get("citations") or ()), *self.citations]
        elif self.kind == THINKING:
            value["thinking"] = self.text
            if self.signatures or "signature" in value:
                value["signature"] = self.signature
        elif self.kind == "compaction" and self.pieces:
            value["content"] = self.text
        return _encode(value)

    def segment(self) -> Segment | None:
        """Return what the client gets, for the log; None where that is nothing that it would keep."""
        if self.kind == TEXT:
            text = self.text.strip()
            return Segment(TEXT, len(text), digest(text)) if text else None
        if self.kind == CALL:
            name = self.call.id if self.call else ""
            return Segment(CALL, 1, digest(name), (CallId(name),))
        if self.kind == THINKING and not self.closed:
            return Segment(CUT, len(self.text), "")
        return Segment(self.kind, len(self.text), mark(self.start | self._marks()))

    def _marks(self) -> dict[str, str]:
        found = {"thinking": self.text} if self.kind == THINKING else {}
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

    def add_text(self, block: Block, text: str) -> None:
        """Add a piece of a block's text, and keep it as long as the whole can be of use."""
        self.size += len(text)
        if self.whole:
            block.pieces.append(text)

    def add_citation(self, block: Block, citation: Any) -> None:
        self.size += len(str(citation))
        if self.whole:
            block.citations.append(citation)

    def shown(self) -> list[Block]:
        return [block for block in self.blocks if block.shown]

    def released(self) -> list[Gathered]:
        return [call for call in self.calls if call.released and not call.ran]

    def segments(self) -> list[Segment]:
        return [one for block in self.shown() if (one := block.segment()) is not None]


def input_of(call: Gathered) -> msgspec.Raw:
    """Return a call's arguments as the history takes them."""
    # What does not parse would be refused by providers for ever after.
    readable = parse_arguments(call.arguments) is not None
    return msgspec.Raw(call.arguments.encode() if readable else b"{}")


@dataclass(eq=False, slots=True)
class MessagesFrame:
    raw: bytes
    data: bytes = b""
    event: bytes = b""
    kind: str = ""
    """The event's type; empty for a comment."""
    own: bool = False
    """It came in another form, so that its lines are ours."""
    index: int = 0
    reason: str | None = None
    """Why the answer ended, as this frame says."""
    usage: dict[str, Any] = field(default_factory=dict)
    """What the hop cost by now."""

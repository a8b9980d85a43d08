"""What one hop's answer has said: its items in order, and what of them is kept."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from modegate.core.dialects.common.texts import dicts_in
from modegate.core.dialects.responses.answer.calls import CALLS, ItemCall
from modegate.core.dialects.responses.answer.parsing import MAX_CALLS, MAX_ITEMS, MAX_KEPT
from modegate.core.errors import AnswerUnreadable
from modegate.core.ids import CallId
from modegate.core.log.events import Segment
from modegate.core.step.answer.calls import Gathered, digest
from modegate.core.step.answer.parts import MAX_TEXT, ChoiceRead


@dataclass(eq=False, slots=True)
class OutputItem:
    index: int
    """Its `output_index`, as the upstream says it."""
    place: int
    """How many items of the hop began before it."""
    type: str
    id: str
    call: ItemCall | None
    """None for text and reasoning."""
    raw: bytes = b""
    """The whole item, once it has ended."""
    pieces: list[str] = field(default_factory=list)
    """Its visible text."""
    seal: str = ""
    """What tells one reasoning from another."""
    ended: bool = False
    sealed: bool = False
    """It holds reasoning that only the provider can read, and that can be sent back anywhere."""
    open: bool = False
    """It holds reasoning that anybody can read, and not only a summary."""

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def shown(self) -> bool:
        return self.call is None or self.call.released

    def segment(self) -> Segment:
        if self.type in CALLS and self.call is not None:
            return Segment("calls", 1, digest(self.call.id), (CallId(self.call.id),))
        if self.type == "message":
            return Segment("text", len(self.text), digest(self.text.strip()))
        return Segment(self.type, 1, digest(self.seal or self.id))


@dataclass(slots=True)
class ResponsesRead(ChoiceRead):
    """What one hop's answer has said: its items in order."""

    items: list[OutputItem] = field(default_factory=list)
    id: str = ""
    """The response's."""
    kept: int = 0
    """Bytes of its items."""
    previous: Any = None
    """What it says that it goes on from."""
    stored: bool = True
    """Whether the provider keeps it; some keep nothing though they are asked to, and say so."""
    surely_stored: bool = False
    """The provider says that it keeps it; many servers of this API keep nothing and say nothing of it."""

    @property
    def whole(self) -> bool:
        """Whether all that was said is kept, so that it can be told to the model again."""
        return self.size <= MAX_TEXT and self.kept <= MAX_KEPT

    def released(self) -> list[Gathered]:
        return [call for call in self.calls if call.released and not call.ran]

    def segments(self) -> list[Segment]:
        return [out.segment() for out in self.items if out.shown]

    def add(self, out: OutputItem) -> OutputItem:
        """Take a new item. Raises `AnswerUnreadable` if there are too many."""
        if len(self.items) >= MAX_ITEMS:
            raise AnswerUnreadable(f"the upstream sent over {MAX_ITEMS} items")
        self.items.append(out)
        if out.call is not None:
            if len(self.calls) >= MAX_CALLS:
                raise AnswerUnreadable(f"the upstream sent over {MAX_CALLS} calls")
            self.calls.append(out.call)
        return out

    def head(self, response: dict[str, Any]) -> None:
        """Take what the response says of itself."""
        self.previous = response.get("previous_response_id")
        self.stored = self.stored and response.get("store") is not False
        self.surely_stored = self.stored and (self.surely_stored or response.get("store") is True)

    def piece(self, out: OutputItem, text: str) -> None:
        """Add a piece of visible text, and keep it as long as the whole can be of use."""
        self.size += len(text)
        if self.size <= MAX_TEXT:
            out.pieces.append(text)

    def end(self, out: OutputItem, item: dict[str, Any], raw: bytes) -> None:
        out.ended = True
        self.kept += len(raw)
        if self.kept <= MAX_KEPT:
            out.raw = raw
        if out.type == "message":
            said = "".join(texts_of(item))
            if said != out.text:
                self.size += max(0, len(said) - len(out.text))
                out.pieces = [said] if self.size <= MAX_TEXT else []
        elif out.type == "reasoning":
            out.sealed = bool(item.get("encrypted_content"))
            out.open = bool(item.get("content"))
            out.seal = seal_of(item)


def seal_of(item: dict[str, Any]) -> str:
    """Return what tells one reasoning item from another, also once its id is gone."""
    for key in ("encrypted_content", "summary", "content"):
        if item.get(key):
            return json.dumps(item[key], sort_keys=True)
    return str(item.get("id"))


def texts_of(item: dict[str, Any]) -> list[str]:
    content = item.get("content")
    if isinstance(content, str):
        return [content]
    texts = [part.get("text") or part.get("refusal") for part in dicts_in(content)]
    return [text for text in texts if isinstance(text, str)]

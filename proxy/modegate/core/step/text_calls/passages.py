"""The text of an answer in the pieces in which it came, each decided part by part and then told anew."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from modegate.core.step import texts
from modegate.core.step.answer.calls import Gathered
from modegate.core.step.text_calls.rules import TextCalls
from modegate.core.step.text_calls.scan import Decided, Scanner
from modegate.core.wire.json_spans import Edit, Span, apply, elements, members
from modegate.core.wire.sse import Frame, write_event
from modegate.core.wire.surrogates import without_lone_surrogates


@dataclass(eq=False, slots=True)
class Piece:
    """One string of an answer."""

    text: str
    fixed: bool = False
    """Nothing of it can be replaced."""
    stretches: list[tuple[str, Gathered | None, bool]] = field(default_factory=list)
    """Decided parts: plain or of a call, and whether the call ends with it."""
    done: int = 0
    """Characters that are decided."""

    @property
    def settled(self) -> bool:
        """Whether all of it may go, with or without its calls."""
        judged = all(call is None or not call.pending for _, call, _ in self.stretches)
        return self.done == len(self.text) and judged

    @property
    def shown(self) -> str:
        """What the client gets of it."""
        return "".join(
            text if call is None or call.released else texts.in_place(call.name) if last else ""
            for text, call, last in self.stretches
        )


@dataclass(eq=False, slots=True)
class Passage:
    """One text of an answer, as far as it is kept: a text block, for instance."""

    pieces: list[Piece] = field(default_factory=list)
    size: int = 0
    """Characters."""

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    def add(self, piece: Piece) -> None:
        self.pieces.append(piece)
        self.size += len(piece.text)


@dataclass(eq=False, slots=True)
class RunningText:
    """The running text of one choice."""

    scanner: Scanner
    rules: TextCalls
    ended: bool = False
    unended: bool = False
    waiting: deque[Piece] = field(default_factory=deque)
    place: Any = None
    """Where in the answer the current passage stands (`Spoken.place`)."""
    passage: Passage | None = None
    """The current passage, as far as it has come."""
    earlier: dict[str, list[Piece]] = field(default_factory=dict)
    """Earlier passages by their text."""

    def begin(self, place: Any) -> Passage:
        """Begin another passage, and keep the one that ended."""
        if self.passage is not None:
            self.earlier.setdefault(self.passage.text, self.passage.pieces)
        self.place, self.passage = place, Passage()
        self.scanner.begin_passage()
        return self.passage

    def said(self, text: str) -> list[Piece] | None:
        """Return the pieces in which a text has come; None if it has not."""
        found = self.earlier.get(text)
        if found is None and self.passage is not None and self.passage.size == len(text):
            found = self.passage.pieces if self.passage.text == text else None
        return found

    def take(self, decided: Sequence[Decided]) -> list[Gathered]:
        """Note in the pieces what was decided; return the calls that were found."""
        found: list[Gathered] = []
        for length, call in decided:
            left = length
            while left:
                piece = self.waiting[0]
                count = min(left, len(piece.text) - piece.done)
                left -= count
                text = piece.text[piece.done : piece.done + count]
                piece.stretches.append((text, call, not left))
                piece.done += count
                if piece.done == len(piece.text):
                    self.waiting.popleft()
            if call is not None:
                found.append(call)
        return found


_TEXT_KEYS = frozenset({"text", "content", "delta", "reasoning_content", "reasoning"})


def rewritten(frame: Frame, changes: Mapping[str, str]) -> Frame:
    if not changes or frame.data is None:
        return frame
    data = retold(frame.data, changes)
    at = frame.raw.rfind(frame.data)
    if at < 0:
        # It came over several lines, which JSON has only between its values.
        return Frame(write_event(data.replace(b"\n", b" "), frame.event), data, frame.event)
    raw = frame.raw[:at] + data + frame.raw[at + len(frame.data) :]
    return Frame(raw, data, frame.event)


def retold(data: bytes, changes: Mapping[str, str]) -> bytes:
    """Return a JSON text with other words in the place of these; without `logprobs`, which hold them too."""
    readable = without_lone_surrogates(data)
    start = len(data) - len(data.lstrip())
    return apply(data, _edits(readable, Span(start, len(data.rstrip())), "", changes))


def _edits(data: bytes, span: Span, key: str, changes: Mapping[str, str]) -> Iterator[Edit]:
    first = data[span.start : span.start + 1]
    if key == "logprobs" and first in (b"{", b"["):
        yield Edit(*span, b"null" if first == b"{" else b"[]")
    elif first == b"{":
        for member in members(data, span):
            yield from _edits(data, member.value, member.key, changes)
    elif first == b"[":
        for place in elements(data, span):
            yield from _edits(data, place, key, changes)
    elif first == b'"' and key in _TEXT_KEYS:
        text = msgspec.json.decode(data[span.start : span.end])
        if text in changes:
            yield Edit(*span, msgspec.json.encode(changes[text]))

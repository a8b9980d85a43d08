"""Holds back calls that stand in an answer's text, in front of everything that reads the answer.

Frames, or a whole body, are looked through for visible text. A frame goes on once all of its text is
decided and judged; of a call that was refused it goes on with our words in the call's place. So whatever
reads, writes and records answers sees only what the client gets, and needs to know nothing of such calls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from modegate.core.errors import AnswerUnreadable, ModegateError
from modegate.core.step import texts
from modegate.core.step.answer.calls import Gathered, arguments_hash
from modegate.core.step.answer.hold import over
from modegate.core.step.answer.parts import Spoken
from modegate.core.step.dialect import AnyDialect
from modegate.core.step.text_calls.scan import Decided, Scanner
from modegate.core.step.text_calls.shapes import TextCalls
from modegate.core.wire.json_spans import (
    Edit,
    Span,
    apply,
    elements,
    members,
    without_lone_surrogates,
)
from modegate.core.wire.sse import Frame

MAX_CALLS = 128
"""Calls in the text of one answer, as for those of the API."""

_TEXT_KEYS = frozenset({"text", "content", "delta", "reasoning_content", "reasoning"})

MAX_UNITS = 4 * 2**20
"""Characters of text with calls that are kept, to know them again where an answer repeats them."""


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
class _Unit:
    """One text of an answer, as far as it is kept."""

    pieces: list[Piece] = field(default_factory=list)
    size: int = 0
    """Characters."""

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(piece.text for piece in self.pieces)

    def add(self, piece: Piece) -> None:
        """Take what comes next."""
        self.pieces.append(piece)
        self.size += len(piece.text)


@dataclass(eq=False, slots=True)
class _Stream:
    """The running text of one choice."""

    scanner: Scanner
    rules: TextCalls
    ended: bool = False
    unended: bool = False
    waiting: deque[Piece] = field(default_factory=deque)
    place: Any = None
    """Which text it is that runs on."""
    unit: _Unit | None = None
    """That text, as far as it has come."""
    units: dict[str, list[Piece]] = field(default_factory=dict)
    """Texts that ran before it, each once."""

    def begin(self, place: Any) -> _Unit:
        """Take that another text begins, and keep the one that ran until now."""
        if self.unit is not None:
            self.units.setdefault(self.unit.text, self.unit.pieces)
        self.place, self.unit = place, _Unit()
        self.scanner.begin_unit()
        return self.unit

    def said(self, text: str) -> list[Piece] | None:
        """Return the pieces in which a text has come; None if it has not."""
        found = self.units.get(text)
        if found is None and self.unit is not None and self.unit.size == len(text):
            found = self.unit.pieces if self.unit.text == text else None
        return found

    def take(self, decided: Sequence[Decided]) -> list[Gathered]:
        """Share out what was decided among the pieces; gives new calls."""
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


@dataclass(eq=False, slots=True)
class _Held:
    """A frame on its way."""

    frame: Frame
    pieces: list[Piece] = field(default_factory=list)
    repeats: list[tuple[str, list[Piece]]] = field(default_factory=list)
    """Texts that say again what these pieces said."""
    failure: ModegateError | None = None

    @property
    def settled(self) -> bool:
        """Whether it may go on."""
        said = (piece for _, pieces in self.repeats for piece in pieces)
        return all(piece.settled for piece in self.pieces) and all(piece.settled for piece in said)

    def changes(self) -> dict[str, str]:
        """Return each text of which something is withheld, and what the client gets in its place.

        Raises:
            AnswerUnreadable: it is one that cannot be replaced.
        """
        found = {piece.text: piece.shown for piece in self.pieces if piece.shown != piece.text}
        for text, pieces in self.repeats:
            shown = "".join(piece.shown for piece in pieces)
            if shown != text:
                found[text] = shown
        said = (*self.pieces, *(piece for _, pieces in self.repeats for piece in pieces))
        if found and any(piece.fixed and piece.shown != piece.text for piece in said):
            raise AnswerUnreadable("a refused call stands in reasoning, which cannot be changed")
        return found


class TextGate:
    """What of one hop's answer may be read on."""

    def __init__(
        self, dialect: AnyDialect, rules: TextCalls, tails: dict[tuple[int, str], str], limit: int
    ) -> None:
        """Begin a hop; `tails` are the ends of the texts of the hop before, and become those of this one."""
        self._dialect = dialect
        self._rules = rules
        self._tails = tails
        self._limit = limit
        self._streams: dict[tuple[int, str], _Stream] = {}
        self._queue: deque[_Held] = deque()
        self._going: deque[_Held] = deque()
        """Frames that are decided, in front of those in the queue."""
        self._full = False
        """More would be held back than may be."""
        self.size = 0
        """Bytes that are held back."""
        self._found: list[Gathered] = []
        self._kept = 0

    @property
    def holding(self) -> bool:
        """Whether something is held back."""
        return bool(self._queue or self._going)

    @property
    def refused(self) -> bool:
        """Whether some call was refused."""
        return any(call.withheld for call in self._found)

    @property
    def unended(self) -> bool:
        """Whether a text has an open brace that no other hop may go on with."""
        return any(stream.unended for stream in self._streams.values())

    def to_judge(self) -> list[Gathered]:
        """Return the calls that wait for a verdict."""
        return [call for call in self._found if call.pending]

    def take(self, frame: Frame) -> None:
        """Take a frame of a stream."""
        held = _Held(frame.checked())
        self._queue.append(held)
        self.size += len(held.frame.raw)
        self._look(held)
        self._settle()
        self._full = self._full or (self.size > self._limit and not self.to_judge())

    def _look(self, held: _Held) -> None:
        frame = held.frame
        data = frame.data.strip() if frame.data is not None else b""
        if frame.odd or not data.startswith(b"{"):
            return
        try:
            spoken, ended = self._dialect.spoken(data, streamed=True)
        except ModegateError as error:
            held.failure = error
            return
        for one in spoken:
            self._say(held, one)
        for choice, voice in tuple(self._streams):
            if choice in ended:
                self._end((choice, voice))
        if len(self._found) > MAX_CALLS:
            held.failure = AnswerUnreadable(f"over {MAX_CALLS} calls stand in the answer's text")

    def end(self) -> None:
        """Take the end of the stream."""
        for who in self._streams:
            self._end(who)

    def passed(self) -> list[Gathered]:
        """Take that the client has got all frames so far; give the calls that it has whole."""
        self._queue.clear()
        self._going.clear()
        self.size, self._full = 0, False
        return self.to_judge()

    def ready(self) -> Iterator[Frame]:
        """Yield the frames that may be read on.

        Raises:
            ModegateError: the next one cannot be read, or too much is held back.
        """
        while self._going or self._settle():
            held = self._going[0]
            if held.failure is not None:
                raise held.failure
            self._going.popleft()
            yield _rewritten(held.frame, held.changes())
        if self._full:
            # What stands in front can wait for an end that never comes.
            raise over(self._limit)

    def _settle(self) -> bool:
        """Set apart what may go on, and tell whether there is any."""
        while self._queue and (self._queue[0].failure or self._queue[0].settled):
            held = self._queue.popleft()
            self.size -= len(held.frame.raw)
            self._going.append(held)
        return bool(self._going)

    def whole(self, body: bytes) -> None:
        """Take a body that is an answer as a whole.

        Raises:
            AnswerUnreadable: it is none, or leaves a doubt.
        """
        held = _Held(Frame(body, body))
        self._queue.append(held)
        for one in self._dialect.spoken(body, streamed=False)[0]:
            self._say(held, one)
        self.end()
        if len(self._found) > MAX_CALLS:
            raise AnswerUnreadable(f"over {MAX_CALLS} calls stand in the answer's text")

    def body(self) -> bytes:
        """Return the body once all of its calls have a verdict."""
        held = self._queue.popleft()
        changes = held.changes()
        return retold(held.frame.raw, changes) if changes else held.frame.raw

    def _say(self, held: _Held, one: Spoken) -> None:
        rules = self._rules.thoughts if one.voice else self._rules
        if not one.text or rules is None:
            return
        who = (one.choice, one.voice)
        stream = self._streams.get(who)
        if stream is None:
            scanner = Scanner(rules, one.choice, self._tails.pop(who, ""))
            stream = self._streams[who] = _Stream(scanner, rules)
        elif stream.ended:
            # Some servers go on behind a finish, and clients with them.
            if stream.unended:
                held.failure = AnswerUnreadable("the upstream goes on with a text that has ended")
            stream.scanner = Scanner(rules, one.choice, self._tails.pop(who, ""))
        stream.ended = False
        if one.repeats:
            self._repeat(held, stream, one)
            return
        piece = Piece(one.text, one.fixed)
        held.pieces.append(piece)
        unit = stream.unit
        if unit is None or one.place != stream.place:
            unit = stream.begin(one.place)
        self._kept += len(one.text)
        if self._kept <= MAX_UNITS:
            unit.add(piece)
        stream.waiting.append(piece)
        self._found += stream.take(stream.scanner.feed(one.text))

    def _repeat(self, held: _Held, stream: _Stream, one: Spoken) -> None:
        """Take a text that was said before, or that comes only now."""
        said = stream.said(one.text)
        if said is not None:
            # What comes behind it is no part of it.
            held.repeats.append((one.text, list(said)))
            return
        piece = Piece(one.text, one.fixed)
        alone = _Stream(Scanner(stream.rules, one.choice), stream.rules, waiting=deque([piece]))
        found = alone.take([*alone.scanner.feed(one.text), *alone.scanner.end()])
        stream.unended = stream.unended or alone.scanner.unended
        known = {_mark(call): call for call in self._found}
        same = {id(call): known.get(_mark(call), call) for call in found}
        piece.stretches = [
            (text, same[id(call)] if call is not None else None, last)
            for text, call, last in piece.stretches
        ]
        self._found += [call for call in found if same[id(call)] is call]
        held.repeats.append((one.text, [piece]))

    def _end(self, who: tuple[int, str]) -> None:
        stream = self._streams[who]
        self._found += stream.take(stream.scanner.end())
        self._tails[who], stream.ended = stream.scanner.tail, True
        stream.unended = stream.unended or stream.scanner.unended


def _mark(call: Gathered) -> tuple[Any, ...]:
    return (*call.names, call.odd, call.split, arguments_hash(call.arguments))


def _rewritten(frame: Frame, changes: Mapping[str, str]) -> Frame:
    if not changes or frame.data is None:
        return frame
    data = retold(frame.data, changes)
    at = frame.raw.rfind(frame.data)
    if at < 0:
        # It came over several lines, which JSON has only between its values.
        name = b"event: %b\n" % frame.event if frame.event else b""
        return Frame(name + b"data: " + data.replace(b"\n", b" ") + b"\n\n", data, frame.event)
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

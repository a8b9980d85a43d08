"""Holds back calls that stand in an answer's text, in front of everything that reads the answer.

The visible text of frames, or of a whole body, is searched for calls. A frame goes on once all of its text
is decided and judged; in the place of a refused call it then has our words. So whatever reads, writes and
records answers sees only what the client gets, and needs to know nothing of such calls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from modegate.core.errors import AnswerUnreadable, ModegateError
from modegate.core.step.answer.calls import Gathered, arguments_hash
from modegate.core.step.answer.hold import over
from modegate.core.step.answer.parts import Spoken
from modegate.core.step.dialect import AnyDialect
from modegate.core.step.text_calls.passages import Piece, RunningText, retold, rewritten
from modegate.core.step.text_calls.rules import TextCalls
from modegate.core.step.text_calls.scan import Scanner
from modegate.core.wire.sse import Frame

MAX_CALLS = 128
"""Calls in the text of one answer, as for those of the API."""

MAX_KEPT = 4 * 2**20
"""Characters of text with calls that are kept, to know them again where an answer repeats them."""


@dataclass(eq=False, slots=True)
class HeldFrame:
    frame: Frame
    pieces: list[Piece] = field(default_factory=list)
    repeats: list[tuple[str, list[Piece]]] = field(default_factory=list)
    """Texts that say again what these pieces said."""
    failure: ModegateError | None = None

    @property
    def settled(self) -> bool:
        said = (piece for _, pieces in self.repeats for piece in pieces)
        return all(piece.settled for piece in self.pieces) and all(piece.settled for piece in said)

    def changes(self) -> dict[str, str]:
        """Return what stands for which withheld text; raises `AnswerUnreadable` if one cannot be replaced."""
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
        self._streams: dict[tuple[int, str], RunningText] = {}
        self._queue: deque[HeldFrame] = deque()
        self._going: deque[HeldFrame] = deque()
        """Frames that are decided, in front of those in the queue."""
        self._full = False
        """More would be held back than may be."""
        self.size = 0
        """Bytes that are held back."""
        self._found: list[Gathered] = []
        self._kept = 0

    @property
    def holding(self) -> bool:
        return bool(self._queue or self._going)

    @property
    def refused(self) -> bool:
        return any(call.withheld for call in self._found)

    @property
    def unended(self) -> bool:
        """Whether a text has an open brace that no other hop may go on with."""
        return any(stream.unended for stream in self._streams.values())

    def to_judge(self) -> list[Gathered]:
        return [call for call in self._found if call.pending]

    def take(self, frame: Frame) -> None:
        held = HeldFrame(frame.checked())
        self._queue.append(held)
        self.size += len(held.frame.raw)
        self._look(held)
        self._settle()
        self._full = self._full or (self.size > self._limit and not self.to_judge())

    def _look(self, held: HeldFrame) -> None:
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
            yield rewritten(held.frame, held.changes())
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
        """Take a whole answer; raises `AnswerUnreadable` if it is none, or leaves a doubt."""
        held = HeldFrame(Frame(body, body))
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

    def _say(self, held: HeldFrame, one: Spoken) -> None:
        rules = self._rules.thoughts if one.voice else self._rules
        if not one.text or rules is None:
            return
        who = (one.choice, one.voice)
        stream = self._streams.get(who)
        if stream is None:
            scanner = Scanner(rules, one.choice, self._tails.pop(who, ""))
            stream = self._streams[who] = RunningText(scanner, rules)
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
        passage = stream.passage
        if passage is None or one.place != stream.place:
            passage = stream.begin(one.place)
        self._kept += len(one.text)
        if self._kept <= MAX_KEPT:
            passage.add(piece)
        stream.waiting.append(piece)
        self._found += stream.take(stream.scanner.feed(one.text))

    def _repeat(self, held: HeldFrame, stream: RunningText, one: Spoken) -> None:
        """Take a text that was said before, or that comes only now."""
        said = stream.said(one.text)
        if said is not None:
            # What comes behind it is no part of it.
            held.repeats.append((one.text, list(said)))
            return
        piece = Piece(one.text, one.fixed)
        alone = RunningText(Scanner(stream.rules, one.choice), stream.rules, waiting=deque([piece]))
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

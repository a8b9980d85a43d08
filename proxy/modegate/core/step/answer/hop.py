"""The answer of one hop behind one face, fed, judged, complete; here the streamed kind.

Both kinds go through the same gate and the same decision on what comes next (L7).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Protocol

from modegate.core.errors import (
    AnswerUnreadable,
    ModegateError,
    Tightened,
    TooLarge,
    UpstreamFailed,
    bare,
)
from modegate.core.policy.model import Limits
from modegate.core.step.answer.calls import Gathered
from modegate.core.step.answer.hold import Hold
from modegate.core.step.answer.parts import ChoiceRead, Kind, Part, StreamReader, StreamWriter
from modegate.core.step.answer.straightener import Straightener
from modegate.core.step.text_calls.gate import TextGate
from modegate.core.wire.sse import Frame, FrameReader, hides_data


class HopAnswer(Protocol):
    """One hop's answer."""

    @property
    def choices(self) -> Mapping[int, ChoiceRead]:
        """What its choices have said."""
        ...

    @property
    def usage(self) -> Mapping[str, Any] | None:
        """What it cost, as far as the upstream said."""
        ...

    @property
    def complete(self) -> bool:
        """Whether it has ended and every call has its verdict."""
        ...

    @property
    def kept(self) -> int:
        """Bytes of it that are kept: what waits for its end, and what is held back."""
        ...

    @property
    def unread(self) -> int:
        """Bytes of it that the next ones may complete, so that they are read."""
        ...

    @property
    def unended(self) -> bool:
        """Whether no other hop may follow, as its text could make a call of this one's."""
        ...

    def feed(self, data: bytes) -> None:
        """Take bytes of the body."""
        ...

    failure: ModegateError | None
    """Why the answer cannot be read any further, once `advance` has found out."""

    doubt: ModegateError | None
    """The same of a lenient one: it may pass unread (`give_in`) if there is still no mode that forbids it."""

    @property
    def failed(self) -> bool:
        """Whether the upstream says that its answer failed."""
        ...

    @property
    def cut(self) -> bool:
        """Whether the bytes ended before the answer did."""
        ...

    def end(self) -> None:
        """Take the end of the body."""
        ...

    def advance(self) -> bytes:
        """Return what may go to the client now."""
        ...

    def give_in(self) -> None:
        """Let everything pass from here on: nobody can read it, and no mode forbids it."""
        ...

    def to_judge(self) -> list[Gathered]:
        """Return the calls that wait for a verdict."""
        ...


class StreamedHop:
    """A hop that arrives as server-sent events.

    A frame is read only after the verdicts that frames in front of it called for: what a call was when
    it was judged is what the client gets of it, however the bytes were cut.
    """

    def __init__(
        self,
        reader: StreamReader,
        writer: StreamWriter,
        limits: Limits,
        *,
        later: bool,
        lenient: bool = False,
        texts: TextGate | None = None,
    ) -> None:
        """Begin; in a later hop every finish waits for the end, as a log entry goes before it.

        A `lenient` one may pass what it cannot read as it came. `texts` holds back calls in plain text.
        """
        self._texts = texts
        self.straight: Straightener | None = None
        """What gives the stream of a loose server in the form that every client reads alike."""
        self._lenient = lenient
        self._raw = False
        self._unread = bytearray()
        """What passes without having been read."""
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader(limits.frame)
        self._waiting: deque[Frame] = deque()
        self.hold = Hold(reader, limits.held, defer=later)
        self._ended = False
        self._too_large: ModegateError | None = None
        self.failure: ModegateError | None = None
        self.doubt: ModegateError | None = None
        self.torn = b""
        """What the client has got, unread, of the frame that comes next."""
        self._mends = False
        """The next frame to be taken is that one."""
        self.over = False
        """The client has the answer's own end, as it came."""

    @property
    def choices(self) -> Mapping[int, ChoiceRead]:
        """What its choices have said."""
        return self._reader.choices

    @property
    def passes_unread(self) -> bool:
        """Whether the rest passes without being read, and no mode forbade it."""
        return self._raw

    @property
    def usage(self) -> Mapping[str, Any] | None:
        """What it cost."""
        return self._reader.usage

    @property
    def complete(self) -> bool:
        """Whether the end was reached, of the answer or of bytes that finished every choice."""
        return self.hold.done is not None or (self._ended and (self._raw or self._finished()))

    @property
    def failed(self) -> bool:
        """Whether it ended with an error of the upstream."""
        return self.hold.failed

    @property
    def cut(self) -> bool:
        """Whether the bytes ended before the answer did."""
        return self._ended and not self.complete and not self.to_judge()

    @property
    def kept(self) -> int:
        """Bytes of a frame that has not ended, and of what is held back."""
        texts = self._texts.size if self._texts is not None else 0
        aside = self.straight.waiting if self.straight is not None else 0
        return self._frames.waiting + self.hold.size + texts + aside

    @property
    def unread(self) -> int:
        """Bytes of a frame that has not ended."""
        return self._frames.waiting

    @property
    def unended(self) -> bool:
        """Whether its text has an open brace."""
        return self._texts is not None and self._texts.unended

    def _finished(self) -> bool:
        choices = self._reader.choices.values()
        held = self._texts is not None and self._texts.holding
        return (
            bool(choices)
            and all(choice.finish for choice in choices)
            and not (held or self.to_judge())
        )

    def _settled(self) -> bool:
        """Return whether something is left to decide on, or the answer's own end was reached."""
        refused = any(choice.refused() for choice in self._reader.choices.values())
        return refused or self.hold.done is not None or bool(self.to_judge())

    def feed(self, data: bytes) -> None:
        """Take bytes of the stream."""
        if self._raw:
            self._unread += data
            return
        try:
            self._take(self._frames.feed(data))
        except TooLarge as error:
            self._too_large = bare(error)

    def _take(self, frames: Iterable[Frame]) -> None:
        straight = self.straight
        for frame in frames:
            found = [frame] if straight is None else straight.take(frame.checked())
            if straight is not None and self._mends:
                # The client has its beginning, as it came.
                straight.passed()
                found, self._mends = [frame], False
            self._take_straight(found)

    def _take_straight(self, frames: Iterable[Frame]) -> None:
        if self._texts is None:
            self._waiting.extend(frames)
            return
        for frame in frames:
            self._texts.take(frame)

    def _next_frame(self) -> Frame | None:
        """Return the frame that is to be read next, if it may be read yet."""
        if not self._waiting and self._texts is not None:
            # One at a time: what cannot be read takes nothing with it that stands in front.
            self._waiting.extend(islice(self._texts.ready(), 1))
            # What follows depends on the refusal, so the finish waits as behind a refused call.
            self.hold.defer = self.hold.defer or self._texts.refused
        return self._waiting[0] if self._waiting else None

    def overtake(self, passed: Iterable[bytes]) -> tuple[list[Gathered], list[Gathered]]:
        """Read what the client has got already; give the calls that it has whole, and those under way.

        Raises:
            AnswerUnreadable, TooLarge: it cannot be read, so that nobody knows what may follow it.
        """
        parts: list[Part] = []
        read: list[tuple[Frame, list[Part]]] = []
        for piece in passed:
            for frame in self._frames.feed(piece):
                _check(frame)
                if hides_data(frame):
                    raise AnswerUnreadable("the client could have found a call beside the data")
                if self.straight is not None:
                    self.straight.take(frame.checked())
                if self._texts is not None:
                    self._texts.take(frame)
                new = self._reader.read(frame)
                self._writer.seen(new[-1])
                read.append((frame, new))
                parts += new
        if self.straight is not None:
            self.straight.passed()
        self.torn = self._frames.begun
        self._mends = bool(self.torn)
        self.over = any(part.kind is Kind.DONE for part in parts)
        ended = {id(call) for part in parts for call in part.ends}
        whole: list[Gathered] = []
        begun: list[Gathered] = []
        for choice in self._reader.choices.values():
            for call in choice.calls:
                (whole if choice.finish or id(call) in ended else begun).append(call)
        for call in (*whole, *begun, *(call for part in parts for call in part.calls)):
            call.released = True
            # It has gone in the pieces in which it came.
            call.again, call.loose = call.again or call.loose, False
        self._remember(read)
        spoken = self._texts.passed() if self._texts is not None else []
        return [*whole, *spoken], begun

    def _remember(self, read: Iterable[tuple[Frame, list[Part]]]) -> None:
        """Let the writer know what the client has, which must be what it would have written."""
        for frame, parts in read:
            if self._writer.write(parts) not in (b"", frame.raw):
                raise AnswerUnreadable("the client counts what it has in another way")

    def end(self) -> None:
        """Take the end of the bytes."""
        rest = self._frames.finish()
        try:
            if rest is not None:
                self._take([rest])
            if self.straight is not None:
                self._take_straight(self.straight.end())
        except TooLarge as error:
            self._too_large = bare(error)
        if self._texts is not None:
            self._texts.end()
        self._ended = True

    def advance(self) -> bytes:
        """Return what may go to the client now."""
        # Each frame is written before the next is read: what it becomes depends on those in front of it.
        out = [self._writer.write(self.hold.advance())]
        try:
            while not self._stops() and (frame := self._next_frame()) is not None:
                seen = frame if self._lenient else frame.checked()
                _check(seen)
                new = self._reader.read(seen)
                if self._lenient and new[0].kind is Kind.ERROR:
                    raise UpstreamFailed("the upstream says that its answer failed")
                self._writer.seen(new[0])
                if self.torn:
                    out.append(self._mend(new))
                    continue
                self._waiting.popleft()
                self.hold.take(new)
                out.append(self._writer.write(self.hold.advance()))
            self._check_end()
        except ModegateError as error:
            if self._lenient:
                self.doubt = bare(error)
            else:
                self.failure = bare(error)
        out.append(bytes(self._unread))
        self._unread.clear()
        return b"".join(out)

    def _stops(self) -> bool:
        """Return whether no frame is read now: the answer is over, or calls must be judged first."""
        return self.over or self.hold.done is not None or bool(self.hold.to_judge())

    def _mend(self, parts: list[Part]) -> bytes:
        """Let the rest of a frame pass of which the client has the beginning: it must hold no call."""
        if any(part.kind is Kind.CALL for part in parts) or any(
            call.released is None for one in self.choices.values() for call in one.calls
        ):
            raise Tightened("the client has the beginning of a call that was not judged")
        self._writer.write(parts)
        frame = self._waiting.popleft().checked()
        if frame.raw.startswith(self.torn):
            rest = frame.raw[len(self.torn) :]
        elif frame.data is None:
            rest = b"\n\n"  # the end of a comment, which says nothing but could hide something
        else:
            raise Tightened("the client has the beginning of a frame that must be another")
        self.torn = b""
        self.over = any(part.kind is Kind.DONE for part in parts)
        return rest

    def _check_end(self) -> None:
        if self._raw:
            return
        if not self._waiting and self._too_large is not None:
            raise self._too_large
        if self._lenient and self._ended and not self._settled():
            raise AnswerUnreadable("the upstream's answer has no end")

    def give_in(self) -> None:
        """Let everything pass from here on: nobody can read it, and no mode forbids it."""
        self._raw = True
        self.doubt = None
        self._unread += self._writer.write(self.hold.surrender())
        rest = self._frames.finish()
        frames = [*self._waiting, rest] if rest is not None else self._waiting
        self._unread += b"".join(frame.raw for frame in frames)
        self._waiting.clear()

    def to_judge(self) -> list[Gathered]:
        """Return the calls that wait for a verdict."""
        if self.hold.done is not None or self._texts is None:
            return self.hold.to_judge()
        return [*self._texts.to_judge(), *self.hold.to_judge()]

    @property
    def holding(self) -> bool:
        """Whether something is held back."""
        aside = self.straight is not None and self.straight.waiting > 0
        return aside or self.hold.holding or (self._texts is not None and self._texts.holding)

    @property
    def holds_words(self) -> bool:
        """Whether some of its text has not gone yet."""
        return self.hold.holds_words or (self._texts is not None and self._texts.holding)


def _check(frame: Frame) -> None:
    if frame.odd:
        raise AnswerUnreadable(
            "the upstream sent a frame that clients could read in different ways"
        )

"""A hop's answer that arrives as server-sent events."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from modegate.core.errors import AnswerUnreadable, ModegateError, TooLarge, UpstreamFailed, bare
from modegate.core.policy.model import Limits
from modegate.core.step.answer.answer import Earlier, Outcome, ReadAnswer, Stage, Unreadable
from modegate.core.step.answer.calls import Gathered
from modegate.core.step.answer.hold import Hold
from modegate.core.step.answer.parts import ChoiceRead, Kind, Part, StreamReader, StreamWriter
from modegate.core.step.answer.straightener import Straightener
from modegate.core.wire.sse import Frame
from modegate.core.wire.sse_reader import FrameReader


class Streamed(ReadAnswer):
    """A stream that is read.

    A frame is read only after the verdicts that frames in front of it called for: what a call was when
    it was judged is what the client gets of it, however the bytes were cut.
    """

    streams = True
    straight: Straightener | None = None
    """What gives the stream of a loose server in the form that every client reads alike."""

    def __init__(
        self,
        reader: StreamReader,
        writer: StreamWriter,
        limits: Limits,
        *,
        later: bool = False,
    ) -> None:
        """Begin; in a `later` hop every finish waits for the end, as a log entry goes before it."""
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader(limits.frame)
        self._waiting: deque[Frame] = deque()
        self.hold = Hold(reader, limits.held, defer=later)
        self._too_large: ModegateError | None = None

    @property
    def outcome(self) -> Outcome:
        if self.failure is not None:
            return Unreadable(self.failure)
        if self.to_judge():
            return Stage.JUDGE
        if self.hold.failed:
            return Stage.FAILED
        if self.hold.done is not None or (self.ended and self._finished()):
            return Stage.COMPLETE
        return Stage.CUT if self.ended else Stage.MORE

    @property
    def choices(self) -> Mapping[int, ChoiceRead]:
        return self._reader.choices

    @property
    def usage(self) -> Mapping[str, Any] | None:
        return self._reader.usage

    @property
    def kept(self) -> int:
        texts = self.texts.size if self.texts is not None else 0
        aside = self.straight.waiting if self.straight is not None else 0
        return self._frames.waiting + self.hold.size + texts + aside

    @property
    def unread(self) -> int:
        return self._frames.waiting + super().unread

    @property
    def holding(self) -> bool:
        aside = self.straight is not None and self.straight.waiting > 0
        return aside or self.hold.holding or (self.texts is not None and self.texts.holding)

    @property
    def holds_words(self) -> bool:
        return self.hold.holds_words or (self.texts is not None and self.texts.holding)

    def _finished(self) -> bool:
        """Return whether every choice has, though the answer has no end of its own."""
        choices = self._reader.choices.values()
        held = self.texts is not None and self.texts.holding
        return bool(choices) and all(choice.finish for choice in choices) and not held

    def _feed(self, data: bytes) -> None:
        try:
            self._take(self._frames.feed(data))
        except TooLarge as error:
            self._too_large = bare(error)

    def _take(self, frames: Iterable[Frame]) -> None:
        for frame in frames:
            self._take_straight(self._straightened(frame))

    def _straightened(self, frame: Frame) -> list[Frame]:
        return [frame] if self.straight is None else self.straight.take(frame.checked())

    def _take_straight(self, frames: Iterable[Frame]) -> None:
        if self.texts is None:
            self._waiting.extend(frames)
            return
        for frame in frames:
            self.texts.take(frame)

    def _next_frame(self) -> Frame | None:
        """Return the frame that is to be read next, if it may be read yet."""
        if self._stops():
            return None
        if not self._waiting and self.texts is not None:
            # One at a time: what cannot be read takes nothing with it that stands in front.
            self._waiting.extend(islice(self.texts.ready(), 1))
            # What follows depends on the refusal, so the finish waits as behind a refused call.
            self.hold.defer = self.hold.defer or self.texts.refused
        if not self._waiting:
            return None
        return self._waiting[0] if self.as_it_came else self._waiting[0].checked()

    def _stops(self) -> bool:
        """Return whether no frame is read now: the answer is over, or calls must be judged first."""
        return self.hold.done is not None or bool(self.hold.to_judge())

    def _end(self) -> None:
        rest = self._frames.finish()
        try:
            if rest is not None:
                self._take([rest])
            if self.straight is not None:
                self._take_straight(self.straight.end())
        except TooLarge as error:
            self._too_large = bare(error)
        if self.texts is not None:
            self.texts.end()

    def advance(self) -> bytes:
        # Each frame is written before the next is read: what it becomes depends on those in front of it.
        out = [self._writer.write(self.hold.advance())]
        try:
            while (frame := self._next_frame()) is not None:
                check(frame)
                parts = self._reader.read(frame)
                if self.as_it_came and parts[0].kind is Kind.ERROR:
                    raise UpstreamFailed("the upstream says that its answer failed")
                self._writer.seen(parts[0])
                out.append(self._pass(frame, parts))
            if not self._waiting and self._too_large is not None:
                raise self._too_large
        except ModegateError as error:
            self.failure = bare(error)
        return b"".join(out)

    def _pass(self, _frame: Frame, parts: list[Part]) -> bytes:
        self._waiting.popleft()
        self.hold.take(parts)
        return self._writer.write(self.hold.advance())

    def to_judge(self) -> list[Gathered]:
        if self.hold.done is not None or self.texts is None:
            return self.hold.to_judge()
        return [*self.texts.to_judge(), *self.hold.to_judge()]

    def rest(self, closing: Mapping[int, str], earlier: Earlier) -> bytes:
        writer, hold, out = self._writer, self.hold, list[bytes]()
        finishes = {part.choice for part in hold.deferred if part.kind is Kind.FINISH}
        for index in closing.keys() - finishes:
            out += (writer.text(index, closing[index]), writer.finish(index))
        told = set(closing) - finishes
        for part in hold.deferred:
            if part.kind is Kind.FINISH and part.choice in closing and part.choice not in told:
                out.append(writer.text(part.choice, closing[part.choice]))
                told.add(part.choice)
            out.append(writer.write([part]))
        if hold.done is not None:
            out.append(writer.write([hold.done]))
        elif earlier.said:
            # A stream that finished its choices but has no end gets none, unless it is ours by now.
            out.append(writer.done())
        return b"".join(out)

    def closed(self, choice: int, text: str, earlier: Earlier) -> bytes:
        writer = self._writer
        return writer.text(choice, text) + writer.finish(choice) + writer.done()


def check(frame: Frame) -> None:
    """Raise `AnswerUnreadable` where clients could read a frame in different ways."""
    if frame.odd:
        raise AnswerUnreadable(
            "the upstream sent a frame that clients could read in different ways"
        )

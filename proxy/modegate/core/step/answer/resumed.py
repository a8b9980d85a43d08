"""A stream of which the client has got a part unread: it is read from its middle on."""

from __future__ import annotations

from collections.abc import Iterable

from modegate.core.errors import AnswerUnreadable, Tightened
from modegate.core.step.answer.answer import Outcome, Stage
from modegate.core.step.answer.calls import Gathered
from modegate.core.step.answer.gate import release_all
from modegate.core.step.answer.parts import Kind, Part
from modegate.core.step.answer.streamed import Streamed, check
from modegate.core.wire.sse import Frame, hides_data


class Resumed(Streamed):
    """A stream that passed as it came until a person set a mode (L8)."""

    _begun = b""
    """What the client has got, unread, of the frame that comes next."""
    _begun_next = False
    """The next frame to be taken is that one."""
    _over = False
    """The client has the answer's own end, as it came."""

    @property
    def outcome(self) -> Outcome:
        return Stage.ENDED if self._over else super().outcome

    def overtake(self, passed: Iterable[bytes]) -> tuple[list[Gathered], list[Gathered]]:
        """Read what the client has got already; give the calls that it has whole, and those under way.

        Raises:
            AnswerUnreadable, TooLarge: it cannot be read, so that nobody knows what may follow it.
        """
        read = [self._read_passed(frame) for piece in passed for frame in self._frames.feed(piece)]
        if self.straight is not None:
            self.straight.passed()
        self._begun = self._frames.begun
        self._begun_next = self.torn = bool(self._begun)
        parts = [part for _, new in read for part in new]
        self._over = any(part.kind is Kind.DONE for part in parts)
        ended = {id(call) for part in parts for call in part.ends}
        whole: list[Gathered] = []
        begun: list[Gathered] = []
        for choice in self._reader.choices.values():
            for call in choice.calls:
                (whole if choice.finish or id(call) in ended else begun).append(call)
        gone = (*whole, *begun, *(call for part in parts for call in part.calls))
        release_all(gone)
        for call in gone:
            # It has gone in the pieces in which it came.
            call.restarts, call.repeats = call.restarts or call.repeats, False
        self._remember(read)
        spoken = self.texts.passed() if self.texts is not None else []
        return [*whole, *spoken], begun

    def _read_passed(self, frame: Frame) -> tuple[Frame, list[Part]]:
        check(frame)
        if hides_data(frame):
            raise AnswerUnreadable("the client could have found a call beside the data")
        if self.straight is not None:
            self.straight.take(frame.checked())
        if self.texts is not None:
            self.texts.take(frame)
        parts = self._reader.read(frame)
        self._writer.seen(parts[-1])
        return frame, parts

    def _remember(self, read: Iterable[tuple[Frame, list[Part]]]) -> None:
        """Let the writer know what the client has, which must be what it would have written."""
        for frame, parts in read:
            for part in parts:
                # It has gone, though none like it will.
                part.kind = Kind.LIVE if part.kind is Kind.DROPPED else part.kind
            if self._writer.write(parts) not in (b"", frame.raw):
                raise AnswerUnreadable("the client counts what it has in another way")

    def _straightened(self, frame: Frame) -> list[Frame]:
        found = super()._straightened(frame)
        if self.straight is not None and self._begun_next:
            # The client has its beginning, as it came.
            self.straight.passed()
            found, self._begun_next = [frame], False
        return found

    def _stops(self) -> bool:
        return self._over or super()._stops()

    def _pass(self, frame: Frame, parts: list[Part]) -> bytes:
        """Let the rest of a frame pass of which the client has the beginning: it must hold no call."""
        if not self.torn:
            return super()._pass(frame, parts)
        if any(part.kind in (Kind.CALL, Kind.DROPPED) for part in parts) or any(
            call.pending for one in self.choices.values() for call in one.calls
        ):
            raise Tightened("the client has the beginning of a call that was not judged")
        self._writer.write(parts)
        self._waiting.popleft()
        if frame.raw.startswith(self._begun):
            rest = frame.raw[len(self._begun) :]
        elif frame.data is None:
            rest = b"\n\n"  # the end of a comment, which says nothing but could hide something
        else:
            raise Tightened("the client has the beginning of a frame that must be another")
        self.torn = False
        self._over = any(part.kind is Kind.DONE for part in parts)
        return rest

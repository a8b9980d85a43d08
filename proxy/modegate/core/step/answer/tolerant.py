"""Answers that are read while no mode is in force: they pass as they come where nobody can read them.

Before that, the session's modes are read once more, as a person may have set one since the step began (L8).
"""

from __future__ import annotations

from collections.abc import Mapping

from modegate.core.errors import AnswerUnreadable
from modegate.core.step.answer.answer import Doubtful, Earlier, Outcome, Stage, Unreadable
from modegate.core.step.answer.streamed import Streamed
from modegate.core.step.answer.whole import Whole


class TolerantStream(Streamed):
    """A stream of which nothing is lost that cannot be read."""

    as_it_came = True
    _unread = b""
    """What passes without having been read."""

    @property
    def outcome(self) -> Outcome:
        if self.passes_unread:
            return Stage.COMPLETE if self.ended else Stage.MORE
        found = super().outcome
        if isinstance(found, Unreadable):
            return Doubtful(found.error)
        if self.ended and not self._settled:
            return Doubtful(AnswerUnreadable("the upstream's answer has no end"))
        return found

    @property
    def _settled(self) -> bool:
        """Whether something is left to decide on, or the answer's own end was reached."""
        refused = any(choice.refused() for choice in self.choices.values())
        return refused or self.hold.done is not None or bool(self.to_judge())

    def feed(self, data: bytes) -> None:
        if self.passes_unread:
            self._unread += data
        else:
            super().feed(data)

    def _end(self) -> None:
        if not self.passes_unread:
            super()._end()

    def advance(self) -> bytes:
        if not self.passes_unread:
            return super().advance()
        out, self._unread = self._unread, b""
        return out

    def pass_unread(self) -> None:
        self.passes_unread = self.torn = True
        # All that was held back, and what nobody can read, but for calls that were refused.
        held = self._writer.write(self.hold.all_held())
        rest = self._frames.finish()
        frames = [*self._waiting, rest] if rest is not None else [*self._waiting]
        self._waiting.clear()
        self._unread = held + b"".join(frame.raw for frame in frames)


class TolerantWhole(Whole):
    """A body that passes if it cannot be read."""

    as_it_came = True

    @property
    def outcome(self) -> Outcome:
        if self.passes_unread:
            return Stage.COMPLETE
        found = super().outcome
        # Of a body over `limits.body` nothing is kept that could pass.
        return Doubtful(found.error) if isinstance(found, Unreadable) and self.ended else found

    def pass_unread(self) -> None:
        self.passes_unread = self.torn = True

    def rest(self, closing: Mapping[int, str], earlier: Earlier) -> bytes:
        return bytes(self.body) if self.passes_unread else super().rest(closing, earlier)

"""An answer that is read while no mode is in force: it passes as it comes where nobody can read it.

Before that, the session's modes are read once more, as a person may have set one since the step began (L8).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modegate.core.errors import AnswerUnreadable
from modegate.core.step.answer.answer import (
    Doubtful,
    Earlier,
    Outcome,
    ReadAnswer,
    Stage,
    Unreadable,
)
from modegate.core.step.answer.calls import Gathered
from modegate.core.step.answer.parts import ChoiceRead
from modegate.core.step.answer.streamed import Streamed
from modegate.core.step.answer.whole import Whole


class Tolerant(ReadAnswer):
    """Another kind of answer, of which nothing is lost that cannot be read."""

    as_it_came = True

    def __init__(self, hop: Streamed | Whole) -> None:
        """Take what reads it, which was told that it is tolerated."""
        self._hop = hop
        self.streams = hop.streams
        self._unread = bytearray()
        """What passes without having been read."""
        self._ended = False

    @property
    def outcome(self) -> Outcome:
        if self.passes_unread:
            return Stage.COMPLETE if self._ended else Stage.MORE
        found = self._hop.outcome
        if isinstance(found, Unreadable) and (self.streams or self._ended):
            # Of a body over `limits.body` nothing is kept that could pass.
            return Doubtful(found.error)
        if isinstance(self._hop, Streamed) and self._ended and not self._hop.settled:
            return Doubtful(AnswerUnreadable("the upstream's answer has no end"))
        return found

    @property
    def choices(self) -> Mapping[int, ChoiceRead]:
        return self._hop.choices

    @property
    def usage(self) -> Mapping[str, Any] | None:
        return self._hop.usage

    @property
    def kept(self) -> int:
        return self._hop.kept

    @property
    def unread(self) -> int:
        return self._hop.unread

    @property
    def holding(self) -> bool:
        return self._hop.holding

    @property
    def holds_words(self) -> bool:
        return self._hop.holds_words

    def feed(self, data: bytes) -> None:
        if self.passes_unread:
            self._unread += data
        else:
            self._hop.feed(data)

    def end(self) -> None:
        self._ended = True
        if not self.passes_unread:
            self._hop.end()

    def advance(self) -> bytes:
        if not self.passes_unread:
            return self._hop.advance()
        out = bytes(self._unread)
        self._unread.clear()
        return out

    def to_judge(self) -> list[Gathered]:
        return self._hop.to_judge()

    def pass_unread(self) -> None:
        self.passes_unread = self.torn = True
        if isinstance(self._hop, Streamed):
            self._unread += self._hop.all_as_it_came()

    def rest(self, closing: Mapping[int, str], earlier: Earlier) -> bytes:
        if self.passes_unread and isinstance(self._hop, Whole):
            return bytes(self._hop.body)
        return self._hop.rest(closing, earlier)

    def closed(self, choice: int, text: str, earlier: Earlier) -> bytes:
        return self._hop.closed(choice, text, earlier)

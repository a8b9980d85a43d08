"""From the head of an answer that is read to what reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from modegate.core.policy.model import Limits
from modegate.core.step.answer.answer import ReadAnswer
from modegate.core.step.answer.parts import StreamWriter
from modegate.core.step.answer.resumed import Resumed
from modegate.core.step.answer.rulings import Offer
from modegate.core.step.answer.straightener import Ids
from modegate.core.step.answer.streamed import Streamed
from modegate.core.step.answer.tolerant import TolerantStream, TolerantWhole
from modegate.core.step.answer.whole import Whole
from modegate.core.step.dialect import AnyDialect
from modegate.core.step.text_calls.gate import TextGate
from modegate.core.wire.content_encoding import MAX_DECODED, decoder

StreamT = TypeVar("StreamT", bound=Streamed)


@dataclass(frozen=True, slots=True)
class Readers:
    """What a step's answers are read with."""

    dialect: AnyDialect
    writer: StreamWriter
    ids: Callable[[int], Ids]
    """Ids of our own for calls of a hop."""
    tails: dict[tuple[int, str], str] = field(default_factory=dict)
    """By choice and voice, the end of a hop's text: in it a call could begin that the next hop ends."""

    def tolerant(self, limits: Limits, *, streamed: bool) -> ReadAnswer:
        """Return what reads an answer that passes where nobody can read it."""
        if not streamed:
            return TolerantWhole(self.dialect, limits)
        return TolerantStream(self.dialect.stream_reader(strictly=False), self.writer, limits)

    def strict(
        self, offer: Offer, limits: Limits, hop: int, coding: bytes, *, streamed: bool
    ) -> ReadAnswer:
        """Return what reads an answer of which nothing passes unread.

        Raises:
            UnknownEncoding: nobody can take its coding off.
        """
        answer: ReadAnswer
        if streamed:
            reader = self.dialect.stream_reader(strictly=hop > 0)
            stream = Streamed(reader, self.writer, limits, later=hop > 0)
            answer = self._gated(stream, offer, limits, hop)
        else:
            straight, ids = self.dialect.straight_whole, self.ids(hop)
            answer = Whole(self.dialect, limits, straight=lambda body: straight(body, ids))
            answer.texts = self._texts(offer, limits.body)
        if coding not in (b"", b"identity"):
            most = MAX_DECODED if streamed else limits.body
            answer.decoder = decoder(coding, most, each=streamed)
        return answer

    def resumed(self, offer: Offer, limits: Limits) -> Resumed:
        """Return what reads a stream of which the client has got a part unread."""
        reader = self.dialect.stream_reader(strictly=False)
        return self._gated(Resumed(reader, self.writer, limits), offer, limits, 0)

    def _gated(self, stream: StreamT, offer: Offer, limits: Limits, hop: int) -> StreamT:
        stream.texts = self._texts(offer, limits.held)
        stream.straight = self.dialect.straightener(limits.held, self.ids(hop))
        return stream

    def _texts(self, offer: Offer, limit: int) -> TextGate | None:
        """Return what holds back calls in plain text, where text is more than text."""
        rules = offer.texts
        return TextGate(self.dialect, rules, self.tails, limit) if rules is not None else None

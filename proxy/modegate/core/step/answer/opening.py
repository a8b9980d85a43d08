"""From the head of an answer that is read to what reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from modegate.core.policy.model import Limits
from modegate.core.step.answer.answer import ReadAnswer
from modegate.core.step.answer.parts import StreamWriter
from modegate.core.step.answer.resumed import Resumed
from modegate.core.step.answer.rulings import Offer
from modegate.core.step.answer.straightener import Ids
from modegate.core.step.answer.streamed import Streamed
from modegate.core.step.answer.tolerant import Tolerant
from modegate.core.step.answer.whole import Whole
from modegate.core.step.dialect import AnyDialect
from modegate.core.step.text_calls.gate import TextGate
from modegate.core.wire.content_encoding import MAX_DECODED, decoder


@dataclass(frozen=True, slots=True)
class Readers:
    """What a step's answers are read with."""

    dialect: AnyDialect
    writer: StreamWriter
    ids: Callable[[int], Ids]
    """Ids of our own for calls of a hop."""
    tails: dict[tuple[int, str], str] = field(default_factory=dict)
    """By choice and voice, the end of a hop's text: in it a call could begin that the next hop ends."""

    def tolerant(self, limits: Limits, *, streamed: bool) -> Tolerant:
        """Return what reads an answer that passes where nobody can read it."""
        if not streamed:
            return Tolerant(Whole(self.dialect, limits, tolerated=True))
        reader = self.dialect.stream_reader(strictly=False)
        return Tolerant(Streamed(reader, self.writer, limits, tolerated=True))

    def strict(
        self, offer: Offer, limits: Limits, hop: int, coding: bytes, *, streamed: bool
    ) -> ReadAnswer:
        """Return what reads an answer of which nothing passes unread.

        Raises:
            UnknownEncoding: nobody can take its coding off.
        """
        answer = self._streamed(offer, limits, hop) if streamed else self._whole(offer, limits, hop)
        if coding not in (b"", b"identity"):
            most = MAX_DECODED if streamed else limits.body
            answer.decoder = decoder(coding, most, each=streamed)
        return answer

    def _streamed(self, offer: Offer, limits: Limits, hop: int) -> ReadAnswer:
        later = hop > 0
        reader, texts = self.dialect.stream_reader(strictly=later), self._texts(offer, limits.held)
        streamed = Streamed(reader, self.writer, limits, later=later, texts=texts)
        streamed.straight = self.dialect.straightener(limits.held, self.ids(hop))
        return streamed

    def _whole(self, offer: Offer, limits: Limits, hop: int) -> ReadAnswer:
        whole = Whole(self.dialect, limits, texts=self._texts(offer, limits.body))
        straight, ids = self.dialect.straight_whole, self.ids(hop)
        whole.straight = lambda body: straight(body, ids)
        return whole

    def resumed(self, offer: Offer, limits: Limits) -> Resumed:
        """Return what reads a stream of which the client has got a part unread."""
        reader, texts = self.dialect.stream_reader(strictly=False), self._texts(offer, limits.held)
        resumed = Resumed(reader, self.writer, limits, texts=texts)
        resumed.straight = self.dialect.straightener(limits.held, self.ids(0))
        return resumed

    def _texts(self, offer: Offer, limit: int) -> TextGate | None:
        """Return what holds back calls in plain text, where text is more than text."""
        rules = offer.texts
        return TextGate(self.dialect, rules, self.tails, limit) if rules is not None else None

"""A hop's answer that arrives whole, as one JSON body."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from modegate.core.errors import ModegateError, TooLarge, UpstreamFailed, bare
from modegate.core.policy.model import Limits
from modegate.core.step.answer.answer import Earlier, Outcome, ReadAnswer, Stage, Unreadable
from modegate.core.step.answer.calls import Gathered
from modegate.core.step.answer.hold import over
from modegate.core.step.answer.parts import ChoiceRead, WholeAnswer
from modegate.core.step.dialect import AnyDialect
from modegate.core.wire.sse import utf8


class Whole(ReadAnswer):
    """A body that is read once it is there."""

    def __init__(
        self,
        dialect: AnyDialect,
        limits: Limits,
        *,
        straight: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """Begin; `straight` gives a loose server's answer in the form that every client reads alike."""
        self._straight = straight
        self._dialect = dialect
        self._limit = limits.body
        self._held = limits.held
        self.body = bytearray()
        self._answer: WholeAnswer[ChoiceRead] | None = None

    @property
    def outcome(self) -> Outcome:
        if self.failure is not None:
            return Unreadable(self.failure)
        if self.to_judge():
            return Stage.JUDGE
        if self._answer is None:
            return Stage.MORE
        return Stage.FAILED if self._answer.failed else Stage.COMPLETE

    @property
    def choices(self) -> Mapping[int, ChoiceRead]:
        return self._answer.choices if self._answer else {}

    @property
    def usage(self) -> Mapping[str, Any] | None:
        return self._answer.usage if self._answer else None

    @property
    def kept(self) -> int:
        return len(self.body)

    def _feed(self, data: bytes) -> None:
        self.body += data
        if len(self.body) > self._limit:
            self.failure = TooLarge(
                f"the upstream's answer is over {self._limit} bytes (limits.body)"
            )
            self.body.clear()

    def _end(self) -> None:
        try:
            # As what most programs read in it, so that all clients read what is judged.
            body = bytes(self.body) if self.as_it_came else utf8(bytes(self.body))
            body = body if self._straight is None else self._straight(body)
            if self.texts is None:
                self._read(body)
            else:
                self.texts.whole(body)
        except ModegateError as error:
            self.failure = bare(error)

    def advance(self) -> bytes:
        """Return nothing: a body goes when all of it is judged."""
        if self.texts is not None and self.texts.holding and not self.texts.to_judge():
            try:
                self._read(self.texts.body())
            except ModegateError as error:
                self.failure = bare(error)
        return b""

    def _read(self, body: bytes) -> None:
        """Read it; what its calls say is held back as that of a stream is."""
        answer = self._dialect.read_whole(body)
        if sum(_held(call) for one in answer.choices.values() for call in one.calls) > self._held:
            raise over(self._held)
        if self.as_it_came and answer.failed:
            raise UpstreamFailed("the upstream says that its answer failed")
        self._answer = answer

    def to_judge(self) -> list[Gathered]:
        if self.texts is not None and self.texts.holding:
            return self.texts.to_judge()
        return [call for choice in self.choices.values() for call in choice.calls if call.pending]

    def rest(self, closing: Mapping[int, str], earlier: Earlier) -> bytes:
        if self._answer is None:
            return b""
        stop = frozenset(i for i, choice in self.choices.items() if not choice.released())
        return self._answer.write(
            before=earlier.said, closing=closing, stop=stop, usage=earlier.usage
        )

    def closed(self, choice: int, text: str, earlier: Earlier) -> bytes:
        return self.rest({choice: text}, earlier)


def _held(call: Gathered) -> int:
    return sum(len(piece.encode("utf-8", "surrogatepass")) for piece in call.pieces)

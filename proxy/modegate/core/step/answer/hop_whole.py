"""The answer of one hop that arrives whole, as one JSON body."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from modegate.core.errors import ModegateError, TooLarge, UpstreamFailed, bare
from modegate.core.policy.model import Limits
from modegate.core.step.answer.calls import Gathered
from modegate.core.step.answer.hold import over
from modegate.core.step.answer.parts import ChoiceRead, WholeAnswer
from modegate.core.step.dialect import AnyDialect
from modegate.core.step.text_calls.gate import TextGate
from modegate.core.wire.sse import utf8


class WholeHop:
    """A hop that arrives as one JSON body."""

    def __init__(
        self,
        dialect: AnyDialect,
        limits: Limits,
        *,
        lenient: bool = False,
        texts: TextGate | None = None,
    ) -> None:
        """Begin; a `lenient` one may pass a body that it cannot read as it came.

        `texts` holds back calls in plain text.
        """
        self._texts = texts
        self._lenient = lenient
        self._dialect = dialect
        self._limit = limits.body
        self._held = limits.held
        self._body = bytearray()
        self.straight: Callable[[bytes], bytes] | None = None
        """What gives the answer of a loose server in the form that every client reads alike."""
        self.answer: WholeAnswer[ChoiceRead] | None = None
        self.cut = False
        self.failure: ModegateError | None = None
        self.doubt: ModegateError | None = None

    @property
    def choices(self) -> Mapping[int, ChoiceRead]:
        """What its choices have said."""
        return self.answer.choices if self.answer else {}

    @property
    def usage(self) -> Mapping[str, Any] | None:
        """What it cost."""
        return self.answer.usage if self.answer else None

    @property
    def kept(self) -> int:
        """Bytes of the body."""
        return len(self._body)

    @property
    def unread(self) -> int:
        """Nothing: a body is read at its end."""
        return 0

    @property
    def unended(self) -> bool:
        """Whether its text has an open brace."""
        return self._texts is not None and self._texts.unended

    @property
    def failed(self) -> bool:
        """Whether the upstream says that it failed."""
        return self.answer is not None and self.answer.failed

    @property
    def complete(self) -> bool:
        """Whether it was read and every call has its verdict."""
        return self.answer is not None and not self.to_judge()

    def feed(self, data: bytes) -> None:
        """Take bytes of the body."""
        self._body += data
        if len(self._body) > self._limit:
            self.failure = TooLarge(
                f"the upstream's answer is over {self._limit} bytes (limits.body)"
            )
            self._body.clear()

    def end(self) -> None:
        """Read the body."""
        try:
            # As what most programs read in it, so that all clients read what is judged.
            body = bytes(self._body) if self._lenient else utf8(bytes(self._body))
            body = body if self.straight is None else self.straight(body)
            if self._texts is None:
                self._read(body)
            else:
                self._texts.whole(body)
        except ModegateError as error:
            if self._lenient:
                self.doubt = bare(error)
            else:
                self.failure = bare(error)

    def advance(self) -> bytes:
        """Return nothing: a body goes when all of it is judged."""
        if self._texts is not None and self._texts.holding and not self._texts.to_judge():
            try:
                self._read(self._texts.body())
            except ModegateError as error:
                self.failure = bare(error)
        return b""

    def _read(self, body: bytes) -> None:
        """Read it; what its calls say is held back as that of a stream is."""
        answer = self._dialect.read_whole(body)
        if sum(_held(call) for one in answer.choices.values() for call in one.calls) > self._held:
            raise over(self._held)
        if self._lenient and answer.failed:
            raise UpstreamFailed("the upstream says that its answer failed")
        self.answer = answer

    def give_in(self) -> None:
        """Let the body pass: nobody can read it, and no mode forbids it."""
        self.doubt = None
        self.answer = _Unread(bytes(self._body))

    def to_judge(self) -> list[Gathered]:
        """Return the calls that wait for a verdict."""
        if self._texts is not None and self._texts.holding:
            return self._texts.to_judge()
        return [
            call
            for choice in self.choices.values()
            for call in choice.calls
            if call.released is None
        ]


def _held(call: Gathered) -> int:
    return sum(len(piece.encode("utf-8", "surrogatepass")) for piece in call.pieces)


class _Unread:
    """A body that nobody can read."""

    failed = False
    usage: Mapping[str, Any] | None = None

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.choices: dict[int, ChoiceRead] = {}

    def write(self, **_changes: object) -> bytes:
        """Return it as it came."""
        return self._body

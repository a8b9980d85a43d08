"""Answers that the client gets as they came: at once, or once they are known to be an error.

In the default mode nothing is read. If a person tightens the session while an answer passes, what comes
from then on is judged (L8), and to know what a frame means one must have read those in front of it. So what
has passed is kept (`Passed`).
"""

from __future__ import annotations

from modegate.core.step.answer.answer import Answer, Outcome, Refusal, Shown, Stage
from modegate.core.step.answer.rejection import MAX_REJECTION, Rejection
from modegate.core.step.effects import Headers

MAX_PASSED = 2 * 2**20
"""Bytes kept of one answer, some ten thousand tokens; a longer one is cut off where it cannot be read."""


class Passed:
    """The bytes of one answer that its client has got; adding costs next to nothing."""

    __slots__ = ("pieces", "size")

    def __init__(self) -> None:
        self.size = 0
        """Bytes that are kept."""
        self.pieces: list[bytes] | None = []
        """None once they are too many."""

    def add(self, piece: bytes) -> None:
        if self.pieces is not None:
            self.pieces.append(piece)
            self.size += len(piece)
            if self.size > MAX_PASSED:
                self.forget()

    def forget(self) -> None:
        """Keep nothing any more: there is no room."""
        self.pieces = None
        self.size = 0


class Relayed(Answer):
    """An answer that passes as it comes."""

    streams = True
    as_it_came = True
    passes_unread = True
    torn = True

    def __init__(self, status: int, lines: Headers, passed: Passed | None = None) -> None:
        self._head = status, lines
        self._passed = Passed() if passed is None else passed
        self._out = bytearray()
        self._ended = False

    @property
    def outcome(self) -> Outcome:
        return Stage.RELAYED if self._ended else Stage.MORE

    @property
    def size(self) -> int:
        return self._passed.size

    def feed(self, data: bytes) -> None:
        self._passed.add(data)
        self._out += data

    def end(self) -> None:
        self._ended = True

    def advance(self) -> bytes:
        out = bytes(self._out)
        self._out.clear()
        return out

    def passed(self) -> tuple[int, Headers, list[bytes] | None]:
        return (*self._head, self._passed.pieces)


class Rejected(Answer):
    """An error, kept back until all of it is there or it is too long."""

    rejects = True

    def __init__(self, rejection: Rejection, *, may_retry: bool) -> None:
        """Begin; with `may_retry` the model can be asked again."""
        self._rejection = rejection
        self._may_retry = may_retry
        self._ended = False

    @property
    def outcome(self) -> Outcome:
        if len(self._rejection.body) > MAX_REJECTION:
            return Shown(self._rejection, ended=False)
        if not self._ended:
            return Stage.MORE
        return Refusal(self._rejection) if self._may_retry else Shown(self._rejection, ended=True)

    @property
    def size(self) -> int:
        return len(self._rejection.body)

    def feed(self, data: bytes) -> None:
        self._rejection.body += data

    def end(self) -> None:
        self._ended = True

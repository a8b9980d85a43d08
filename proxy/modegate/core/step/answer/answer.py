"""The face of an answer under way, whatever its kind: fed, advanced, and asked what comes of it.

The kinds are in `docs/architecture.md`, under "A step and its phases".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from modegate.core.errors import AnswerUnreadable, ModegateError, bare
from modegate.core.step.answer.calls import Gathered
from modegate.core.step.answer.parts import ChoiceRead
from modegate.core.step.answer.rejection import Rejection
from modegate.core.step.effects import Headers
from modegate.core.step.text_calls.gate import TextGate
from modegate.core.wire.content_encoding import MAX_DECODED, BadEncoding, Decoder


class Stage(Enum):
    """How far an answer has come."""

    MORE = auto()
    """It waits for more of its bytes."""
    JUDGE = auto()
    """Some of its calls wait for a verdict."""
    FAILED = auto()
    """The upstream says in it that it failed."""
    CUT = auto()
    """Its bytes ended before it did."""
    COMPLETE = auto()
    """It has ended, and every call has its verdict."""
    RELAYED = auto()
    """The client has all of it, as it came."""
    ENDED = auto()
    """The client has its end, as it came, and what follows goes nowhere."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """It cannot be read any further."""

    error: ModegateError


@dataclass(frozen=True, slots=True)
class Doubtful:
    """It cannot be read any further, and passes nevertheless if there is still no mode that forbids it."""

    error: ModegateError


@dataclass(frozen=True, slots=True)
class Labelled:
    """It is known now what it is: these are its head and its first bytes."""

    status: int
    lines: Headers
    body: bytes


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error that may be a refusal of what modegate put into the request."""

    rejection: Rejection


@dataclass(frozen=True, slots=True)
class Shown:
    """An error that is the client's to see."""

    rejection: Rejection
    ended: bool
    """All of it is there; else it is too long to be kept."""


Outcome = Stage | Unreadable | Doubtful | Labelled | Refusal | Shown


@dataclass(frozen=True, slots=True)
class Earlier:
    """The hops that went before the one that ends an answer."""

    said: Sequence[ChoiceRead] = ()
    usage: Sequence[Mapping[str, Any]] = ()


class Answer:
    """One hop's answer; this one has not begun."""

    streams: bool = False
    """Its client gets it as it comes, beginning with its head."""
    as_it_came: bool = False
    """Nothing of ours stands in it: where the upstream breaks it off, it is broken off."""
    rejects: bool = False
    """It is an error, which another request may still prevent."""
    passes_unread: bool = False
    """The rest passes without being read, as no mode forbade it."""
    torn: bool = False
    """No event of ours can follow what the client has: it ends within a frame, or nobody has read it."""

    @property
    def outcome(self) -> Outcome:
        """What comes of it, as far as it is there."""
        return Stage.MORE

    @property
    def holding(self) -> bool:
        """Whether some call of it is held back."""
        return False

    @property
    def kept(self) -> int:
        """Bytes of it that are kept: what waits for its end, and what is held back."""
        return 0

    @property
    def unread(self) -> int:
        """Bytes of it that the next ones may complete, or stand for, so that they are read."""
        return 0

    @property
    def size(self) -> int:
        """Bytes that may be read to decide on it."""
        return self.kept

    @property
    def choices(self) -> Mapping[int, ChoiceRead]:
        """What its choices have said."""
        return {}

    @property
    def usage(self) -> Mapping[str, Any] | None:
        """What it cost, as far as the upstream said."""
        return None

    def feed(self, data: bytes) -> None:
        """Take bytes of the body."""

    def end(self) -> None:
        """Take the end of the body."""

    def advance(self) -> bytes:
        """Return what may go to the client now."""
        return b""

    def to_judge(self) -> list[Gathered]:
        """Return the calls that wait for a verdict."""
        return []

    def pass_unread(self) -> None:
        """Let everything pass from here on: nobody can read it, and no mode forbids it."""

    def label(self) -> Labelled | None:
        """Return what it is taken for where no more of it comes, if that is not known yet."""
        return None

    def passed(self) -> tuple[int, Headers, list[bytes] | None] | None:
        """Return its head and what of it has passed unread (None if too much), if it is one that does."""
        return None


class ReadAnswer(Answer):
    """An answer that is read."""

    decoder: Decoder | None = None
    """What takes its coding off; None if it has none."""
    failure: ModegateError | None = None
    """Why it cannot be read any further."""
    texts: TextGate | None = None
    """What holds back calls in plain text."""
    ended = False
    """Its bytes have."""

    @property
    def unended(self) -> bool:
        """Whether no other hop may follow, as its text could make a call of this one's."""
        return self.texts is not None and self.texts.unended

    @property
    def holds_words(self) -> bool:
        """Whether some of its text has not gone yet."""
        return False

    def feed(self, data: bytes) -> None:
        try:
            plain = data if self.decoder is None else self.decoder.feed(data)
        except (ModegateError, BadEncoding) as error:
            self.failure = unreadable(error)
        else:
            self._feed(plain)

    def end(self) -> None:
        try:
            if self.decoder is not None:
                self.decoder.finish()
        except BadEncoding as error:
            self.failure = unreadable(error)
        else:
            self._end()
        self.ended = True

    @property
    def unread(self) -> int:
        return 0 if self.decoder is None else MAX_DECODED

    def _feed(self, data: bytes) -> None:
        """Take bytes without their coding."""
        raise NotImplementedError

    def _end(self) -> None:
        raise NotImplementedError

    def rest(self, closing: Mapping[int, str], earlier: Earlier) -> bytes:
        """Return the rest of the client's answer; each choice in `closing` ends with that text."""
        raise NotImplementedError

    def closed(self, choice: int, text: str, earlier: Earlier) -> bytes:
        """Return the rest of the client's answer where the hop behind this one failed."""
        raise NotImplementedError


def unreadable(error: Exception) -> ModegateError:
    """Return an error that can be kept."""
    return bare(error) if isinstance(error, ModegateError) else AnswerUnreadable(str(error))

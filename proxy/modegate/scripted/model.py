"""The scripted model: answers written down beforehand, and which of them a request gets.

The first answer whose conditions all hold is given. Nothing is remembered between requests (but for
`times`), so that an agent's retries and side requests, and the further hops of modegate, disturb
nothing. Reading a request and writing an answer is a dialect's matter: see `chat`,
`responses` and `messages`. The file's form is in docs/scripted.md and is read by `file`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from modegate.core.dialects.registered import DIALECTS
from modegate.core.errors import DialectName
from modegate.core.wire.headers import Headers


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as conditions and answers see it, in whatever dialect it came."""

    model: str
    stream: bool
    include_usage: bool
    tools: tuple[str, ...]
    """Names of the tools offered."""
    messages: tuple[str, ...]
    """The text of each message."""
    results: tuple[str, ...]
    """The text of each tool result since the last user message."""
    key: str
    """Hash of the request, from which ids are made: equal requests get equal bytes."""
    size: int
    """Bytes."""
    repeated: Mapping[str, Any] = field(default_factory=dict)
    """What an answer repeats of its request, where the API does so."""
    sealed: bool = False
    """Whether reasoning is asked for in a form that only the provider can read."""

    def __str__(self) -> str:
        """Say in a line what it looks like, for an author whose script has no answer to it."""
        last = self.messages[-1] if self.messages else ""
        offered = ", ".join(self.tools) or "none"
        return (
            f"{len(self.messages)} messages, the last {last[:120]!r}; tools: {offered}; "
            f"{len(self.results)} tool results since the last user message"
        )


@dataclass(frozen=True, slots=True)
class When:
    """Conditions; None asks nothing."""

    tools: bool | None = None
    """Whether any tool is offered."""
    offers: str | None = None
    lacks: str | None = None
    results: int | None = None
    last: str | None = None
    any: str | None = None
    last_result: str | None = None

    def holds(self, asked: Asked) -> bool:
        return all(
            (
                self.tools in (None, bool(asked.tools)),
                self.offers is None or self.offers in asked.tools,
                self.lacks not in asked.tools,
                self.results in (None, len(asked.results)),
                self.last is None or self.last in "".join(asked.messages[-1:]),
                self.any is None or any(self.any in text for text in asked.messages),
                self.last_result is None or self.last_result in "".join(asked.results[-1:]),
            )
        )


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """One call that the model makes."""

    name: str
    arguments: str
    """As sent: JSON, or for a custom call its input, or whatever else is to be tried."""
    id: str | None = None
    custom: bool = False
    index: int | None = None
    """In a stream; None is its place in the list."""
    namespace: str | None = None
    """Of the tool, in the one dialect that has any (responses)."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What a model says."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    finish: str | None = None
    """None is what fits: calls or stop."""
    usage: Mapping[str, Any] | None = None
    chunk: int = 12
    """Characters of a piece of text."""
    fragments: int = 2
    """Pieces of a call's arguments."""
    legacy: bool = False
    """Makes its one call as a `function_call`."""


@dataclass(frozen=True, slots=True)
class Frames:
    """Frames that are sent as they are written, however broken."""

    frames: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Fixed:
    """A whole body that is sent as it is, mostly an error."""

    body: bytes | None
    """None is an error in the words of the dialect."""
    json: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of a script."""

    content: Turn | Frames | Fixed
    when: When = field(default_factory=When)
    times: int | None = None
    """How often it may be given; None is always."""
    status: int = 200
    headers: Headers = field(default_factory=list)
    pace_ms: int = 0
    """Milliseconds between two frames."""
    cut: bool = False
    """The connection breaks before the end."""


@dataclass(frozen=True, slots=True)
class Script:
    name: str
    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Streamed:
    """A turn as frames: what is said, and what ends it."""

    said: tuple[bytes, ...]
    ending: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class ScriptDialect:
    """How one dialect's requests are read and answers are written."""

    read: Callable[[bytes], Asked]
    """What conditions are about; whatever has another shape is passed over.

    Raises:
        BadRequest: it is no JSON object.
    """
    whole: Callable[[Turn, Asked], bytes]
    frames: Callable[[Turn, Asked], Streamed]
    name: DialectName


@dataclass(frozen=True, slots=True)
class Rendered:
    """An answer in bytes, ready to be sent piece by piece."""

    status: int
    headers: Headers
    pieces: tuple[bytes, ...]
    pace_ms: int = 0
    cut: bool = False
    """After the pieces the connection breaks."""


def choose(script: Script, asked: Asked, given: Sequence[int]) -> int | None:
    """Return the place of the answer to a request; `given` says how often each was given before."""
    for place, answer in enumerate(script.answers):
        used_up = answer.times is not None and given[place] >= answer.times
        if not used_up and answer.when.holds(asked):
            return place
    return None


def render(answer: Answer, asked: Asked, dialect: ScriptDialect) -> Rendered:
    """Write an answer in the form that the request asks for."""
    match answer.content:
        case Frames(frames):
            return _streamed(answer, frames)
        case Fixed(body, json):
            said = _error(answer.status, dialect.name) if body is None else body
            return _whole(answer, said, "application/json" if json else "text/plain")
        case Turn() as turn if asked.stream:
            streamed = dialect.frames(turn, asked)
            return _streamed(answer, streamed.said + (() if answer.cut else streamed.ending))
        case turn:
            return _whole(answer, dialect.whole(turn, asked), "application/json")


def fixed(status: int, body: Any) -> Rendered:
    """Return a JSON answer that no script holds."""
    return _fixed(status, msgspec.json.encode(body))


def failed(status: int, message: str, dialect: DialectName) -> Rendered:
    """Return an error that no script holds, as this dialect's clients expect it."""
    return _fixed(status, DIALECTS.named(dialect).api.error(message, status, "scripted"))


def _fixed(status: int, body: bytes) -> Rendered:
    return _whole(Answer(Fixed(body), status=status), body, "application/json")


def _error(status: int, dialect: DialectName) -> bytes:
    message = f"the script answers {status}"
    return DIALECTS.named(dialect).api.error(message, status, "scripted")


def _streamed(answer: Answer, frames: tuple[bytes, ...]) -> Rendered:
    headers = _headers(answer, [(b"content-type", b"text/event-stream")])
    return Rendered(answer.status, headers, frames, answer.pace_ms, answer.cut)


def _whole(answer: Answer, body: bytes, kind: str) -> Rendered:
    lines = [(b"content-type", kind.encode()), (b"content-length", b"%d" % len(body))]
    pieces = (body[: len(body) // 2],) if answer.cut else (body,)
    return Rendered(answer.status, _headers(answer, lines), pieces, 0, answer.cut)


def _headers(answer: Answer, defaults: Headers) -> Headers:
    written = {name for name, _ in answer.headers}
    return [line for line in defaults if line[0] not in written] + answer.headers

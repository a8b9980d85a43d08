"""An answer whose head does not say that it is a stream: its first bytes tell.

Relays send event streams as plain text, as JSON or without a type. SDKs do not look at the type, since they
know what they asked for. So if a stream was asked for and the answer begins like one, it is read as one. Its
client gets the right type with it: one that looks at the type reads what was judged.
"""

from __future__ import annotations

import re

from modegate.core.step.answer.answer import Answer, Labelled, Outcome, Stage
from modegate.core.step.effects import Headers
from modegate.core.wire import headers

EVENT_STREAM = b"text/event-stream"

MAX_BLANK = 64 * 1024
"""Bytes in front of the first sign; servers send a handful, to keep a connection alive."""

_LEAD = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*+")
_MORE = re.compile(rb"[ \t\r\n]*+")
_STREAM = re.compile(rb":|(?:data|event|id|retry):")
_WORDS = (b"data:", b"event:", b"id:", b"retry:", b"\xef\xbb\xbf")


def is_stream(lines: Headers) -> bool:
    """Return whether a head announces server-sent events."""
    kind = headers.get_one(lines, b"content-type") or b""
    return kind.split(b";")[0].strip().lower() == EVENT_STREAM


def is_plain_stream(lines: Headers) -> bool:
    """Return whether events of our own can stand in an answer of this head.

    Of a body whose bytes are counted, or compressed, the client takes no others.
    """
    framed = {b"content-length", b"content-encoding"}
    return is_stream(lines) and not any(name.lower() in framed for name, _ in lines)


class Unlabelled(Answer):
    """An answer, until its body tells what it is."""

    def __init__(self, status: int, lines: Headers) -> None:
        self._status = status
        self._lines = lines
        self._body = bytearray()
        self._blank = 0
        """Bytes of it in front of the first sign, as far as they were looked at."""

    def feed(self, data: bytes) -> None:
        self._body += data

    @property
    def outcome(self) -> Outcome:
        begun = bytes(self._body[self._lead :])
        more = any(len(begun) < len(word) and word.startswith(begun) for word in _WORDS)
        return Stage.MORE if more and len(self._body) <= MAX_BLANK else self.label()

    def label(self) -> Labelled:
        lines = self._lines
        if _STREAM.match(self._body, self._lead) is not None:
            lines = headers.replace(lines, b"content-type", EVENT_STREAM)
        return Labelled(self._status, lines, bytes(self._body))

    @property
    def _lead(self) -> int:
        match = (_MORE if self._blank else _LEAD).match(self._body, self._blank)
        self._blank = match.end() if match else self._blank
        return self._blank


def unlabelled(status: int, lines: Headers) -> Unlabelled | None:
    """Take a head that does not say what follows; None if it does, or if a coding hides that."""
    if is_stream(lines) or not 200 <= status < 300 or headers.get_one(lines, b"content-encoding"):
        return None
    return Unlabelled(status, lines)

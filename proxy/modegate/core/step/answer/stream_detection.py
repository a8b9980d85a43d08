"""An answer whose head does not say that it is a stream: its first bytes tell.

Relays send event streams as plain text, as JSON or without a type. SDKs do not look at it, since they know
what they asked for, so a stream that was asked for and begins like one is read as one. The client gets it
under its right name, so that one which does look at the type reads what is judged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

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


@dataclass(slots=True)
class Unlabelled:
    """A head, until the body tells what it is of."""

    status: int
    lines: Headers
    body: bytearray = field(default_factory=bytearray)
    _blank: int = 0
    """Bytes of it in front of the first sign, as far as they were looked at."""

    def take(self, data: bytes) -> bool:
        """Take a piece of the body; tell whether it is known now what it is."""
        self.body += data
        if len(self.body) > MAX_BLANK:
            return True
        begun = bytes(self.body[self._lead :])
        return bool(begun) and not any(len(begun) < len(w) and w.startswith(begun) for w in _WORDS)

    def head(self) -> Headers:
        """Return the lines, with the right type where it is a stream."""
        if _STREAM.match(self.body, self._lead) is None:
            return self.lines
        return headers.replace(self.lines, b"content-type", EVENT_STREAM)

    @property
    def _lead(self) -> int:
        match = (_MORE if self._blank else _LEAD).match(self.body, self._blank)
        self._blank = match.end() if match else self._blank
        return self._blank


def unlabelled(status: int, lines: Headers) -> Unlabelled | None:
    """Take a head that does not say what follows; None if it does, or if a coding hides that."""
    if is_stream(lines) or not 200 <= status < 300 or headers.get_one(lines, b"content-encoding"):
        return None
    return Unlabelled(status, lines)

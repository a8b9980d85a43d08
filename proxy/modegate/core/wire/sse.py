"""Server-sent events: what one frame says, and how one is written; `sse_reader` cuts a stream into frames.

Follows the event stream format of the HTML standard (section 9.2.6). A frame carries its bytes as they came.
It is marked `odd` if a lenient reader could see something else in it than a strict one. What stands beside
the data is no part of an answer, and a client that looks for `data:` in its own way could find a call there.
So where the gate holds, a frame goes as `safe` says: comments empty, no lines that are not plain, the data in
one line of UTF-8. All readers take that in one way, and most odd frames can be written so; the gate refuses
the others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

LINE = re.compile(rb"([^\r\n]*+)(\r\n|\n|\r|\Z)")
_IDLE = frozenset({b"ping", b"keepalive", b"keep-alive", b"heartbeat"})
"""Names of events that say nothing, also where their data is an empty object, which is no event of an API."""

_LINE_END_OF_SOME = re.compile(b"\xe2\x80[\xa8\xa9]|\xc2\x85")
"""U+2028, U+2029 and U+0085: a client that cuts there loses what stands in the frame."""

DONE = b"[DONE]"
"""The data with which a stream of chat completions ends."""

BLANK = b" \t\n"
"""What may stand around the JSON of a frame; at a form feed, some clients would cut the line."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One event, or one run of comments."""

    raw: bytes
    """The bytes as they came, line ends included."""
    data: bytes | None
    """What stands after `data:`, or None if there is none."""
    event: bytes = b""
    odd: bool = False
    """Readers could differ on what this frame says, as it came."""
    safe: bytes | None = None
    """The bytes as every reader takes them, where these are others; None too where that cannot be."""

    def checked(self) -> Frame:
        """Return the frame as it may go to a client that the gate protects; odd if it may not.

        What ends a line for some clients alone stands in it as an escape, which says the same in JSON. Bytes
        that are no UTF-8, which some drop and others show as U+FFFD, are U+FFFD.
        """
        raw, data = self.raw if self.safe is None else self.safe, self.data
        if data is not None and data.strip(BLANK) == b"{}" and self.event in _IDLE:
            data = None
        if data is self.data and raw is self.raw and raw.isascii():
            return self
        if self.safe is not None and data is not None:
            data = data.replace(b"\n", b" ")
        if not raw.isascii():
            raw, data = _plain(raw), None if data is None else _plain(data)
        return replace(self, raw=raw, data=data, odd=self.odd and self.safe is None, safe=None)


def hides_data(frame: Frame) -> bool:
    """Return whether what a client got could hold data for one that cuts lines in its own way."""
    if frame.safe is None and frame.raw.isascii():
        return False
    for line, _ in LINE.findall(frame.raw):
        first, *rest = line.decode("utf-8", "replace").removeprefix("\ufeff").splitlines() or [""]
        beside = rest if first.startswith(("data", "event")) else [first, *rest]
        if any("data" in one.lower() for one in beside):
            return True
    return False


def first_line_end(text: bytes) -> bytes:
    """Return how the first line ends; empty if none does."""
    # A search for either would take twenty times as long, in one go.
    feed, back = text.find(b"\n"), text.find(b"\r")
    if 0 <= back < feed or feed < 0 <= back:
        return b"\r\n" if feed == back + 1 else b"\r"
    return b"\n" if feed >= 0 else b""


def utf8(data: bytes) -> bytes:
    """Return bytes as most programs read them: what is no UTF-8 as U+FFFD."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode(errors="replace").encode()
    return data


def _plain(data: bytes) -> bytes:
    return _LINE_END_OF_SOME.sub(_escape, utf8(data))


def _escape(match: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(match[0].decode())


def write_event(
    data: bytes, name: bytes | str = b"", *, number: int | None = None, end: bytes = b"\n"
) -> bytes:
    """Return an event of one data line; with a name and a number (`id`), unless they are empty."""
    name = name.encode() if isinstance(name, str) else name
    told = b"id: %d%b" % (number, end) if number is not None else b""
    told += b"event: %b%b" % (name, end) if name else b""
    return b"%bdata: %b%b%b" % (told, data, end, end)


def write_comment(text: str, *, end: bytes = b"\n") -> bytes:
    """Return a comment, which keeps a connection alive and means nothing."""
    return b": %b%b%b" % (text.encode(), end, end)


_BLANK_LINES = (b"\n\n", b"\r\r", b"\n\r\n", b"\n\r", b"\r\n\r")


class FrameWriter:
    """Frames on their way to one client: as they came, or our own, which end as those of the stream do.

    A client that cuts a stream at one kind of blank line would else take two frames for one.
    """

    def __init__(self) -> None:
        self._end = b""
        self._torn = False
        """The last frame went without its blank line, as at the end of a body."""

    def seen(self, raw: bytes) -> None:
        """Note how the upstream ends its lines."""
        self._end = self._end or first_line_end(raw)

    def passed(self, raw: bytes) -> bytes:
        if not raw:
            return b""
        lead = self._blank if self._torn else b""
        self._torn = not raw.endswith(_BLANK_LINES)
        return lead + raw

    def own(self, data: bytes, event: bytes = b"") -> bytes:
        """Return a frame of one data line, named unless the name is empty."""
        return self.passed(write_event(data, event, end=self._end or b"\n"))

    def comment(self, text: str) -> bytes:
        return self.passed(write_comment(text, end=self._end or b"\n"))

    @property
    def _blank(self) -> bytes:
        return (self._end or b"\n") * 2

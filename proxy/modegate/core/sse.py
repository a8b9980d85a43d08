"""Server-sent events: bytes in, frames out, every byte kept.

Follows the event stream format of the HTML standard (section 9.2.6): lines end in LF, CRLF or CR, a
blank line ends a frame, a byte order mark may stand in front. A frame carries its bytes as they came,
so that what is passed on is what was received. Frames in which a lenient reader could see something
else than a strict one are marked `odd`: the gate refuses them. What stands beside the data is no part of
an answer, and a client that looks for `data:` in its own way could find a call there: where the gate
holds, it goes as `safe` says, with comments empty and without lines that are not plain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from modegate.core.errors import TooLarge
from modegate.core.weight import holds

# Atomic, so that the CR and the LF of one line end are never counted as two. CR CR comes first and waits
# for nothing, as a stream of CR alone would else be late by a frame: an LF behind it is a blank line.
_FRAME_END = re.compile(rb"\r\r|(?>\r\n|\n)(?>\r\n|\n|\r)")
_LINE = re.compile(rb"([^\r\n]*+)(\r\n|\n|\r|\Z)")
_BOM = b"\xef\xbb\xbf"
# Clients cut lines at more than the standard's line ends (`str.splitlines`, in Latin-1 too, where U+0085
# is one byte), and look for `data:` at more places than their beginning.
_NO_DATA = rb"(?!.*(?i:data))"
_PLAIN_LINE = re.compile(_NO_DATA + rb"(?:id: ?[\w.:/+=@-]{0,256}|retry: ?[0-9]{1,9})")
_PLAIN_NAME = re.compile(rb"[\w./-]{0,128}")
_OTHER_FIELD = re.compile(_NO_DATA + rb"[\w-]{1,64}(?:: ?[\w .:/+=@-]{0,256})?")
"""A field that the standard has not, and that no reader could take for data: it is left out."""

_USUAL = re.compile(rb"event: ?([\w./-]{0,128})\ndata: ?([^\r\n]*+)\n\n")
"""The form of almost all frames that have a name."""

_LINE_END_OF_SOME = re.compile(b"\xe2\x80[\xa8\xa9]|\xc2\x85")
"""U+2028, U+2029 and U+0085: a client that cuts there loses what stands in the frame."""

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
    """Readers could differ on what this frame says."""
    safe: bytes | None = None
    """The bytes without what a reader of its own kind could take for data, where these are others."""

    def checked(self) -> Frame:
        """Give the frame as it may go to a client that the gate protects.

        What ends a line for some clients alone stands in it as an escape, which says the same in JSON.
        """
        if self.safe is None and not holds(_LINE_END_OF_SOME, self.raw):
            return self
        raw = _LINE_END_OF_SOME.sub(_escape, self.raw if self.safe is None else self.safe)
        data = None if self.data is None else _LINE_END_OF_SOME.sub(_escape, self.data)
        return replace(self, raw=raw, data=data, safe=None)


class FrameReader:
    """Cuts a byte stream into frames, however it is chunked."""

    def __init__(self, limit: int) -> None:
        """Take frames of at most `limit` bytes."""
        self._limit = limit
        self._buffer = bytearray()
        self._scanned = 0
        self._first = True
        self._end = b""
        """How the first line of the stream ends."""

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Take some bytes and give the frames that they complete.

        Raises:
            TooLarge: a frame is longer than the limit; after those in front of it were given.
        """
        buffer = self._buffer
        buffer += data
        begin = 0
        at = self._scanned
        while (match := _FRAME_END.search(buffer, at)) and not _may_go_on(match, len(buffer)):
            at = match.end()
            self._check(at - begin)
            yield self._frame(bytes(buffer[begin:at]))
            begin = at
        del buffer[:begin]
        # The next end may begin with the last two bytes: LF CR of LF CR LF.
        self._scanned = max(0, len(buffer) - 2)
        self._check(len(buffer))

    @property
    def begun(self) -> bytes:
        """What has come of a frame that has not ended yet."""
        return bytes(self._buffer)

    @property
    def waiting(self) -> int:
        """Bytes of a frame that has not ended yet."""
        return len(self._buffer)

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise TooLarge(
                f"a frame of the upstream's stream is over {self._limit} bytes (limits.frame)"
            )

    def finish(self) -> Frame | None:
        """Give what is left when the stream ends without a blank line."""
        if not self._buffer:
            return None
        rest = bytes(self._buffer)
        self._buffer.clear()
        self._scanned = 0
        return self._frame(rest)

    def _frame(self, raw: bytes) -> Frame:
        text = raw
        if self._first:
            self._first = False
            text = raw.removeprefix(_BOM)
        self._end = self._end or _first_line_end(text)
        if self._end == b"\n" and b"\r" not in text:
            if text.startswith(b"data: ") and text.find(b"\n") == len(text) - 2:
                return Frame(raw, text[6:-2])
            if (usual := _USUAL.fullmatch(text)) is not None:
                return Frame(raw, usual[2], usual[1])
        return parse(raw, text, self._end)


def _first_line_end(text: bytes) -> bytes:
    """Give how the first line ends; empty if none does."""
    # A search for either would take twenty times as long, in one go.
    feed, back = text.find(b"\n"), text.find(b"\r")
    if 0 <= back < feed or feed < 0 <= back:
        return b"\r\n" if feed == back + 1 else b"\r"
    return b"\n" if feed >= 0 else b""


def _may_go_on(match: re.Match[bytes], size: int) -> bool:
    """Tell whether a line feed may still follow that belongs to this end: after CR LF CR, or LF CR."""
    return match.end() == size and match.group().endswith(b"\n\r")


def parse(raw: bytes, text: bytes, ends: bytes = b"") -> Frame:
    """Read one frame's lines; what is left of them ends as the stream's lines do, if that is known.

    A client that cuts lines in one way alone would else not see a frame that ends in another, and a piece
    of a call with it.
    """
    data: list[bytes] = []
    event = b""
    odd = False
    safe = [raw[: len(raw) - len(text)]]
    for line, end in _LINE.findall(text):
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        stays = line
        if name == b"data":
            data.append(value)
        elif name == b"event":
            event = value
            odd = odd or not _PLAIN_NAME.fullmatch(value)
        elif not name:
            stays = line[:1]
        elif not _PLAIN_LINE.fullmatch(line):
            odd = odd or not (name in (b"id", b"retry") or _OTHER_FIELD.fullmatch(line))
            continue
        safe += (stays, end and (ends or end))
    # One JSON text over several lines reads differently for a client that goes line by line.
    odd = odd or len([line for line in data if line.strip()]) > 1
    left = b"".join(safe)
    return Frame(raw, b"\n".join(data) if data else None, event, odd, None if left == raw else left)


def _escape(match: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(match[0].decode())


DONE = b"[DONE]"
"""The data with which a stream of chat completions ends."""

_BLANK_LINES = (b"\n\n", b"\r\r", b"\n\r\n", b"\n\r", b"\r\n\r")


class FrameWriter:
    """Frames on their way to one client: as they came, or our own, which end as those of the stream do.

    A client that cuts a stream at one kind of blank line would else take two frames for one.
    """

    def __init__(self) -> None:
        """Begin a stream."""
        self._end = b""
        self._torn = False
        """The last frame went without its blank line, as at the end of a body."""

    def seen(self, raw: bytes) -> None:
        """Note how the upstream ends its lines."""
        self._end = self._end or _first_line_end(raw)

    def passed(self, raw: bytes) -> bytes:
        """Give a frame as it came."""
        if not raw:
            return b""
        lead = self._blank if self._torn else b""
        self._torn = not raw.endswith(_BLANK_LINES)
        return lead + raw

    def own(self, data: bytes, event: bytes = b"") -> bytes:
        """Give a frame of one data line, named unless the name is empty."""
        end = self._end or b"\n"
        name = b"event: " + event + end if event else b""
        return self.passed(name + b"data: " + data + self._blank)

    def comment(self, text: str) -> bytes:
        """Give a comment, which keeps a connection alive and means nothing."""
        return self.passed(b": " + text.encode() + self._blank)

    @property
    def _blank(self) -> bytes:
        return (self._end or b"\n") * 2

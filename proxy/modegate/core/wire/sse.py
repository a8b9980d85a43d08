"""Server-sent events: bytes in, frames out, every byte kept.

Follows the event stream format of the HTML standard (section 9.2.6): lines end in LF, CRLF or CR, a
blank line ends a frame, a byte order mark may stand in front. A frame carries its bytes as they came,
so that what is passed on is what was received. Frames in which a lenient reader could see something
else than a strict one are marked `odd`. What stands beside the data is no part of an answer, and a client
that looks for `data:` in its own way could find a call there: where the gate holds, a frame goes as `safe`
says, with comments empty, without lines that are not plain, and with its data in one line of UTF-8. So most
odd frames can be written in the one way in which all read them; the gate refuses the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec

from modegate.core.errors import TooLarge
from modegate.core.wire.weight import holds

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
"""A field that the standard has not, and that no reader could take for data."""
_DATA = re.compile(rb"(?i:data)")
"""A line of no known field that holds it could be meant as data, which must not be left out unseen."""
_IDLE = frozenset({b"ping", b"keepalive", b"keep-alive", b"heartbeat"})
"""Names of events that say nothing, also where their data is an empty object, which is no event of an API."""

_USUAL = re.compile(rb"event: ?([\w./-]{0,128})\ndata: ?([^\r\n]*+)\n\n")
"""The form of almost all frames that have a name."""

_LINE_END_OF_SOME = re.compile(b"\xe2\x80[\xa8\xa9]|\xc2\x85")
"""U+2028, U+2029 and U+0085: a client that cuts there loses what stands in the frame."""

_skip = msgspec.json.Decoder(msgspec.Raw).decode
"""Reads without keeping anything of it."""

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
    for line, _ in _LINE.findall(frame.raw):
        first, *rest = line.decode("utf-8", "replace").removeprefix("\ufeff").splitlines() or [""]
        beside = rest if first.startswith(("data", "event")) else [first, *rest]
        if any("data" in one.lower() for one in beside):
            return True
    return False


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
        """Return what is left when the stream ends without a blank line."""
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
    """Return how the first line ends; empty if none does."""
    # A search for either would take twenty times as long, in one go.
    feed, back = text.find(b"\n"), text.find(b"\r")
    if 0 <= back < feed or feed < 0 <= back:
        return b"\r\n" if feed == back + 1 else b"\r"
    return b"\n" if feed >= 0 else b""


def _may_go_on(match: re.Match[bytes], size: int) -> bool:
    """Return whether a line feed may still follow that belongs to this end: after CR LF CR, or LF CR."""
    return match.end() == size and match.group().endswith(b"\n\r")


def parse(raw: bytes, text: bytes, ends: bytes = b"") -> Frame:
    """Read one frame's lines; what is left of them ends as the stream's lines do, if that is known.

    A client that cuts lines in one way alone would else not see a frame that ends in another, and a piece
    of a call with it.
    """
    data: list[bytes] = []
    event = b""
    odd = lost = False
    safe: list[tuple[bytes, bytes]] = []
    for line, end in _LINE.findall(text):
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        stays = line
        if name == b"data":
            data.append(value)
        elif name == b"event":
            event = value
            lost = lost or not _PLAIN_NAME.fullmatch(value)
        elif not name:
            stays = line[:1]
        elif not _PLAIN_LINE.fullmatch(line):
            if name not in (b"id", b"retry") and not _OTHER_FIELD.fullmatch(line):
                odd, lost = True, lost or holds(_DATA, line)
            continue
        safe.append((stays, end and (ends or end)))
    if len([line for line in data if line.strip()]) > 1:
        # One JSON text over several lines reads differently for a client that goes line by line.
        odd, lost = True, lost or not _is_json(b"\n".join(data))
        safe = _joined(safe, b" ".join(data))
    left = raw[: len(raw) - len(text)] + b"".join(map(b"".join, safe))
    told = b"\n".join(data) if data else None
    return Frame(raw, told, event, odd or lost, None if lost or left == raw else left)


def _joined(lines: list[tuple[bytes, bytes]], data: bytes) -> list[tuple[bytes, bytes]]:
    """Return a frame's lines with all data in the first place; a blank is to JSON what a line end was."""
    first, *rest = (place for place, (line, _) in enumerate(lines) if line.startswith(b"data"))
    lines[first] = (b"data: " + data, lines[first][1])
    gone = set(rest)
    return [line for place, line in enumerate(lines) if place not in gone]


def _is_json(data: bytes) -> bool:
    try:
        _skip(data)
    except (ValueError, RecursionError):
        return False
    return True


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
        """Return a frame as it came."""
        if not raw:
            return b""
        lead = self._blank if self._torn else b""
        self._torn = not raw.endswith(_BLANK_LINES)
        return lead + raw

    def own(self, data: bytes, event: bytes = b"") -> bytes:
        """Return a frame of one data line, named unless the name is empty."""
        end = self._end or b"\n"
        name = b"event: " + event + end if event else b""
        return self.passed(name + b"data: " + data + self._blank)

    def comment(self, text: str) -> bytes:
        """Return a comment, which keeps a connection alive and means nothing."""
        return self.passed(b": " + text.encode() + self._blank)

    @property
    def _blank(self) -> bytes:
        return (self._end or b"\n") * 2

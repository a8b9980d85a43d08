"""Cuts an event stream into frames, every byte kept.

Lines end in LF, CRLF or CR, a blank line ends a frame, and a byte order mark may stand in front.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from modegate.core.errors import TooLarge
from modegate.core.wire.sse import LINE, Frame, first_line_end
from modegate.core.wire.weight import holds

# Atomic, so that the CR and the LF of one line end are never counted as two. CR CR comes first and waits
# for nothing, as a stream of CR alone would else be late by a frame: an LF behind it is a blank line.
_FRAME_END = re.compile(rb"\r\r|(?>\r\n|\n)(?>\r\n|\n|\r)")
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
_USUAL = re.compile(rb"event: ?([\w./-]{0,128})\ndata: ?([^\r\n]*+)\n\n")
"""The form of almost all frames that have a name."""

_skip = msgspec.json.Decoder(msgspec.Raw).decode
"""Reads without keeping anything of it."""


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
        """Yield the frames that the bytes complete; raises `TooLarge` behind them if one is too long."""
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
        self._end = self._end or first_line_end(text)
        if self._end == b"\n" and b"\r" not in text:
            if text.startswith(b"data: ") and text.find(b"\n") == len(text) - 2:
                return Frame(raw, text[6:-2])
            if (usual := _USUAL.fullmatch(text)) is not None:
                return Frame(raw, usual[2], usual[1])
        return parse(raw, text, self._end)


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
    for line, end in LINE.findall(text):
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

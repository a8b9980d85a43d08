"""Header lines as lists of byte pairs: which of them are passed on, and how they are read and changed.

Order, repetition and the bytes of values are kept; names are in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

Headers = list[tuple[bytes, bytes]]
"""Lines in the order they came; names in lower case."""

_HOP_BY_HOP = b"""
    connection keep-alive proxy-authenticate proxy-authentication-info proxy-authorization
    proxy-connection te trailer transfer-encoding upgrade
"""
HOP_BY_HOP = frozenset(_HOP_BY_HOP.split())
"""What RFC 9110 section 7.6.1 names, and the old and new `Proxy-*` that speak to the next hop only."""

NEVER_REMOVED = frozenset(
    {b"content-length", b"content-type", b"content-encoding", b"authorization"}
)
"""A `Connection: content-length` must not take from a message what it needs to be understood."""


_UTF8 = re.compile(rb'[^;,]*;\s*charset="?utf-?8"?\s*', re.IGNORECASE)

HEAD_LIMIT = 128 * 2**10
"""Bytes of a request's path, query and lines; servers of model APIs take 8 to 64 KiB."""

OUR_OWN = b"x-modegate-"
"""How the names of lines begin that are between a client and modegate."""


def end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the lines that are meant for the other end: in order, with duplicates, names in lower case.

    Lines named in a `Connection` line are removed as well.
    """
    lines = [(name.lower(), value) for name, value in headers]
    named = {option for name, value in lines if name == b"connection" for option in _tokens(value)}
    removed = HOP_BY_HOP | (named - NEVER_REMOVED)
    return [(name, value) for name, value in lines if name not in removed]


def request_headers(
    headers: Iterable[tuple[bytes, bytes]], *, content_length: bool = True
) -> Headers:
    """Return the lines of a client's request that go upstream.

    `Host` belongs to the new connection, `Expect` is answered here, and `x-modegate-*` is for
    modegate alone. With `content_length=False` the length goes too, for a body that was changed.
    """
    removed = {b"host", b"expect"} if content_length else {b"host", b"expect", b"content-length"}
    return [
        (name, value)
        for name, value in end_to_end(headers)
        if name not in removed and not name.startswith(OUR_OWN)
    ]


def get_all(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    return [value for key, value in headers if key == name]


def get_one(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """Return the value under a name, that of several lines combined by commas (RFC 9110 section 5.3)."""
    values = get_all(headers, name)
    return b", ".join(values) if values else None


def replace(headers: Iterable[tuple[bytes, bytes]], name: bytes, value: bytes | None) -> Headers:
    """Return the lines with one value under this name, in the place of the first; None removes it."""
    changed: Headers = []
    for line in headers:
        if line[0] != name:
            changed.append(line)
        elif value is not None:
            changed.append((name, value))
            value = None
    if value is not None:
        changed.append((name, value))
    return changed


def as_utf8(headers: Headers) -> Headers:
    """Return the lines of an answer whose text was read as UTF-8, so that no client reads it otherwise.

    Python's `requests` decodes what it gets as `charset` says, also where that is UTF-7 or Shift JIS, in
    which other bytes are quotes and backslashes.
    """
    kind = get_one(headers, b"content-type") or b""
    if b"charset" not in kind.lower() or _UTF8.fullmatch(kind):
        return headers
    return replace(headers, b"content-type", kind.split(b";")[0].strip() + b"; charset=utf-8")


def is_upgrade(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether the client asks for a WebSocket, which could not be gated.

    Any other upgrade (`h2c`, which some HTTP clients offer in every first request) may be ignored
    (RFC 9110 section 7.8): its lines are not passed on and the request is answered as it is.
    """
    return any(name == b"upgrade" and b"websocket" in _tokens(value) for name, value in headers)


def _tokens(value: bytes) -> set[bytes]:
    return {token.strip().lower() for token in value.split(b",")}

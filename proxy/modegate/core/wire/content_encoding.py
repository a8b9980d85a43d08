"""Content codings of bodies, taken off as the bytes come (RFC 9110 section 8.4).

A decoder gives with every feed all that can be known so far, so that no event of a stream is delayed.
What it gives in total is bounded, since a few kilobytes can stand for gigabytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import brotli  # type: ignore[import-untyped]
import zstandard

from modegate.core.errors import TooLarge

MAX_CODINGS = 4
"""Codings of one body; more than two are not seen."""

ZSTD_WINDOW = 8 * 2**20
"""The largest window that RFC 9659 allows in the coding `zstd`; it bounds the memory of a decoder."""

# The bound is checked each time that so much has been decoded.
_PIECE = 2**20

_SLICE = 64 * 2**10

# zstandard cannot be told to stop; so few bytes expand to 8 MB at most (a block of 128 KB in 4 bytes).
_ZSTD_SLICE = 256


MAX_DECODED = 4 * 2**20
"""Bytes that one piece of a compressed stream may stand for. A stream may be as long as it likes, as frames
and held calls have their own limits; but some hundred bytes can stand for gigabytes."""


class UnknownEncoding(ValueError):
    """A content coding that is not known here."""


class BadEncoding(ValueError):
    """Bytes that are not what their content coding says, or that stop too early."""


class _Layer(Protocol):
    """One coding."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield all that can be decoded, piece by piece, so that it can be stopped between two."""
        ...

    def complete(self) -> bool:
        """Whether the bytes so far are a whole body; none at all are."""
        ...


class Decoder:
    """The codings of one body."""

    def __init__(self, layers: Sequence[_Layer], limit: int, *, each: bool = False) -> None:
        """Take the layers, outermost first, and the bytes that each may give; `each`: at a feed."""
        self._layers = layers
        self._room = [limit] * len(layers)
        self._limit = limit
        self._each = each

    def feed(self, data: bytes) -> bytes:
        """Return what the bytes stand for; raises `BadEncoding`, or `TooLarge` if it is over the limit."""
        if self._each:
            self._room = [self._limit] * len(self._layers)
        for index, layer in enumerate(self._layers):
            data = self._undo(index, layer, data) if data else b""
        return data

    def _undo(self, index: int, layer: _Layer, data: bytes) -> bytes:
        pieces: list[bytes] = []
        try:
            for piece in _each(layer, data):
                pieces.append(piece)
                self._room[index] -= len(piece)
                if self._room[index] < 0:
                    pieces.clear()
                    raise TooLarge(f"the body is over {self._limit} bytes once it is decoded")
        except (zlib.error, brotli.error, zstandard.ZstdError) as error:
            raise BadEncoding(f"the body is not what its content-encoding says: {error}") from error
        return b"".join(pieces)

    def finish(self) -> None:
        """Raise `BadEncoding` if the bytes stopped too early; all that there is was given by `feed`."""
        if not all(layer.complete() for layer in self._layers):
            raise BadEncoding("the body stops before its content-encoding says that it ends")


def _each(layer: _Layer, data: bytes) -> Iterator[bytes]:
    """Feed slices: what a layer has not taken is copied for each piece that it gives."""
    for start in range(0, len(data), _SLICE):
        yield from layer.feed(data[start : start + _SLICE])


def decoder(content_encoding: bytes, limit: int, *, each: bool = False) -> Decoder:
    """Return a decoder for a body.

    Args:
        content_encoding: the header's value, a list in the order in which the codings were applied;
            empty where there is no such header.
        limit: bytes that the decoded body may have; `identity` is not counted.
        each: the limit is one for what a single feed brings, as a stream may be as long as it likes.

    Raises:
        UnknownEncoding: a coding is not known, or there are more than `MAX_CODINGS`.
    """
    names = [name.strip().lower() for name in content_encoding.split(b",")]
    applied = [name for name in names if name not in (b"", b"identity")]
    unknown = [name for name in applied if name not in _LAYERS]
    if unknown or len(applied) > MAX_CODINGS:
        raise UnknownEncoding(
            f"content-encoding {content_encoding[:80].decode('latin-1')!r} is not known here; "
            f"known, {MAX_CODINGS} at a time: {b', '.join(_LAYERS).decode()}"
        )
    return Decoder([_LAYERS[name]() for name in reversed(applied)], limit, each=each)


def whole(body: bytes, content_encoding: bytes, limit: int) -> bytes:
    """Return what a whole body stands for; raises as `decoder` and what it gives do."""
    undo = decoder(content_encoding, limit)
    plain = undo.feed(body)
    undo.finish()
    return plain


class _Zlib:
    """DEFLATE in a given wrapping; in gzip's, one member may follow another (RFC 1952 section 2.2)."""

    def __init__(self, wbits: int) -> None:
        self._wbits = wbits
        self._stream = zlib.decompressobj(wbits)
        self._begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._begun = True
        while True:
            if self._stream.eof:
                self._next_member()
            piece = self._stream.decompress(data, _PIECE)
            yield piece
            data = self._stream.unused_data or self._stream.unconsumed_tail
            # A full piece without unread input may still have more inside the stream.
            if not data and (self._stream.eof or len(piece) < _PIECE):
                break

    def complete(self) -> bool:
        return self._stream.eof or not self._begun

    def _next_member(self) -> None:
        if self._wbits != _GZIP:
            raise BadEncoding("bytes follow the end of the compressed body")
        self._stream = zlib.decompressobj(self._wbits)


class _Deflate:
    """The coding `deflate`: zlib's format, or without it, as some servers send (RFC 9110 section 8.4.1.2)."""

    def __init__(self) -> None:
        self._stream: _Zlib | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._stream is None:
            # The low half of zlib's first byte is 8. Bare DEFLATE would begin so only with a stored
            # block whose padding is not zero.
            self._stream = _Zlib(zlib.MAX_WBITS if data[0] & 0x0F == 8 else -zlib.MAX_WBITS)
        return self._stream.feed(data)

    def complete(self) -> bool:
        return self._stream is None or self._stream.complete()


class _Brotli:
    """RFC 7932."""

    def __init__(self) -> None:
        self._stream = brotli.Decompressor()
        self._begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._begun = True
        while True:
            piece = self._stream.process(data, output_buffer_limit=_PIECE)
            yield piece
            data = b""
            # A full piece may have more behind it, even where the stream would take more input.
            more = len(piece) >= _PIECE or not self._stream.can_accept_more_data()
            if self._stream.is_finished() or not more:
                break

    def complete(self) -> bool:
        return not self._begun or bool(self._stream.is_finished())


class _Zstd:
    """RFC 8878; one frame may follow another (section 3)."""

    def __init__(self) -> None:
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW)
        self._stream = self._decompressor.decompressobj()
        self._begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._begun = True
        for start in range(0, len(data), _ZSTD_SLICE):
            part = data[start : start + _ZSTD_SLICE]
            while part:
                if self._stream.eof:
                    self._stream = self._decompressor.decompressobj()
                yield self._stream.decompress(part)
                part = self._stream.unused_data

    def complete(self) -> bool:
        return self._stream.eof or not self._begun


_GZIP = zlib.MAX_WBITS | 16

_LAYERS: dict[bytes, Callable[[], _Layer]] = {
    b"gzip": lambda: _Zlib(_GZIP),
    b"x-gzip": lambda: _Zlib(_GZIP),
    b"deflate": _Deflate,
    b"br": _Brotli,
    b"zstd": _Zstd,
}

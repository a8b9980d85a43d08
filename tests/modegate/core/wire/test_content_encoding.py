"""Bodies are decoded as they come: whole, byte by byte, cut anywhere; never beyond the limit."""

from __future__ import annotations

import gzip
import os
import tracemalloc
import zlib
from collections.abc import Callable, Iterable

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.errors import TooLarge
from modegate.core.wire.content_encoding import (
    MAX_CODINGS,
    ZSTD_WINDOW,
    BadEncoding,
    Decoder,
    UnknownEncoding,
    decoder,
)

LIMIT = 2**20
TEXT = b'data: {"choices": [{"delta": {"content": "hello"}}]}\n\n' * 5

Encode = Callable[[bytes], bytes]


def raw_deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


def stored_deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(level=0, wbits=-zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


CODINGS: dict[str, tuple[bytes, Encode]] = {
    "none": (b"", bytes),
    "identity": (b"identity", bytes),
    "gzip": (b"gzip", gzip.compress),
    "x-gzip": (b"X-GZIP", gzip.compress),
    "deflate": (b"deflate", zlib.compress),
    "deflate-bare": (b"deflate", raw_deflate),
    "deflate-stored": (b"deflate", stored_deflate),
    "br": (b"br", lambda data: bytes(brotli.compress(data, quality=5))),
    "zstd": (b"zstd", zstandard.compress),
    "gzip-then-br": (
        b"gzip, br",
        lambda data: bytes(brotli.compress(gzip.compress(data), quality=5)),
    ),
    "zstd-then-identity": (b" zstd ,identity,", zstandard.compress),
}
COMPRESSED = [name for name, (header, _) in CODINGS.items() if header not in (b"", b"identity")]


def decode(header: bytes, pieces: Iterable[bytes], limit: int = LIMIT) -> bytes:
    undo = decoder(header, limit)
    plain = b"".join(undo.feed(piece) for piece in pieces)
    undo.finish()
    return plain


def cuts(data: bytes) -> Iterable[list[bytes]]:
    yield [data]
    yield [data[i : i + 1] for i in range(len(data))]
    for at in range(len(data) + 1):
        yield [data[:at], data[at:]]


@pytest.mark.parametrize("name", CODINGS)
def test_b106_a_body_is_the_same_however_it_is_cut(name: str) -> None:
    header, encode = CODINGS[name]
    for pieces in cuts(encode(TEXT)):
        assert decode(header, pieces) == TEXT


@given(st.sampled_from(sorted(CODINGS)), st.binary(max_size=300), st.integers(1, 50))
def test_any_body_comes_back(name: str, body: bytes, size: int) -> None:
    header, encode = CODINGS[name]
    coded = encode(body)
    assert decode(header, [coded[i : i + size] for i in range(0, len(coded), size)]) == body


@pytest.mark.parametrize("name", COMPRESSED)
@pytest.mark.parametrize("random", [False, True], ids=["dense", "random"])
def test_b103_a_large_body_comes_back(name: str, random: bool) -> None:
    header, encode = CODINGS[name]
    body = os.urandom(2**20 + 2**17) if random else bytes(5 * 2**20)
    coded = encode(body)
    assert decode(header, [coded], len(body) + 2**10) == body
    assert decode(header, [coded[:7], coded[7:-7], coded[-7:]], 2**63) == body


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_members_and_frames_may_follow_one_another(name: str) -> None:
    header, encode = CODINGS[name]
    for pieces in cuts(encode(b"one ") + encode(b"") + encode(b"two")):
        assert decode(header, pieces) == b"one two"


@pytest.mark.parametrize("name", ["deflate", "deflate-bare", "br"])
def test_nothing_may_follow_where_there_is_one_stream(name: str) -> None:
    header, encode = CODINGS[name]
    with pytest.raises(BadEncoding):
        decode(header, [encode(b"one"), encode(b"two")])


def flushing(header: bytes) -> tuple[Encode, Callable[[], bytes]]:
    """Return how a server compresses one event and flushes it, and how it ends."""
    if header == b"br":
        br = brotli.Compressor()
        return lambda data: br.process(data) + br.flush(), br.finish
    if header == b"zstd":
        zs = zstandard.ZstdCompressor().compressobj()
        block = zstandard.COMPRESSOBJ_FLUSH_BLOCK
        return lambda data: zs.compress(data) + zs.flush(block), zs.flush
    zl = zlib.compressobj(wbits=31 if header == b"gzip" else 15)
    return lambda data: zl.compress(data) + zl.flush(zlib.Z_SYNC_FLUSH), zl.flush


@pytest.mark.parametrize("header", [b"gzip", b"deflate", b"br", b"zstd"])
def test_an_event_is_given_as_soon_as_it_is_there(header: bytes) -> None:
    send, end = flushing(header)
    undo = decoder(header, LIMIT)
    for number in range(20):
        event = b"data: %d\n\n" % number
        assert undo.feed(send(event)) == event
    assert undo.feed(end()) == b""
    undo.finish()


@pytest.mark.parametrize("name", COMPRESSED)
def test_a_body_that_was_cut_off_is_not_complete(name: str) -> None:
    header, encode = CODINGS[name]
    coded = encode(TEXT)
    for end in range(1, len(coded)):
        undo = decoder(header, LIMIT)
        assert TEXT.startswith(undo.feed(coded[:end]))
        with pytest.raises(BadEncoding, match="stops before"):
            undo.finish()


@pytest.mark.parametrize("name", CODINGS)
def test_no_bytes_at_all_are_a_complete_body(name: str) -> None:
    """An answer to HEAD, or a 204, keeps the header of the body that it does not have."""
    assert decode(CODINGS[name][0], [b"", b""]) == b""


@pytest.mark.parametrize("name", COMPRESSED)
def test_bytes_of_another_coding_are_refused(name: str) -> None:
    with pytest.raises(BadEncoding, match="not what its content-encoding says"):
        decode(CODINGS[name][0], [b'{"model": "m", "messages": []}'])


@given(st.sampled_from(COMPRESSED), st.binary(min_size=1, max_size=60))
def test_any_bytes_are_decoded_or_refused(name: str, junk: bytes) -> None:
    try:
        decode(CODINGS[name][0], [junk])
    except (BadEncoding, TooLarge):
        return


@pytest.mark.parametrize("header", [b"compress", b"gzip, aws-chunked", b"gzip;q=1", b"\xff"])
def test_an_unknown_coding_is_named(header: bytes) -> None:
    with pytest.raises(UnknownEncoding, match="is not known here; known") as caught:
        decoder(header, LIMIT)
    # S10: as text, and not as Python writes bytes.
    assert str(caught.value).startswith(
        f"content-encoding {header.decode('latin-1')!r} is not known"
    )


def test_codings_are_not_stacked_without_end() -> None:
    assert isinstance(decoder(b",".join([b"gzip"] * MAX_CODINGS), LIMIT), Decoder)
    with pytest.raises(UnknownEncoding):
        decoder(b",".join([b"gzip"] * (MAX_CODINGS + 1)), LIMIT)


@pytest.mark.parametrize("name", COMPRESSED)
def test_a_body_may_have_the_limit_and_no_byte_more(name: str) -> None:
    header, encode = CODINGS[name]
    assert decode(header, [encode(bytes(1000))], 1000) == bytes(1000)
    with pytest.raises(TooLarge, match="over 999 bytes"):
        decode(header, [encode(bytes(1000))], 999)


@pytest.mark.parametrize("name", COMPRESSED)
def test_a_bomb_stops_long_before_it_is_whole(name: str) -> None:
    header, encode = CODINGS[name]
    coded = encode(bytes(2**24))
    with pytest.raises(TooLarge):
        decoder(header, 2**16).feed(coded)


def test_a_bomb_inside_another_coding_is_bounded_too() -> None:
    coded = brotli.compress(gzip.compress(b"") * 2**16)
    with pytest.raises(TooLarge):
        decoder(b"gzip, br", 2**16).feed(coded)


def test_the_limit_counts_over_all_feeds() -> None:
    send, _ = flushing(b"gzip")
    undo = decoder(b"gzip", 25)
    undo.feed(send(b"0123456789"))
    undo.feed(send(b"0123456789"))
    with pytest.raises(TooLarge):
        undo.feed(send(b"0123456789"))


def test_a_window_that_needs_too_much_memory_is_refused() -> None:
    wide = zstandard.ZstdCompressionParameters.from_level(1, window_log=24)
    assert 1 << wide.window_log > ZSTD_WINDOW
    stream = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    coded = stream.compress(bytes(100)) + stream.flush()
    with pytest.raises(BadEncoding, match="too much memory"):
        decode(b"zstd", [coded])


@pytest.mark.parametrize("name", COMPRESSED)
def test_s2_a_bomb_takes_little_more_than_its_limit(name: str) -> None:
    """Some kilobytes stand for 64 MB: decoding stops at the limit, and nothing is kept of it."""
    header, encode = CODINGS[name]
    bomb = encode(bytes(64 * 2**20))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        with pytest.raises(TooLarge):
            decoder(header, 2**20).feed(bomb)
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 2**20
    assert peak - before < 24 * 2**20

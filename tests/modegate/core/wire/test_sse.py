"""Server-sent events: the same frames however the bytes were cut, and every byte in one of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.errors import TooLarge
from modegate.core.wire import sse, sse_reader
from modegate.core.wire.sse import Frame
from modegate.core.wire.sse_reader import FrameReader

LIMIT = 1_000_000
BOM = b"\xef\xbb\xbf"

PIECES = st.sampled_from(
    [
        *(b"data: a", b"data:b", b"data:  c", b"data", b"data:", b": note", b"event: x", b"id: 1"),
        *(b"\n", b"\n", b"\n\n", b"\r\n", b"\r\n\r\n", b"\r", b"\r\r", b"\n\r", b"a", BOM),
    ]
)
STREAMS = st.lists(PIECES, max_size=14).map(b"".join)


def read(pieces: Iterable[bytes], limit: int = LIMIT) -> list[Frame]:
    reader = FrameReader(limit)
    frames = [frame for piece in pieces for frame in reader.feed(piece)]
    rest = reader.finish()
    return frames + ([rest] if rest else [])


def bytewise(body: bytes) -> list[bytes]:
    return [body[at : at + 1] for at in range(len(body))]


def by_the_standard(body: bytes) -> list[bytes]:
    """Return the data of every event as the HTML standard reads it; what is not ended counts too."""
    events: list[bytes] = []
    for block in re.sub(rb"\r\n|\r", b"\n", body.removeprefix(BOM)).split(b"\n\n"):
        lines = [line for line in block.split(b"\n") if re.match(rb"data(:|\Z)", line)]
        if lines:
            events.append(b"\n".join(line[5:].removeprefix(b" ") for line in lines))
    return events


@given(STREAMS)
def test_each_cut_gives_the_same_frames(body: bytes) -> None:
    whole = read([body])
    assert read(bytewise(body)) == whole
    for at in range(len(body)):
        assert read([body[:at], body[at:]]) == whole
    assert b"".join(frame.raw for frame in whole) == body


@given(STREAMS)
def test_the_data_is_what_the_standard_reads(body: bytes) -> None:
    assert [frame.data for frame in read([body]) if frame.data is not None] == by_the_standard(body)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
def test_a_frame_is_given_the_moment_it_is_complete(end: bytes) -> None:
    reader = FrameReader(LIMIT)
    body = b"data: {}" + end + end
    given_at = [at for at, byte in enumerate(bytewise(body)) if list(reader.feed(byte))]
    assert given_at == [len(body) - 1]
    assert reader.finish() is None


@pytest.mark.parametrize(
    ("raw", "frame"),
    [
        (b"data: a\n\n", Frame(b"data: a\n\n", b"a")),
        (b"data:a\n\n", Frame(b"data:a\n\n", b"a")),
        (b"data:  a \n\n", Frame(b"data:  a \n\n", b" a ")),
        (b"data: a\r\n\r\n", Frame(b"data: a\r\n\r\n", b"a")),
        (b"data: a\r\r", Frame(b"data: a\r\r", b"a")),
        (b"data: a\r\n\n", Frame(b"data: a\r\n\n", b"a", safe=b"data: a\r\n\r\n")),
        (BOM + b"data: a\n\n", Frame(BOM + b"data: a\n\n", b"a")),
        (b"event: e\ndata: a\n\n", Frame(b"event: e\ndata: a\n\n", b"a", b"e")),
        (b"id: 1\nretry: 2\ndata: a\n\n", Frame(b"id: 1\nretry: 2\ndata: a\n\n", b"a")),
        (b":\n\n", Frame(b":\n\n", None)),
        (b": keepalive\n\n", Frame(b": keepalive\n\n", None, safe=b":\n\n")),
        (b"x-y: z\ndata: a\n\n", Frame(b"x-y: z\ndata: a\n\n", b"a", safe=b"data: a\n\n")),
        (b":\ndata: a\n\n", Frame(b":\ndata: a\n\n", b"a")),
        (b"data\n\n", Frame(b"data\n\n", b"")),
        (b"\n\n", Frame(b"\n\n", None)),
        (
            "data: \u2028\x85\n\n".encode(),
            Frame("data: \u2028\x85\n\n".encode(), "\u2028\x85".encode()),
        ),
    ],
)
def test_what_a_frame_says(raw: bytes, frame: Frame) -> None:
    assert read([raw]) == [frame]


@pytest.mark.parametrize(
    "raw",
    [
        b"data: {}\ndata: {}\n\n",
        b" data: {}\n\n",
        b"DATA: {}\n\n",
        b"x: data: {}\ndata: {}\n\n",
        b"{}\n\n",
        "x: \u2028data: {}\n\n".encode(),
        "x: \x85data: {}\n\n".encode(),
        b"x: \x0bdata: {}\n\n",
        b"event: a data: {}\n\n",
        b"event: \x1cdata: {}\n\n",
    ],
)
def test_what_readers_could_differ_on_is_marked(raw: bytes) -> None:
    assert [frame.odd for frame in read([raw])] == [True]


def test_a_byte_order_mark_counts_only_in_front() -> None:
    first, second = read([BOM + b"data: a\n\n" + BOM + b"data: a\n\n"])
    assert (first.odd, second.odd) == (False, True)


@pytest.mark.parametrize("cut", [bytewise, lambda body: [body]], ids=["bytewise", "whole"])
def test_a_frame_may_be_as_long_as_the_limit_and_no_longer(
    cut: Callable[[bytes], list[bytes]],
) -> None:
    exact, over = b"data: 4567\n\n", b"data: 45678\n\n"
    assert [frame.data for frame in read(cut(exact + exact), limit=len(exact))] == [b"4567"] * 2
    got: list[Frame] = []
    reader = FrameReader(len(exact))
    frames = (frame for piece in cut(exact + over) for frame in reader.feed(piece))
    with pytest.raises(TooLarge, match=r"over 12 bytes \(limits.frame\)"):
        got.extend(frames)
    assert [frame.raw for frame in got] == [exact]


def test_what_never_ends_is_refused_when_it_is_over_the_limit() -> None:
    reader = FrameReader(10)
    assert list(reader.feed(b"x" * 10)) == []
    with pytest.raises(TooLarge):
        list(reader.feed(b"x"))


def test_finish_gives_the_rest_once() -> None:
    reader = FrameReader(LIMIT)
    assert list(reader.feed(b"data: a\n\ndata: b")) == [Frame(b"data: a\n\n", b"a")]
    assert reader.finish() == Frame(b"data: b", b"b")
    assert reader.finish() is None


def test_bytes_are_looked_at_a_bounded_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fed byte by byte, a frame of n bytes costs in the order of n, not of n squared."""
    seen = 0
    pattern = sse_reader._FRAME_END

    class Counting:
        def search(self, buffer: bytearray, at: int) -> re.Match[bytes] | None:
            nonlocal seen
            seen += len(buffer) - at
            return pattern.search(buffer, at)

    monkeypatch.setattr(sse_reader, "_FRAME_END", Counting())
    body = b"data: " + b"x" * 20_000 + b"\r\n\r\n"
    assert [frame.raw for frame in read(bytewise(body * 2))] == [body, body]
    assert seen <= 5 * len(body * 2)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
def test_h16_what_is_written_ends_as_the_stream_does(end: bytes) -> None:
    writer = sse.FrameWriter()
    writer.seen(b"data: 1" + end + end)
    assert writer.own(b"{}", b"x") == end.join([b"event: x", b"data: {}", b"", b""])
    assert writer.comment("wait") == b": wait" + end + end
    # What came without its blank line gets it before something else follows.
    assert writer.passed(b"data: 2") + writer.own(b"3") == b"data: 2%bdata: 3%b" % (
        end * 2,
        end * 2,
    )
    assert writer.passed(b"") == b""


def test_what_is_written_reads_back() -> None:
    writer = sse.FrameWriter()
    assert read([writer.own(b"{}"), writer.comment("wait")]) == [
        Frame(b"data: {}\n\n", b"{}"),
        Frame(b": wait\n\n", None, safe=b":\n\n"),
    ]


CALL = b'data: {"choices":[{"delta":{"tool_calls":[{}]}}]}'


@pytest.mark.parametrize(
    "line",
    [
        *(b": " + sign + CALL for sign in (b"", b"\x0b", b"\x0c", b"\x85", b"\xc2\x85")),
        *(b":" + sign + CALL for sign in (b"\xe2\x80\xa8", b"\xe2\x80\xa9", b"\x1c", b"\x00")),
        *(b"id: 1" + sign + CALL for sign in (b" ", b"\x0b", b"\x85", b"\xe2\x80\xa8")),
        *(b"retry: 1" + sign + CALL for sign in (b" ", b"\x0c")),
        b"id: data:x",
        b"ID: 1",
        b"id: " + b"1" * 300,
    ],
)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
def test_h13_what_stands_beside_the_data_says_nothing(line: bytes, end: bytes) -> None:
    """No client can take it for data, however it cuts lines and wherever it looks for `data:`."""
    for body in (line + end + end, line + end + b"data: {}" + end + end):
        for frames in (read([body]), read(bytewise(body))):
            (frame,) = frames
            assert frame.raw == body
            sent = frame.checked()
            assert not frame.odd
            assert sent.data == frame.data
            assert sent.raw.removeprefix(b":").strip() in (b"", b"data: {}")


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85"])
def test_h13_what_ends_a_line_for_some_clients_is_escaped(sign: str) -> None:
    """A client that cuts there would lose the frame, and with it a piece of a call's arguments."""
    text = f"a{sign}b …x\u2027"
    data = json.dumps({"x": text}, ensure_ascii=False).encode()
    for body in (b"data: " + data + b"\n\n", b"event: e\ndata: " + data + b"\n\n: x\n\n"):
        (frame, *_) = read([body])
        sent = frame.checked()
        assert frame.raw.decode().splitlines() != frame.raw.decode().split("\n")[:-1]
        assert sent.raw.decode().splitlines() == sent.raw.decode().split("\n")[:-1]
        assert sent.data is not None
        assert sent.raw.endswith(b"data: " + sent.data + b"\n\n")
        assert json.loads(sent.data) == {"x": text}


def test_g8_a_text_over_very_many_lines_is_joined() -> None:
    """In a time that grows with them, not with their square, which would be minutes here."""
    raw = b"data: {\n" + b"data: \n" * 200_000 + b"data: }\n\n"
    (frame,) = FrameReader(len(raw)).feed(raw)
    assert frame.checked().raw == b"data: {" + b" " * 200_001 + b"}\n\n"

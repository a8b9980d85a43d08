"""Upstreams that misbehave; holds for each implementation of `Upstream`."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence

import pytest

from modegate.core.errors import UpstreamFailed, UpstreamTimeout
from modegate.core.policy.upstreams import CONNECT_TIMEOUT, READ_TIMEOUT
from modegate.server.upstream.protocol import UpstreamRequest
from support.raw_upstream import Act, Piece, RawUpstream, chunk, chunked, head
from support.upstreams import Dial, get, post, read

# Bodies that break off

CHUNKED = head(200, [("Transfer-Encoding", "chunked")])
BROKEN: dict[str, Sequence[Piece]] = {
    "length too long": [head(200, [("Content-Length", "9")]) + b"abc", Act.CLOSE],
    "half closed": [head(200, [("Content-Length", "9")]) + b"abc", Act.HALF_CLOSE],
    "reset": [CHUNKED + chunk(b"abc"), Act.RESET],
    "reset within its length": [head(200, [("Content-Length", "9")]) + b"abc", Act.RESET],
    "no last chunk": [CHUNKED + chunk(b"abc"), Act.CLOSE],
    "half closed between chunks": [CHUNKED + chunk(b"abc"), Act.HALF_CLOSE],
    "closed within a chunk": [CHUNKED + b"9\r\nabc", Act.CLOSE],
    "size that is no number": [CHUNKED + chunk(b"abc"), b"zz\r\nab\r\n"],
    "size below nothing": [CHUNKED + chunk(b"abc"), b"-2\r\nab\r\n"],
    "size with a prefix": [CHUNKED + chunk(b"abc"), b"0x2\r\nab\r\n"],
    "no size": [CHUNKED + chunk(b"abc"), b"\r\nab\r\n"],
    "size over all bounds": [CHUNKED + chunk(b"abc"), b"f" * 17 + b"\r\nab\r\n"],
    "more than the size": [CHUNKED + b"3\r\nabc", b"def\r\n0\r\n\r\n"],
    "line feeds alone": [CHUNKED + chunk(b"abc"), b"2\nab\n0\n\n"],
    "trailers without end": [CHUNKED + chunk(b"abc"), b"0\r\n" + b"X: y\r\n" * 50_000],
    "a trailer without end": [CHUNKED + chunk(b"abc"), b"0\r\nX: " + b"y" * 70_000],
}


@pytest.mark.parametrize("answer_pieces", BROKEN.values(), ids=BROKEN)
async def test_b108_a_body_that_breaks_off_fails_after_what_came(
    dial: Dial, answer_pieces: Sequence[Piece]
) -> None:
    """What came was given, the failure names host and cause, and the connection is not used again."""
    gate = asyncio.Event()
    async with RawUpstream() as raw, dial(raw.base_url) as upstream:
        raw.enqueue([*answer_pieces[:1], gate, *answer_pieces[1:]])
        answer = await upstream.send(post())
        chunks = answer.chunks()
        assert await anext(chunks) == b"abc"
        gate.set()
        with pytest.raises(UpstreamFailed, match=f"upstream 127.0.0.1:{raw.port}: ") as caught:
            await anext(chunks)
        assert not isinstance(caught.value, UpstreamTimeout)
        assert await read(await upstream.send(post())) == b"{}"
        await raw.gone(0)
    assert [one.connection for one in raw.requests] == [0, 1]


@pytest.mark.parametrize("act", [Act.CLOSE, Act.RESET, Act.HALF_CLOSE])
@pytest.mark.parametrize("framing", [("Content-Length", "9"), ("Transfer-Encoding", "chunked")])
async def test_a_body_that_never_came_fails(dial: Dial, act: Act, framing: tuple[str, str]) -> None:
    """A head alone is no empty answer."""
    gate = asyncio.Event()
    async with (
        RawUpstream([head(200, [framing]), gate, act]) as raw,
        dial(raw.base_url) as upstream,
    ):
        answer = await upstream.send(post())
        gate.set()
        with pytest.raises(UpstreamFailed, match=f"upstream 127.0.0.1:{raw.port}: "):
            await read(answer)


async def test_b108_a_body_that_broke_before_it_was_read_fails_too(dial: Dial) -> None:
    gate = asyncio.Event()
    start = head(200, [("Transfer-Encoding", "chunked")]) + b"1\r\na\r\n"
    async with RawUpstream([start, gate, b"zz\r\n"]) as raw, dial(raw.base_url) as upstream:
        answer = await upstream.send(post())
        gate.set()
        await raw.gone()
        with pytest.raises(UpstreamFailed, match="broke off"):
            await read(answer)


# No answer


def lines(*more: str) -> bytes:
    """Return an answer whose head has these lines."""
    return ("\r\n".join(["HTTP/1.1 200 OK", *more, "", ""])).encode("latin-1") + b"ab"


CLOSED, INVALID = "closed the connection without an answer", "not valid HTTP"
NO_ANSWER: dict[str, tuple[Sequence[Piece], str]] = {
    "closed": ([Act.CLOSE], CLOSED),
    "half closed": ([Act.HALF_CLOSE, Act.HANG], CLOSED),
    "closed in the head": ([b"HTTP/1.1 200 OK\r\nX: ", Act.CLOSE], CLOSED),
    "half closed in the head": ([b"HTTP/1.1 200 OK\r\nX: ", Act.HALF_CLOSE, Act.HANG], CLOSED),
    "closed after 100": ([head(100), Act.CLOSE], CLOSED),
    "reset": ([Act.RESET], "connection broke"),
    "reset in the head": ([b"HTTP/1.1 200 OK\r\nX: ", Act.RESET], "connection broke"),
    "not http": ([b"SSH-2.0-x\r\n\r\n", Act.CLOSE], INVALID),
    "a body alone": ([b"<html>busy</html>", Act.CLOSE], INVALID),
    "two lengths": ([lines("Content-Length: 1", "Content-Length: 2")], INVALID),
    "length and chunks": (
        [head(200, [("Content-Length", "1"), ("Transfer-Encoding", "chunked")]) + b"0\r\n\r\n"],
        INVALID,
    ),
    "length below nothing": ([lines("Content-Length: -2")], INVALID),
    "length with a sign": ([lines("Content-Length: +2")], INVALID),
    "length over all bounds": ([lines("Content-Length: " + "9" * 30)], INVALID),
    "space before the colon": ([lines("X : a", "Content-Length: 2")], INVALID),
    "NUL in a line": ([lines("X: a\0b", "Content-Length: 2")], INVALID),
    "CR in a line": ([lines("X: a\rb", "Content-Length: 2")], INVALID),
    "status of two digits": ([b"HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\nab"], INVALID),
    "status of four digits": ([b"HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nab"], INVALID),
    "huge value": ([lines("X: " + "y" * 70_000)], INVALID),
    "huge name": ([lines("X" * 70_000 + ": y")], INVALID),
    "status line without end": ([b"HTTP/1.1 200 " + b"x" * 70_000, Act.HANG], INVALID),
    "value without end": ([b"HTTP/1.1 200 OK\r\nX: " + b"y" * 140_000, Act.HANG], INVALID),
    "head without end": ([b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000, Act.HANG], INVALID),
    "status of no class": ([b"HTTP/1.1 600 OK\r\nContent-Length: 2\r\n\r\nab"], "status 600"),
    "highest status": ([b"HTTP/1.1 999 OK\r\nContent-Length: 2\r\n\r\nab"], "status 999"),
    "another protocol": (
        [head(101, [("Upgrade", "websocket"), ("Connection", "Upgrade")]) + b"raw", Act.HANG],
        "another protocol",
    ),
    "unknown transfer coding": (
        [head(200, [("Transfer-Encoding", "gzip, chunked")]) + b"0\r\n\r\n", Act.CLOSE],
        "transfer coding",
    ),
}


@pytest.mark.parametrize(("answer_pieces", "words"), NO_ANSWER.values(), ids=NO_ANSWER)
async def test_no_readable_answer_names_host_and_cause_and_no_secret(
    dial: Dial, answer_pieces: Sequence[Piece], words: str
) -> None:
    request = UpstreamRequest(
        "POST", b"/v1/x?key=geheim", [(b"authorization", b"Bearer geheim")], b"{}"
    )
    async with RawUpstream(answer_pieces) as raw, dial(raw.base_url) as upstream:
        with pytest.raises(UpstreamFailed, match=words) as caught:
            await upstream.send(request)
        assert len(raw.requests) == 1
    assert f"127.0.0.1:{raw.port}" in str(caught.value)
    assert "geheim" not in str(caught.value)
    assert not isinstance(caught.value, UpstreamTimeout)


# Answers whose end is in doubt


SURPLUS: dict[str, tuple[bytes, int, bytes]] = {
    "length too short": (head(200, [("Content-Length", "2")]) + b"ab", 200, b"ab"),
    "204": (head(204), 204, b""),
    "204 with a length": (head(204, [("Content-Length", "4")]), 204, b""),
    "304 with a length": (head(304, [("Content-Length", "4")]), 304, b""),
    "chunks": (CHUNKED + chunk(b"ab") + b"0\r\n\r\n", 200, b"ab"),
}


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "later"])
@pytest.mark.parametrize(("answer_bytes", "status", "body"), SURPLUS.values(), ids=SURPLUS)
async def test_b108_what_follows_an_answer_is_nobodys(
    dial: Dial, answer_bytes: bytes, status: int, body: bytes, *, at_once: bool
) -> None:
    """It is no part of this answer nor the beginning of the next; an answer that it came with may fail."""
    surplus = b"more" + head(200, [("Content-Length", "6")]) + b"forged"
    async with RawUpstream() as raw, dial(raw.base_url) as upstream:
        raw.enqueue([answer_bytes + surplus if at_once else answer_bytes])
        try:
            answer = await upstream.send(post())
            assert (answer.status, await read(answer)) == (status, body)
        except UpstreamFailed:
            assert at_once
        if not at_once:
            raw.say(surplus)
        assert await read(await upstream.send(post())) == b"{}"


WHOLE: dict[str, Sequence[Piece]] = {
    "until close": [head(200), b"ab", Act.CLOSE],
    "until half closed": [head(200), b"ab", Act.HALF_CLOSE],
    "half closed behind it": [head(200, [("Content-Length", "2")]) + b"ab", Act.HALF_CLOSE],
    "HTTP/1.0": [b"HTTP/1.0 200 OK\r\n\r\nab", Act.CLOSE],
    "HTTP/1.0 with a length": [b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab"],
    "no reason": [b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nab"],
    "line feeds alone": [b"HTTP/1.1 200 OK\nContent-Length: 2\n\nab"],
    "chunk extensions": [CHUNKED + b'1;a="b"\r\na\r\n1 ;c\r\nb\r\n0;d\r\n\r\n'],
    "trailers": [CHUNKED + b"2\r\nab\r\n0\r\nX-T: 1\r\n\r\n"],
    "interim answers": [
        head(100) + head(102) + head(103, [("Link", "</x>")]),
        head(200, [("Content-Length", "2")]) + b"ab",
    ],
}


@pytest.mark.parametrize("answer_pieces", WHOLE.values(), ids=WHOLE)
async def test_an_odd_answer_that_is_whole_is_taken(
    dial: Dial, answer_pieces: Sequence[Piece]
) -> None:
    """Old, terse or wordy: there is no doubt about what it says."""
    async with RawUpstream() as raw, dial(raw.base_url) as upstream:
        raw.enqueue(answer_pieces)
        answer = await upstream.send(post())
        assert (answer.status, await read(answer)) == (200, b"ab")
        assert {name for name, _ in answer.headers} <= {b"content-length"}
        assert await read(await upstream.send(post())) == b"{}"


# Nobody there


async def test_nobody_listening_is_told(dial: Dial) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        async with dial(f"http://127.0.0.1:{taken.getsockname()[1]}") as upstream:
            with pytest.raises(UpstreamFailed, match=r"no connection \(Connection refused\)"):
                await upstream.send(get())


async def test_an_upstream_without_tls_is_told(dial: Dial) -> None:
    async with (
        RawUpstream(on_connect=[b"HTTP/1.1 400 Bad Request\r\n\r\n"]) as raw,
        dial(f"https://127.0.0.1:{raw.port}") as upstream,
    ):
        with pytest.raises(UpstreamFailed, match="TLS failed"):
            await upstream.send(get())


async def test_a_body_that_fails_while_it_is_sent_fails_the_request(dial: Dial) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"ab"
        raise ConnectionError

    async with RawUpstream() as raw, dial(raw.base_url) as upstream:
        with pytest.raises(UpstreamFailed):
            await upstream.send(post(broken(), [(b"content-length", b"9")]))
        await raw.gone()
    assert raw.requests == []


# Time


def test_b114_long_silence_is_normal_and_connecting_is_not() -> None:
    assert READ_TIMEOUT >= 600
    assert CONNECT_TIMEOUT <= 10


async def test_b114_silence_longer_than_the_connect_timeout_ends_nothing(dial: Dial) -> None:
    """The connect timeout passes several times over before the head and before the body."""
    before_head, before_body = asyncio.Event(), asyncio.Event()
    answer_pieces = [before_head, *chunked(before_body, b"at last")]
    loop = asyncio.get_running_loop()
    async with RawUpstream(answer_pieces) as raw, dial(raw.base_url, connect_timeout=0.05) as up:
        loop.call_later(0.2, before_head.set)
        answer = await up.send(post())
        loop.call_later(0.2, before_body.set)
        assert await read(answer) == b"at last"


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\nX: "], ids=["before", "in"])
async def test_b114_a_read_limit_without_head_is_a_timeout(dial: Dial, begun: bytes) -> None:
    stalled: list[Piece] = [begun, Act.HANG] if begun else [Act.HANG]
    async with RawUpstream(stalled) as raw, dial(raw.base_url, read_timeout=0.05) as upstream:
        with pytest.raises(UpstreamTimeout, match="no byte for too long"):
            await upstream.send(post())
        await raw.gone()


async def test_b114_a_read_limit_within_the_body_is_no_silent_truncation(dial: Dial) -> None:
    answer_pieces = chunked(b"a", Act.HANG)
    async with RawUpstream(answer_pieces) as raw, dial(raw.base_url, read_timeout=0.05) as up:
        chunks = (await up.send(post())).chunks()
        assert await anext(chunks) == b"a"
        with pytest.raises(UpstreamTimeout):
            await anext(chunks)


async def test_a_host_that_takes_no_connection_is_a_timeout(dial: Dial) -> None:
    """A full backlog: the kernel leaves further connections unanswered."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        waiting = [socket.socket() for _ in range(3)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(address)
        async with dial(f"http://127.0.0.1:{address[1]}", connect_timeout=0.1) as upstream:
            with pytest.raises(UpstreamTimeout, match="no connection in time"):
                await upstream.send(get())
        for each in waiting:
            each.close()

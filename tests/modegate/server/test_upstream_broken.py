"""Upstreams that misbehave; holds for each implementation of `Upstream`."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence

import pytest

from modegate.core.errors import UpstreamFailed, UpstreamTimeout
from modegate.core.upstreams import CONNECT_TIMEOUT, READ_TIMEOUT
from modegate.server.upstream import UpstreamRequest
from support.raw_upstream import Act, Piece, RawUpstream, chunked, head
from support.upstreams import Dial, get, post, read

# What goes wrong

BROKEN: dict[str, Sequence[Piece]] = {
    "length too long": [head(200, [("Content-Length", "9")]) + b"abc", Act.CLOSE],
    "reset": [head(200, [("Transfer-Encoding", "chunked")]) + b"3\r\nabc\r\n", Act.RESET],
    "no last chunk": [head(200, [("Transfer-Encoding", "chunked")]) + b"3\r\nabc\r\n", Act.CLOSE],
    "half closed": [head(200, [("Content-Length", "9")]) + b"abc", Act.HALF_CLOSE],
}


@pytest.mark.parametrize("answer_pieces", BROKEN.values(), ids=BROKEN)
async def test_b108_a_body_that_breaks_off_fails_after_what_came(
    dial: Dial, answer_pieces: Sequence[Piece]
) -> None:
    gate = asyncio.Event()
    slowly = [*answer_pieces[:1], gate, *answer_pieces[1:]]
    async with RawUpstream(slowly) as raw, dial(raw.base_url) as upstream:
        answer = await upstream.send(post())
        chunks = answer.chunks()
        assert await anext(chunks) == b"abc"
        gate.set()
        with pytest.raises(UpstreamFailed, match=f"upstream 127.0.0.1:{raw.port}: "):
            await anext(chunks)


async def test_b108_a_chunk_size_that_is_no_number_fails(dial: Dial) -> None:
    gate = asyncio.Event()
    start = head(200, [("Transfer-Encoding", "chunked")]) + b"1\r\na\r\n"
    async with RawUpstream([start, gate, b"zz\r\n"]) as raw, dial(raw.base_url) as upstream:
        chunks = (await upstream.send(post())).chunks()
        assert await anext(chunks) == b"a"
        gate.set()
        with pytest.raises(UpstreamFailed):
            await anext(chunks)


async def test_b108_a_body_that_broke_before_it_was_read_fails_too(dial: Dial) -> None:
    gate = asyncio.Event()
    start = head(200, [("Transfer-Encoding", "chunked")]) + b"1\r\na\r\n"
    async with RawUpstream([start, gate, b"zz\r\n"]) as raw, dial(raw.base_url) as upstream:
        answer = await upstream.send(post())
        gate.set()
        await raw.gone()
        with pytest.raises(UpstreamFailed, match="broke off"):
            await read(answer)


NO_ANSWER: dict[str, tuple[Sequence[Piece], str]] = {
    "closed": ([Act.CLOSE], "closed the connection without an answer"),
    "reset": ([Act.RESET], "connection broke"),
    "not http": ([b"SSH-2.0-x\r\n\r\n", Act.CLOSE], "not valid HTTP"),
    "two lengths": (
        [head(200, [("Content-Length", "1"), ("Content-Length", "2")]) + b"ab"],
        "not valid HTTP",
    ),
    "length and chunks": (
        [head(200, [("Content-Length", "1"), ("Transfer-Encoding", "chunked")]) + b"0\r\n\r\n"],
        "not valid HTTP",
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


async def test_b114_a_read_limit_without_head_is_a_timeout(dial: Dial) -> None:
    async with RawUpstream([Act.HANG]) as raw, dial(raw.base_url, read_timeout=0.05) as upstream:
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

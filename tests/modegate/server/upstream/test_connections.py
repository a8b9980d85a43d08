"""The connections to an upstream; holds for each implementation of `Upstream`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from modegate.core.errors import UpstreamFailed
from modegate.server.upstream.protocol import Upstream, UpstreamRequest
from support.raw_upstream import Act, Piece, RawUpstream, chunked, whole
from support.upstreams import Dial, get, pieces, post, read
from support.waiting import PATIENCE

# Ending


async def test_b110_closing_an_answer_that_still_runs_closes_the_connection(dial: Dial) -> None:
    async with RawUpstream(chunked(b"1", b"2", Act.HANG)) as raw, dial(raw.base_url) as upstream:
        answer = await upstream.send(post())
        await anext(answer.chunks())
        await answer.close()
        await raw.gone()


async def test_b110_cancelling_a_request_that_waits_for_its_head_closes_the_connection(
    dial: Dial,
) -> None:
    async with RawUpstream([Act.HANG]) as raw, dial(raw.base_url) as upstream:
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(upstream.send(post()))
            await raw.received()
            waiting.cancel()
        await raw.gone()


async def test_an_answer_read_to_its_end_keeps_its_connection(dial: Dial) -> None:
    async with RawUpstream() as raw, dial(raw.base_url) as upstream:
        for _ in range(3):
            await read(await upstream.send(post()))
    assert (raw.connections, len(raw.requests)) == (1, 3)


# Kept connections

UNASKED = whole(b"of nobody")[0]
"""An answer that came too late, or twice."""


def hang_up(raw: RawUpstream) -> None:
    raw.hang_up()


def answer_again(raw: RawUpstream) -> None:
    assert isinstance(UNASKED, bytes)
    raw.say(UNASKED)


def give_up(raw: RawUpstream) -> None:
    raw.say(b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    raw.hang_up()


SPOILT = [hang_up, give_up, answer_again]
"""What an upstream can do to a connection on which nothing is due."""


@pytest.mark.parametrize("body", ["whole", "streamed", "none"])
@pytest.mark.parametrize("spoil", SPOILT)
async def test_b127_a_kept_connection_that_is_spoilt_is_not_used(
    dial: Dial, spoil: Callable[[RawUpstream], None], body: str
) -> None:
    """Nothing is sent on it, so that the request can go on another one, whatever its body."""
    request = get() if body == "none" else post(pieces(b"a", b"b") if body == "streamed" else b"ab")
    async with RawUpstream() as raw, dial(raw.base_url) as upstream:
        await read(await upstream.send(post(b"first")))
        spoil(raw)
        assert await read(await upstream.send(request)) == b"{}"
        await raw.gone(0)
    assert [(one.connection, one.body) for one in raw.requests] == [
        (0, b"first"),
        (1, b"" if body == "none" else b"ab"),
    ]


@pytest.mark.parametrize("spoil", SPOILT)
async def test_b127_nor_is_one_that_was_spoilt_long_ago(
    dial: Dial, spoil: Callable[[RawUpstream], None]
) -> None:
    """The loop has had its turns: the end was seen, and what came unasked was read."""
    async with RawUpstream() as raw, dial(raw.base_url) as upstream:
        await read(await upstream.send(post()))
        spoil(raw)
        for _ in range(10):
            await asyncio.sleep(0)
        for _ in range(2):
            assert await read(await upstream.send(post())) == b"{}"
    assert [one.connection for one in raw.requests] == [0, 1, 1]


async def test_of_two_answers_at_once_only_the_first_is_one(dial: Dial) -> None:
    """The other is not kept for whoever comes next."""
    double = b"".join(piece for piece in [*whole(b"1"), UNASKED] if isinstance(piece, bytes))
    async with RawUpstream() as raw, dial(raw.base_url) as upstream:
        raw.enqueue([double])
        assert await read(await upstream.send(post())) == b"1"
        assert await read(await upstream.send(post())) == b"{}"
    assert [one.connection for one in raw.requests] == [0, 1]


DIED: dict[str, Sequence[Piece]] = {
    "closed": [Act.CLOSE],
    "half closed": [Act.HALF_CLOSE, Act.HANG],
    "reset": [Act.RESET],
    "a piece of an answer": [b"HTTP/1.1 200 OK\r\nX: ", Act.CLOSE],
}


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "new"])
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize("died", DIED.values(), ids=DIED)
async def test_b127_a_request_that_was_sent_is_not_sent_again(
    dial: Dial, died: Sequence[Piece], method: str, *, kept: bool
) -> None:
    """The model may have worked on it already; a DELETE, sent twice, would not find what it deleted."""
    request = UpstreamRequest(method, b"/v1/responses/r", [], b"ab" if method == "POST" else b"")
    async with RawUpstream() as raw, dial(raw.base_url) as upstream:
        if kept:
            await read(await upstream.send(post()))
        raw.enqueue(died)
        with pytest.raises(UpstreamFailed):
            await upstream.send(request)
    assert len(raw.requests) == 1 + kept
    assert raw.connections == 1


async def test_b127_closed_connections_neither_block_nor_pile_up(dial: Dial) -> None:
    """Upstream ends each connection after its answer without a word; every fifth request is aborted."""

    async def one(upstream: Upstream, number: int) -> None:
        sent = await upstream.send(post())
        if number % 5:
            assert await read(sent) == b"{}"
        await sent.close()

    async with RawUpstream() as raw, dial(raw.base_url) as upstream:
        async with asyncio.timeout(PATIENCE):
            for number in range(50):
                await one(upstream, number)
                raw.hang_up(number)
            raw.answer = [*whole(), Act.CLOSE]
            async with asyncio.TaskGroup() as group:
                for number in range(50):
                    group.create_task(one(upstream, number))
        for number in range(100):
            await raw.gone(number)
        assert raw.open_connections == 0
        assert (raw.connections, len(raw.requests)) == (100, 100)

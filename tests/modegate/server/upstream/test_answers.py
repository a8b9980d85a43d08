"""What comes back from an upstream that behaves; holds for each implementation of `Upstream`."""

from __future__ import annotations

import asyncio
import gzip

import pytest

from support.raw_upstream import RawUpstream, chunked, until_close, whole
from support.upstreams import Dial, get, post, read


async def test_b109_headers_come_back_raw_in_order_with_duplicates(dial: Dial) -> None:
    headers = [
        ("Server", "u"),
        ("Date", "Mon, 01 Jan 2024 00:00:00 GMT"),
        ("Set-Cookie", "a=1"),
        ("X-A", "1"),
        ("Request-Id", "R"),
        ("Set-Cookie", "b=2"),
        ("X-A", "1"),
        ("openai-processing-ms", "3"),
        ("Keep-Alive", "timeout=5"),
        ("Connection", "x-dropped"),
        ("x-dropped", "1"),
    ]
    async with RawUpstream(whole(b"ok", headers=headers)) as raw, dial(raw.base_url) as upstream:
        answer = await upstream.send(get())
        await read(answer)
        await read(await upstream.send(get()))
    expected = [(name.lower().encode(), value.encode()) for name, value in headers[:8]]
    assert answer.headers == [*expected, (b"content-length", b"2")]
    assert raw.requests[1].header("cookie") == []


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "deflate"])
async def test_b103_an_encoded_body_and_its_headers_pass_untouched(
    dial: Dial, encoding: str
) -> None:
    body = gzip.compress(b'{"a":1}') if encoding == "gzip" else b"\x00opaque\xff"
    headers = [("Content-Encoding", encoding)]
    async with RawUpstream(whole(body, headers=headers)) as raw, dial(raw.base_url) as upstream:
        answer = await upstream.send(get())
        assert await read(answer) == body
    assert answer.headers == [
        (b"content-encoding", encoding.encode()),
        (b"content-length", str(len(body)).encode()),
    ]
    assert raw.requests[0].header("accept-encoding") == []


async def test_b116_an_error_comes_back_as_it_is_and_is_not_retried(dial: Dial) -> None:
    headers = [
        ("Retry-After", "17"),
        ("Retry-After-Ms", "17000"),
        ("X-Ratelimit-Remaining-Requests", "0"),
        ("X-Should-Retry", "true"),
    ]
    error = b'{"error": {"message": "slow down"}}'
    async with RawUpstream(whole(error, 429, headers)) as raw, dial(raw.base_url) as upstream:
        answer = await upstream.send(post())
        assert (answer.status, await read(answer)) == (429, error)
    assert answer.headers[:4] == [(name.lower().encode(), val.encode()) for name, val in headers]
    assert len(raw.requests) == 1


async def test_a_redirect_is_not_followed(dial: Dial) -> None:
    async with (
        RawUpstream(whole(b"", 307, [("Location", "/elsewhere")])) as raw,
        dial(raw.base_url) as upstream,
    ):
        assert (await upstream.send(get())).status == 307
    assert len(raw.requests) == 1


async def test_b108_chunks_come_as_they_are_written_and_trailers_are_dropped(dial: Dial) -> None:
    first, second = asyncio.Event(), asyncio.Event()
    answer_pieces = chunked(b"data: 1\n\n", first, b"da", second, b"ta", trailers=[("X-T", "1")])
    async with RawUpstream(answer_pieces) as raw, dial(raw.base_url) as upstream:
        answer = await upstream.send(post())
        chunks = answer.chunks()
        assert await anext(chunks) == b"data: 1\n\n"
        first.set()
        assert await anext(chunks) == b"da"
        second.set()
        assert await anext(chunks) == b"ta"
        with pytest.raises(StopAsyncIteration):
            await anext(chunks)
    assert answer.headers == [(b"content-type", b"text/event-stream")]


async def test_a_body_that_ends_with_the_connection_is_whole(dial: Dial) -> None:
    async with RawUpstream(until_close(b"ab", b"c")) as raw, dial(raw.base_url) as upstream:
        answer = await upstream.send(get())
        assert await read(answer) == b"abc"
    assert answer.headers == []


async def test_b120_an_event_of_40_mb_has_no_line_limit(dial: Dial) -> None:
    line = b"data: " + b"x" * (40 * 2**20) + b"\n\n"
    async with RawUpstream(chunked(line)) as raw, dial(raw.base_url) as upstream:
        assert await read(await upstream.send(post())) == line


async def test_a_header_of_60_kib_passes(dial: Dial) -> None:
    value = "p" * 60_000
    answer_pieces = whole(headers=[("Content-Security-Policy", value)])
    async with RawUpstream(answer_pieces) as raw, dial(raw.base_url) as upstream:
        answer = await upstream.send(get())
        assert answer.headers[0] == (b"content-security-policy", value.encode())
        await read(answer)

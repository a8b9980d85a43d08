"""What an upstream is sent; holds for each implementation of `Upstream`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from modegate.core.errors import TooLarge
from modegate.server.upstream.protocol import UpstreamRequest
from support.raw_upstream import RawUpstream, head, whole
from support.upstreams import Dial, get, pieces, post, read


@pytest.mark.parametrize(
    "target",
    [
        b"/v1/chat/completions?api-version=2024-10-21&x=a%20b&x=c+d&empty=",
        b"/v1/messages?beta=true",
        b"/v1/models/a%2Fb%2fc%41",
        b"/v1/models?",
        b"//v1/messages",
        b"/v1/a/../b/./c;d|e",
        "/v1/é?é".encode(),
    ],
)
async def test_b121_the_target_arrives_byte_for_byte(dial: Dial, target: bytes) -> None:
    async with RawUpstream() as raw, dial(raw.base_url) as upstream:
        await read(await upstream.send(get(target)))
    assert raw.requests[0].target == target


async def test_b122_one_v1_is_dropped_where_the_base_has_one(dial: Dial) -> None:
    async with RawUpstream() as raw, dial(f"{raw.base_url}/api/v1/") as upstream:
        await read(await upstream.send(post()))
    assert raw.requests[0].target == b"/api/v1/chat/completions"


async def test_headers_go_out_in_order_with_duplicates_and_nothing_is_added(dial: Dial) -> None:
    headers = [
        (b"x-b", b"1"),
        (b"authorization", b"Bearer k"),
        (b"x-b", "zwei ü".encode()),
        (b"cookie", b"a=1; b=2"),
        (b"content-length", b"2"),
        (b"x-last", b""),
    ]
    async with RawUpstream() as raw, dial(raw.base_url) as upstream:
        await read(await upstream.send(post(b"{}", headers)))
    host = (b"Host", f"127.0.0.1:{raw.port}".encode())
    assert raw.requests[0].headers == [host, *headers]


async def test_b108_hop_by_hop_headers_and_a_stale_length_do_not_go_out(dial: Dial) -> None:
    headers = [
        (b"connection", b"keep-alive, x-mine"),
        (b"x-mine", b"1"),
        (b"transfer-encoding", b"chunked"),
        (b"te", b"trailers"),
        (b"upgrade", b"h2c"),
        (b"proxy-authorization", b"secret"),
        (b"content-length", b"999"),
        (b"content-length", b"1000"),
        (b"host", b"modegate.example"),
        (b"x-kept", b"1"),
    ]
    async with RawUpstream() as raw, dial(raw.base_url) as upstream:
        await read(await upstream.send(post(b"12345", headers)))
    assert raw.requests[0].headers[1:] == [(b"content-length", b"5"), (b"x-kept", b"1")]
    assert raw.requests[0].raw_body == b"12345"


async def test_b130_expect_is_not_forwarded_and_interim_answers_are_passed_over(dial: Dial) -> None:
    interim = head(100) + head(103, [("Link", "</x>")])
    async with (
        RawUpstream(on_head=[interim]) as raw,
        dial(raw.base_url) as upstream,
    ):
        answer = await upstream.send(post(b"x" * 10, [(b"expect", b"100-continue")]))
        assert (answer.status, await read(answer)) == (200, b"{}")
    assert raw.requests[0].header("expect") == []


async def test_b130_an_early_413_arrives_although_the_body_is_not_sent_yet(dial: Dial) -> None:
    gate = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"begun"
        await gate.wait()

    async with (
        RawUpstream(whole(b"too big", 413), read_body=False) as raw,
        dial(raw.base_url) as upstream,
    ):
        answer = await upstream.send(post(body(), [(b"content-length", b"2000000")]))
        assert (answer.status, await read(answer)) == (413, b"too big")
        gate.set()


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS"])
async def test_a_request_without_body_has_no_framing(dial: Dial, method: str) -> None:
    pieces_ = [head(200, [("Content-Length", "2")])] if method == "HEAD" else whole()
    async with RawUpstream(pieces_) as raw, dial(raw.base_url) as upstream:
        answer = await upstream.send(UpstreamRequest(method, b"/v1/x", [], b""))
        body = await read(answer)
    request = raw.requests[0]
    assert (request.method, request.header("transfer-encoding")) == (method.encode(), [])
    assert request.header("content-length") == ([b"0"] if method == "DELETE" else [])
    assert body == (b"" if method == "HEAD" else b"{}")
    assert (b"content-length", b"2") in answer.headers


async def test_a_streamed_body_keeps_the_clients_length(dial: Dial) -> None:
    async with RawUpstream() as raw, dial(raw.base_url) as upstream:
        await read(await upstream.send(post(pieces(b"ab", b"cde"), [(b"content-length", b"5")])))
    assert raw.requests[0].raw_body == b"abcde"
    assert raw.requests[0].header("content-length") == [b"5"]


async def test_a_streamed_body_without_length_goes_out_in_its_own_chunks(dial: Dial) -> None:
    async with RawUpstream() as raw, dial(raw.base_url) as upstream:
        await read(await upstream.send(post(pieces(b"ab", b"cde"))))
    assert raw.requests[0].raw_body == b"2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n"
    assert raw.requests[0].header("content-length") == []


async def test_b120_a_body_of_24_mb_arrives_whole(dial: Dial) -> None:
    body = bytes(range(256)) * (24 * 4096)
    async with RawUpstream() as raw, dial(raw.base_url) as upstream:
        await read(await upstream.send(post(body)))
    assert raw.requests[0].raw_body == body


async def test_b120_what_a_body_raises_while_it_is_sent_comes_as_it_is(dial: Dial) -> None:
    """A client's body that turns out to be too large is no failure of the upstream."""

    async def growing() -> AsyncIterator[bytes]:
        yield b"begun"
        raise TooLarge("over the limit")

    async with RawUpstream() as raw, dial(raw.base_url) as upstream:
        with pytest.raises(TooLarge, match="over the limit"):
            await upstream.send(post(growing()))
        await raw.gone()
    assert raw.requests == []

"""HttpUpstream against an upstream that is controlled to the byte."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest

from modegate.core.errors import BadRequest, UpstreamFailed, UpstreamTimeout
from modegate.core.upstreams import CONNECT_TIMEOUT, READ_TIMEOUT
from modegate.server.upstream import Headers, UpstreamRequest
from modegate.server.upstream_http import HttpAnswer, HttpUpstream
from support.raw_upstream import (
    PATIENCE,
    Act,
    Piece,
    RawUpstream,
    Received,
    chunked,
    head,
    until_close,
    whole,
)

PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the machine's own proxy variables out."""
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@asynccontextmanager
async def client(base_url: str, **options: Any) -> AsyncIterator[HttpUpstream]:
    upstream = HttpUpstream(base_url, **options)
    try:
        yield upstream
    finally:
        await upstream.close()


def post(
    body: bytes | AsyncIterator[bytes] = b"{}", headers: Headers | None = None
) -> UpstreamRequest:
    return UpstreamRequest("POST", b"/v1/chat/completions", headers or [], body)


def get(target: bytes = b"/v1/models") -> UpstreamRequest:
    return UpstreamRequest("GET", target, [], b"")


async def read(answer: HttpAnswer) -> bytes:
    body = b"".join([chunk async for chunk in answer.chunks()])
    await answer.close()
    return body


# What goes out


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
async def test_b121_the_target_arrives_byte_for_byte(target: bytes) -> None:
    async with RawUpstream() as raw, client(raw.base_url) as upstream:
        await read(await upstream.send(get(target)))
    assert raw.requests[0].target == target


async def test_b122_one_v1_is_dropped_where_the_base_has_one() -> None:
    async with RawUpstream() as raw, client(f"{raw.base_url}/api/v1/") as upstream:
        await read(await upstream.send(post()))
    assert raw.requests[0].target == b"/api/v1/chat/completions"


async def test_headers_go_out_in_order_with_duplicates_and_nothing_is_added() -> None:
    headers = [
        (b"x-b", b"1"),
        (b"authorization", b"Bearer k"),
        (b"x-b", "zwei ü".encode()),
        (b"cookie", b"a=1; b=2"),
        (b"content-length", b"2"),
        (b"x-last", b""),
    ]
    async with RawUpstream() as raw, client(raw.base_url) as upstream:
        await read(await upstream.send(post(b"{}", headers)))
    host = (b"Host", f"127.0.0.1:{raw.port}".encode())
    assert raw.requests[0].headers == [host, *headers]


async def test_b108_hop_by_hop_headers_and_a_stale_length_do_not_go_out() -> None:
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
    async with RawUpstream() as raw, client(raw.base_url) as upstream:
        await read(await upstream.send(post(b"12345", headers)))
    assert raw.requests[0].headers[1:] == [(b"content-length", b"5"), (b"x-kept", b"1")]
    assert raw.requests[0].raw_body == b"12345"


async def test_b130_expect_is_not_forwarded_and_interim_answers_are_passed_over() -> None:
    interim = head(100) + head(103, [("Link", "</x>")])
    async with (
        RawUpstream(on_head=[interim]) as raw,
        client(raw.base_url) as upstream,
    ):
        answer = await upstream.send(post(b"x" * 10, [(b"expect", b"100-continue")]))
        assert (answer.status, await read(answer)) == (200, b"{}")
    assert raw.requests[0].header("expect") == []


async def test_b130_an_early_413_arrives_although_the_body_is_not_sent_yet() -> None:
    gate = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"begun"
        await gate.wait()

    async with (
        RawUpstream(whole(b"too big", 413), read_body=False) as raw,
        client(raw.base_url) as upstream,
    ):
        answer = await upstream.send(post(body(), [(b"content-length", b"2000000")]))
        assert (answer.status, await read(answer)) == (413, b"too big")
        gate.set()


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS"])
async def test_a_request_without_body_has_no_framing(method: str) -> None:
    pieces_ = [head(200, [("Content-Length", "2")])] if method == "HEAD" else whole()
    async with RawUpstream(pieces_) as raw, client(raw.base_url) as upstream:
        answer = await upstream.send(UpstreamRequest(method, b"/v1/x", [], b""))
        body = await read(answer)
    request = raw.requests[0]
    assert (request.method, request.header("transfer-encoding")) == (method.encode(), [])
    assert request.header("content-length") == ([b"0"] if method == "DELETE" else [])
    assert body == (b"" if method == "HEAD" else b"{}")
    assert (b"content-length", b"2") in answer.headers


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def test_a_streamed_body_keeps_the_clients_length() -> None:
    async with RawUpstream() as raw, client(raw.base_url) as upstream:
        await read(await upstream.send(post(pieces(b"ab", b"cde"), [(b"content-length", b"5")])))
    assert raw.requests[0].raw_body == b"abcde"
    assert raw.requests[0].header("content-length") == [b"5"]


async def test_a_streamed_body_without_length_goes_out_in_its_own_chunks() -> None:
    async with RawUpstream() as raw, client(raw.base_url) as upstream:
        await read(await upstream.send(post(pieces(b"ab", b"cde"))))
    assert raw.requests[0].raw_body == b"2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n"
    assert raw.requests[0].header("content-length") == []


async def test_b120_a_body_of_24_mb_arrives_whole() -> None:
    body = bytes(range(256)) * (24 * 4096)
    async with RawUpstream() as raw, client(raw.base_url) as upstream:
        await read(await upstream.send(post(body)))
    assert raw.requests[0].raw_body == body


@pytest.mark.parametrize(
    "request_",
    [post(headers=[(b"x-a", b"\xe9")]), get(b"/\xff"), get(b"http://elsewhere/v1/x")],
    ids=["header", "path", "absolute"],
)
async def test_what_cannot_go_out_unchanged_is_refused(request_: UpstreamRequest) -> None:
    async with RawUpstream() as raw, client(raw.base_url) as upstream:
        with pytest.raises(BadRequest):
            await upstream.send(request_)
    assert raw.connections == 0


# What comes back


async def test_b109_headers_come_back_raw_in_order_with_duplicates() -> None:
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
    async with RawUpstream(whole(b"ok", headers=headers)) as raw, client(raw.base_url) as upstream:
        answer = await upstream.send(get())
        await read(answer)
        await read(await upstream.send(get()))
    expected = [(name.lower().encode(), value.encode()) for name, value in headers[:8]]
    assert answer.headers == [*expected, (b"content-length", b"2")]
    assert raw.requests[1].header("cookie") == []


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "deflate"])
async def test_b103_an_encoded_body_and_its_headers_pass_untouched(encoding: str) -> None:
    body = gzip.compress(b'{"a":1}') if encoding == "gzip" else b"\x00opaque\xff"
    headers = [("Content-Encoding", encoding)]
    async with RawUpstream(whole(body, headers=headers)) as raw, client(raw.base_url) as upstream:
        answer = await upstream.send(get())
        assert await read(answer) == body
    assert answer.headers == [
        (b"content-encoding", encoding.encode()),
        (b"content-length", str(len(body)).encode()),
    ]
    assert raw.requests[0].header("accept-encoding") == []


async def test_b116_an_error_comes_back_as_it_is_and_is_not_retried() -> None:
    headers = [
        ("Retry-After", "17"),
        ("Retry-After-Ms", "17000"),
        ("X-Ratelimit-Remaining-Requests", "0"),
        ("X-Should-Retry", "true"),
    ]
    error = b'{"error": {"message": "slow down"}}'
    async with RawUpstream(whole(error, 429, headers)) as raw, client(raw.base_url) as upstream:
        answer = await upstream.send(post())
        assert (answer.status, await read(answer)) == (429, error)
    assert answer.headers[:4] == [(name.lower().encode(), val.encode()) for name, val in headers]
    assert len(raw.requests) == 1


async def test_a_redirect_is_not_followed() -> None:
    async with (
        RawUpstream(whole(b"", 307, [("Location", "/elsewhere")])) as raw,
        client(raw.base_url) as upstream,
    ):
        assert (await upstream.send(get())).status == 307
    assert len(raw.requests) == 1


async def test_b108_chunks_come_as_they_are_written_and_trailers_are_dropped() -> None:
    first, second = asyncio.Event(), asyncio.Event()
    answer_pieces = chunked(b"data: 1\n\n", first, b"da", second, b"ta", trailers=[("X-T", "1")])
    async with RawUpstream(answer_pieces) as raw, client(raw.base_url) as upstream:
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


async def test_a_body_that_ends_with_the_connection_is_whole() -> None:
    async with RawUpstream(until_close(b"ab", b"c")) as raw, client(raw.base_url) as upstream:
        answer = await upstream.send(get())
        assert await read(answer) == b"abc"
    assert answer.headers == []


async def test_b120_an_event_of_40_mb_has_no_line_limit() -> None:
    line = b"data: " + b"x" * (40 * 2**20) + b"\n\n"
    async with RawUpstream(chunked(line)) as raw, client(raw.base_url) as upstream:
        assert await read(await upstream.send(post())) == line


async def test_a_header_of_60_kib_passes() -> None:
    value = "p" * 60_000
    answer_pieces = whole(headers=[("Content-Security-Policy", value)])
    async with RawUpstream(answer_pieces) as raw, client(raw.base_url) as upstream:
        answer = await upstream.send(get())
        assert answer.headers[0] == (b"content-security-policy", value.encode())
        await read(answer)


# What goes wrong

BROKEN: dict[str, Sequence[Piece]] = {
    "length too long": [head(200, [("Content-Length", "9")]) + b"abc", Act.CLOSE],
    "reset": [head(200, [("Transfer-Encoding", "chunked")]) + b"3\r\nabc\r\n", Act.RESET],
    "no last chunk": [head(200, [("Transfer-Encoding", "chunked")]) + b"3\r\nabc\r\n", Act.CLOSE],
    "half closed": [head(200, [("Content-Length", "9")]) + b"abc", Act.HALF_CLOSE],
}


@pytest.mark.parametrize("answer_pieces", BROKEN.values(), ids=BROKEN)
async def test_b108_a_body_that_breaks_off_fails_after_what_came(
    answer_pieces: Sequence[Piece],
) -> None:
    gate = asyncio.Event()
    slowly = [*answer_pieces[:1], gate, *answer_pieces[1:]]
    async with RawUpstream(slowly) as raw, client(raw.base_url) as upstream:
        answer = await upstream.send(post())
        chunks = answer.chunks()
        assert await anext(chunks) == b"abc"
        gate.set()
        with pytest.raises(UpstreamFailed, match=f"upstream 127.0.0.1:{raw.port}: "):
            await anext(chunks)


async def test_b108_a_chunk_size_that_is_no_number_fails() -> None:
    gate = asyncio.Event()
    start = head(200, [("Transfer-Encoding", "chunked")]) + b"1\r\na\r\n"
    async with RawUpstream([start, gate, b"zz\r\n"]) as raw, client(raw.base_url) as upstream:
        chunks = (await upstream.send(post())).chunks()
        assert await anext(chunks) == b"a"
        gate.set()
        with pytest.raises(UpstreamFailed):
            await anext(chunks)


async def test_b108_a_body_that_broke_before_it_was_read_fails_too() -> None:
    gate = asyncio.Event()
    start = head(200, [("Transfer-Encoding", "chunked")]) + b"1\r\na\r\n"
    async with RawUpstream([start, gate, b"zz\r\n"]) as raw, client(raw.base_url) as upstream:
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
    answer_pieces: Sequence[Piece], words: str
) -> None:
    request = UpstreamRequest(
        "POST", b"/v1/x?key=geheim", [(b"authorization", b"Bearer geheim")], b"{}"
    )
    async with RawUpstream(answer_pieces) as raw, client(raw.base_url) as upstream:
        with pytest.raises(UpstreamFailed, match=words) as caught:
            await upstream.send(request)
        assert len(raw.requests) == 1
    assert f"127.0.0.1:{raw.port}" in str(caught.value)
    assert "geheim" not in str(caught.value)
    assert not isinstance(caught.value, UpstreamTimeout)


async def test_nobody_listening_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        async with client(f"http://127.0.0.1:{taken.getsockname()[1]}") as upstream:
            with pytest.raises(UpstreamFailed, match=r"no connection \(Connection refused\)"):
                await upstream.send(get())


async def test_an_upstream_without_tls_is_told() -> None:
    async with (
        RawUpstream(on_connect=[b"HTTP/1.1 400 Bad Request\r\n\r\n"]) as raw,
        client(f"https://127.0.0.1:{raw.port}") as upstream,
    ):
        with pytest.raises(UpstreamFailed, match="TLS failed"):
            await upstream.send(get())


async def test_a_body_that_fails_while_it_is_sent_fails_the_request() -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"ab"
        raise ConnectionError

    async with RawUpstream() as raw, client(raw.base_url) as upstream:
        with pytest.raises(UpstreamFailed):
            await upstream.send(post(broken(), [(b"content-length", b"9")]))
        await raw.gone()
    assert raw.requests == []


# Time


def test_b114_long_silence_is_normal_and_connecting_is_not() -> None:
    assert READ_TIMEOUT >= 600
    assert CONNECT_TIMEOUT <= 10


async def test_b114_silence_longer_than_the_connect_timeout_ends_nothing() -> None:
    """The connect timeout passes several times over before the head and before the body."""
    before_head, before_body = asyncio.Event(), asyncio.Event()
    answer_pieces = [before_head, *chunked(before_body, b"at last")]
    loop = asyncio.get_running_loop()
    async with RawUpstream(answer_pieces) as raw, client(raw.base_url, connect_timeout=0.05) as up:
        loop.call_later(0.2, before_head.set)
        answer = await up.send(post())
        loop.call_later(0.2, before_body.set)
        assert await read(answer) == b"at last"


async def test_b114_a_read_limit_without_head_is_a_timeout() -> None:
    async with RawUpstream([Act.HANG]) as raw, client(raw.base_url, read_timeout=0.05) as upstream:
        with pytest.raises(UpstreamTimeout, match="no byte for too long"):
            await upstream.send(post())
        await raw.gone()


async def test_b114_a_read_limit_within_the_body_is_no_silent_truncation() -> None:
    answer_pieces = chunked(b"a", Act.HANG)
    async with RawUpstream(answer_pieces) as raw, client(raw.base_url, read_timeout=0.05) as up:
        chunks = (await up.send(post())).chunks()
        assert await anext(chunks) == b"a"
        with pytest.raises(UpstreamTimeout):
            await anext(chunks)


async def test_a_host_that_takes_no_connection_is_a_timeout() -> None:
    """A full backlog: the kernel leaves further connections unanswered."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        waiting = [socket.socket() for _ in range(3)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(address)
        async with client(f"http://127.0.0.1:{address[1]}", connect_timeout=0.1) as upstream:
            with pytest.raises(UpstreamTimeout, match="no connection in time"):
                await upstream.send(get())
        for each in waiting:
            each.close()


# Ending


async def test_b110_closing_an_answer_that_still_runs_closes_the_connection() -> None:
    async with RawUpstream(chunked(b"1", b"2", Act.HANG)) as raw, client(raw.base_url) as upstream:
        answer = await upstream.send(post())
        await anext(answer.chunks())
        await answer.close()
        await raw.gone()


async def test_b110_cancelling_a_request_that_waits_for_its_head_closes_the_connection() -> None:
    async with RawUpstream([Act.HANG]) as raw, client(raw.base_url) as upstream:
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(upstream.send(post()))
            await raw.received()
            waiting.cancel()
        await raw.gone()


async def test_an_answer_read_to_its_end_keeps_its_connection() -> None:
    async with RawUpstream() as raw, client(raw.base_url) as upstream:
        for _ in range(3):
            await read(await upstream.send(post()))
    assert (raw.connections, len(raw.requests)) == (1, 3)


# No connection


@pytest.fixture
def refusals(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """Give a list of errors that the next attempts to connect meet, one each."""
    errors: list[BaseException] = []
    connect = aiohttp.TCPConnector.connect

    async def refused(self: aiohttp.TCPConnector, *args: Any, **more: Any) -> Any:
        if errors:
            raise errors.pop(0)
        return await connect(self, *args, **more)

    monkeypatch.setattr(aiohttp.TCPConnector, "connect", refused)
    return errors


def tls_error() -> ssl.SSLError:
    error = ssl.SSLError(1, "no")
    error.reason = "NO"
    return error


def unconnected(error: OSError) -> aiohttp.ClientConnectorError:
    key = cast(Any, SimpleNamespace(host="h", port=1, ssl=True, is_ssl=False))
    return aiohttp.ClientConnectorError(key, error)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_a_connection_that_was_refused_is_tried_once_more(
    refusals: list[BaseException], streamed: bool
) -> None:
    refusals.append(unconnected(ConnectionRefusedError(111, "refused")))
    async with RawUpstream() as raw, client(raw.base_url) as upstream:
        assert await read(await upstream.send(post(pieces(b"a", b"b") if streamed else b"ab")))
    assert [request.body for request in raw.requests] == [b"ab"]


@pytest.mark.parametrize(
    "error",
    [
        unconnected(tls_error()),
        aiohttp.ConnectionTimeoutError(),
        aiohttp.ClientConnectorDNSError(cast(Any, SimpleNamespace(host="h")), OSError(1, "no")),
    ],
    ids=["TLS", "timeout", "name"],
)
async def test_what_would_only_fail_again_or_took_long_is_not_tried_again(
    refusals: list[BaseException], error: Exception
) -> None:
    refusals += [error, AssertionError("tried again")]
    async with RawUpstream() as raw, client(raw.base_url) as upstream:
        with pytest.raises(UpstreamFailed):
            await upstream.send(post())
    assert len(refusals) == 1


async def test_a_second_refusal_is_told(refusals: list[BaseException]) -> None:
    refusals += [unconnected(ConnectionRefusedError(111, "refused")) for _ in range(2)]
    async with RawUpstream() as raw, client(raw.base_url) as upstream:
        with pytest.raises(UpstreamFailed, match="Connection refused"):
            await upstream.send(post())
    assert (raw.connections, refusals) == (0, [])


# Kept connections


@pytest.mark.parametrize("act", [Act.CLOSE, Act.RESET], ids=["closed", "reset"])
async def test_b127_a_kept_connection_that_was_dead_is_retried_once(act: Act) -> None:
    async with RawUpstream() as raw, client(raw.base_url) as upstream:
        raw.enqueue(whole(), [act])
        await read(await upstream.send(post(b"1")))
        assert await read(await upstream.send(post(b"2"))) == b"{}"
    assert [(r.connection, r.body) for r in raw.requests] == [(0, b"1"), (0, b"2"), (1, b"2")]


async def test_b127_a_second_dead_connection_is_not_retried_again() -> None:
    async with RawUpstream() as raw, client(raw.base_url) as upstream:
        raw.enqueue(whole(), [Act.CLOSE], [Act.CLOSE])
        await read(await upstream.send(post()))
        with pytest.raises(UpstreamFailed):
            await upstream.send(post())
    assert len(raw.requests) == 3


async def test_b127_a_request_that_may_have_been_worked_on_is_not_sent_again() -> None:
    async with RawUpstream() as raw, client(raw.base_url, retry_within=0) as upstream:
        raw.enqueue(whole(), [Act.CLOSE])
        await read(await upstream.send(post()))
        with pytest.raises(UpstreamFailed):
            await upstream.send(post())
    assert len(raw.requests) == 2


async def test_b127_a_request_is_not_sent_again_after_a_piece_of_its_answer() -> None:
    async with RawUpstream() as raw, client(raw.base_url) as upstream:
        raw.enqueue(whole(), [b"HTTP/1.1 200 OK\r\nX: ", Act.CLOSE])
        await read(await upstream.send(post()))
        with pytest.raises(UpstreamFailed):
            await upstream.send(post())
    assert len(raw.requests) == 2


async def test_b127_a_streamed_body_is_not_sent_again() -> None:
    async with RawUpstream() as raw, client(raw.base_url) as upstream:
        raw.enqueue(whole(), [Act.CLOSE])
        await read(await upstream.send(post()))
        with pytest.raises(UpstreamFailed):
            await upstream.send(post(pieces(b"ab")))
    assert len(raw.requests) == 2


async def test_b127_closed_connections_neither_block_nor_pile_up() -> None:
    """Upstream closes each connection after its answer; every fifth request is aborted."""

    def answer(_request: Received) -> Sequence[Piece]:
        return [*whole(), Act.CLOSE]

    async def one(upstream: HttpUpstream, number: int) -> None:
        sent = await upstream.send(post())
        if number % 5:
            assert await read(sent) == b"{}"
        await sent.close()

    async with RawUpstream(answer) as raw, client(raw.base_url) as upstream:
        async with asyncio.timeout(PATIENCE):
            for number in range(50):
                await one(upstream, number)
            async with asyncio.TaskGroup() as group:
                for number in range(50):
                    group.create_task(one(upstream, number))
        for number in range(raw.connections):
            await raw.gone(number)
        assert raw.open_connections == 0
        assert len(raw.requests) == 100


# Proxies


async def test_the_environments_proxy_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with RawUpstream() as proxy:
        monkeypatch.setenv("http_proxy", proxy.base_url.replace("//", "//user:pass@"))
        async with client("http://model.invalid/v1") as upstream:
            await read(await upstream.send(post(headers=[(b"authorization", b"Bearer k")])))
    request = proxy.requests[0]
    assert request.target == b"http://model.invalid/v1/chat/completions"
    assert request.header("authorization") == [b"Bearer k"]
    assert request.header("proxy-authorization") == [b"Basic dXNlcjpwYXNz"]


async def test_no_proxy_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.invalid:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    async with RawUpstream() as raw, client(raw.base_url) as upstream:
        await read(await upstream.send(get()))
    assert raw.requests[0].target == b"/v1/models"


def test_a_proxy_that_cannot_be_used_is_told_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "socks5://127.0.0.1:1")
    with pytest.raises(ValueError, match="proxies"):
        HttpUpstream("https://model.invalid/v1")

"""Requests that offer an upgrade, and what follows a refused one; heads without end."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from modegate.core.wire.headers import HEAD_LIMIT
from support.running import exchange
from support.served import echo, served

H2C = (
    b"POST /v1/x HTTP/1.1\r\nHost: localhost\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n"
    b"Connection: Upgrade, HTTP2-Settings%b\r\n"
)


@pytest.mark.parametrize("step", [1, 7, 10_000], ids=["byte by byte", "by seven", "whole"])
async def test_another_upgrade_is_ignored_and_the_body_arrives(step: int) -> None:
    # Java's HTTP client offers h2c like this; its second request comes on the same connection.
    requests = (
        H2C % b""
        + b"Content-Length: 5\r\n\r\nhello"
        + H2C % b""
        + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
        + H2C % b", close"
        + b"Content-Length: 2\r\n\r\nhi"
    )
    async with served(echo) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for start in range(0, len(requests), step):
            writer.write(requests[start : start + step])
            await writer.drain()
        raw = await reader.read()
        writer.close()
    assert raw.count(b"HTTP/1.1 200") == 3
    bodies = [part.partition(b"HTTP/1.1")[0] for part in raw.split(b"\r\n\r\n")[1:]]
    assert bodies == [b"proxy POST /v1/x 5", b"proxy POST /v1/x 3", b"proxy POST /v1/x 2"]


WEBSOCKET = b"Host: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /v1/x HTTP/1.1\r\n" + WEBSOCKET + b"\r\n",
        b"POST /v1/x HTTP/1.1\r\n" + WEBSOCKET + b"Content-Length: 35\r\n\r\n",
    ],
    ids=["GET", "POST"],
)
async def test_what_follows_the_wish_for_a_websocket_is_no_request(request_bytes: bytes) -> None:
    async with served(echo) as (port, _):
        raw = await exchange(port, request_bytes + b"GET /v1/y HTTP/1.1\r\nHost: a.b\r\n\r\n")
    assert raw.endswith(b" /v1/x 0")
    assert raw.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    "request_bytes",
    [b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n", b"no HTTP\r\n\r\n"],
    ids=["a tunnel", "garbage"],
)
async def test_what_is_no_request_is_refused(request_bytes: bytes) -> None:
    async with served(echo) as (port, _):
        raw = await exchange(port, request_bytes)
    assert raw.startswith(b"HTTP/1.1 400")


TOP = b"POST /v1/x HTTP/1.1\r\nHost: localhost\r\n"
LONG = b"y" * HEAD_LIMIT
"""With what stands in front of it, just too much: all of it is read before it is refused."""


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"POST /" + LONG,
        TOP + b"X: " + LONG,
        TOP + LONG,
        TOP + b"X: y\r\n" * (len(LONG) // 6),
    ],
    ids=["path", "value", "name", "lines"],
)
async def test_a_head_without_end_is_refused(request_bytes: bytes) -> None:
    """Nothing more is taken of it, and nothing is collected meanwhile."""
    async with served(echo) as (port, _):
        raw = await exchange(port, request_bytes)
    assert raw.startswith(b"HTTP/1.1 400")
    assert str(HEAD_LIMIT).encode() in raw


@pytest.mark.parametrize("begun", [b"0;", b"0\r\nX: "], ids=["extension", "trailer"])
async def test_the_end_of_a_chunked_body_has_a_limit(begun: bytes) -> None:
    """More than can be read at a time: the connection ends, maybe before all of it was sent."""
    async with served(echo) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(TOP + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n" + begun + LONG * 4)
        with contextlib.suppress(ConnectionError):
            assert not (await reader.read()).startswith(b"HTTP/1.1 200")
        writer.close()


async def test_an_answer_that_has_begun_is_cut_and_not_spoilt() -> None:
    """No second answer is written into it."""

    async def early(_scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass

    async with served(early) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(TOP + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n")
        await reader.readuntil(b"begun")
        writer.write(b"0;" + LONG)
        assert b"HTTP/1.1" not in await reader.read()
        writer.close()


async def test_the_limit_of_heads_is_none_of_bodies_or_connections() -> None:
    """Each request begins anew, and a body may be as long as it likes."""
    body = b"Content-Length: %d\r\n\r\n%b" % (len(LONG), LONG)
    lines = b"X: " + b"y" * (HEAD_LIMIT // 2) + b"\r\n"
    requests = (TOP + lines + body) * 3 + TOP + lines + b"Connection: close\r\n" + body
    async with served(echo) as (port, _):
        raw = await exchange(port, requests)
    assert raw.count(b"proxy POST /v1/x %d" % len(LONG)) == 4


@pytest.mark.parametrize("step", [1, 10_000], ids=["byte by byte", "whole"])
async def test_h19_trailers_become_no_lines_of_the_head(step: int) -> None:
    """Also of the next request of the connection, whose own head is read as ever."""

    async def lines(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        names = b",".join(name for name, _ in scope["headers"])
        await PlainTextResponse(names)(scope, receive, send)

    chunked = (
        TOP + b"Transfer-Encoding: chunked\r\nTrailer: Authorization\r\n\r\n2\r\nab\r\n0\r\n"
        b"Authorization: Bearer S3CRET\r\nX-Modegate-Session: other\r\n\r\n"
    )
    requests = (
        chunked + chunked + TOP + b"Connection: close\r\nX-Last: 1\r\nContent-Length: 0\r\n\r\n"
    )
    async with served(lines) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for start in range(0, len(requests), step):
            writer.write(requests[start : start + step])
            await writer.drain()
        raw = await reader.read()
        writer.close()
    assert raw.count(b"host,transfer-encoding,trailer") == 2
    assert b"host,connection,x-last,content-length" in raw
    assert b"authorization" not in raw

"""L1: in a session that never had a mode the proxy is invisible, to the byte; over real sockets."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import given
from hypothesis import strategies as st

from support.raw_upstream import Act, RawUpstream, chunked, head, until_close, whole
from support.running import client, exchange, post, running

ODD = (
    b'{"model":"m",  "b":1,"a":2,"t":"\\u00e9\xc3\xa9\\/","n":1.0,"e":1E2,"z":-0,"dup":1,"dup":2,'
    b'"messages":[]}\n'
)


def parts(answer: bytes) -> tuple[bytes, list[bytes], bytes]:
    """Return status line, header lines and body of a raw answer."""
    top, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = top.split(b"\r\n")
    return first, lines, body


async def test_b085_the_body_is_the_clients_own(tmp_path: Path) -> None:
    """Odd spelling, duplicate keys, a trailing newline: upstream gets exactly these bytes."""
    async with RawUpstream(whole(b' {"x" :1}\n')) as up, running(tmp_path, up.base_url) as proxy:
        for path in ("/s/a/v1/chat/completions", "/v1/chat/completions", "/v1/anything"):
            answer = await exchange(proxy.port, post(path, ODD, "Content-Type: application/json"))
            assert parts(answer)[2] == b' {"x" :1}\n'
    assert [one.body for one in up.requests] == [ODD] * 3
    assert [one.header("content-length") for one in up.requests] == [[str(len(ODD)).encode()]] * 3


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_any_request_and_any_answer(tmp_path: Path, kind: str) -> None:
    """Whatever the bytes are, valid for the API or not, both sides get the other's."""
    bodies = [
        b"\x00\xff",
        b"{",
        b"[]",
        ODD,
        b'{"messages":[{"role":"user","content":"x"}]}',
        b"a" * 70000,
    ]
    async with RawUpstream(
        lambda one: whole(one.body[::-1], headers=[("Content-Type", kind)])
    ) as up:
        async with running(tmp_path, up.base_url) as proxy:
            for body in bodies:
                for path in ("/s/h/v1/chat/completions", "/v1/responses", "/v1/messages"):
                    got = await exchange(proxy.port, post(path, body))
                    assert parts(got)[2] == body[::-1]
                    assert up.requests[-1].body == body


PATHS = [
    "/v1/messages?beta=true",
    "/v1/chat/completions?api-version=2024-10-21&x=a%20b&x=c+d&empty=",
    "/v1/models/a%2Fb",
    "/v1//chat/completions",
    "/v1/chat/completions/",
    "/v1/responses//",
    "/v10/x",
    "/openai/deployments/x/chat/completions?a",
]


@pytest.mark.parametrize("path", PATHS)
async def test_b121_b122_b126_paths_and_queries(tmp_path: Path, path: str) -> None:
    """No re-encoding, no redirect, nothing lost; the session's prefix is all that goes."""
    async with RawUpstream(whole()) as up, running(tmp_path, up.base_url) as proxy:
        for prefix in ("", "/s/x"):
            answer = await exchange(proxy.port, post(prefix + path, b"{}"))
            assert b" 200 " in parts(answer)[0]
    assert [one.target for one in up.requests] == [path.encode()] * 2


async def test_b108_b109_headers_both_ways(tmp_path: Path) -> None:
    """End-to-end lines pass with order and duplicates; hop-by-hop and our own lines do not."""
    lines = [
        ("Server", "u"), ("Date", "Mon, 30 Nov 2026 00:00:00 GMT"), ("Set-Cookie", "a=1"),
        ("Set-Cookie", "b=2"), ("X-A", "1"), ("X-A", "1"), ("Request-Id", "r"),
        ("Content-Type", "application/json"), ("Keep-Alive", "timeout=5"),
    ]  # fmt: skip
    request = post(
        "/s/x/v1/chat/completions", b"{}", "X-ModeGate-Session: x", "TE: trailers", "X-Drop: 1",
        "Connection: X-Drop", "Authorization: Bearer k", "X-Twice: 1", "X-Twice: 2",
    )  # fmt: skip
    async with RawUpstream(whole(b"{}", headers=lines)) as up:
        async with running(tmp_path, up.base_url) as proxy:
            _, got, _ = parts(await exchange(proxy.port, request))
    names = [line.split(b":")[0].lower() for line in got]
    assert names.count(b"server") == names.count(b"date") == 1
    assert [line for line in got if line.lower().startswith(b"set-cookie")] == [
        b"set-cookie: a=1", b"set-cookie: b=2",
    ]  # fmt: skip
    assert names.count(b"x-a") == 2
    assert b"keep-alive" not in names
    received = up.requests[0]
    sent = [name.lower() for name, _ in received.headers]
    assert not {b"te", b"x-drop", b"x-modegate-session"} & set(sent)
    assert received.header("x-twice") == [b"1", b"2"]
    assert received.header("authorization") == [b"Bearer k"]
    assert received.header("host") == [up.base_url.removeprefix("http://").encode()]


@pytest.mark.parametrize("accept", ["gzip, br, zstd", "identity", None])
async def test_b103_encoded_answers_stay_encoded(tmp_path: Path, accept: str | None) -> None:
    """Raw bytes, with encoding and length as upstream sent them; nothing is asked for unasked."""
    body = gzip.compress(b'{"a":1}')
    lines = [("Content-Type", "application/json"), ("Content-Encoding", "gzip")]
    asked = [f"Accept-Encoding: {accept}"] if accept else []
    async with RawUpstream(whole(body, headers=lines)) as up:
        async with running(tmp_path, up.base_url) as proxy:
            _, got, sent = parts(
                await exchange(proxy.port, post("/v1/chat/completions", b"{}", *asked))
            )
    assert sent == body
    assert b"content-encoding: gzip" in got
    assert up.requests[0].header("accept-encoding") == ([accept.encode()] if accept else [])


async def test_b106_encoded_requests_stay_encoded(tmp_path: Path) -> None:
    """A compressed body is forwarded untouched."""
    body = gzip.compress(b'{"model":"m","messages":[]}')
    async with RawUpstream(whole()) as up, running(tmp_path, up.base_url) as proxy:
        await exchange(proxy.port, post("/v1/chat/completions", body, "Content-Encoding: gzip"))
    assert up.requests[0].body == body
    assert up.requests[0].header("content-encoding") == [b"gzip"]


async def test_b113_events_pass_one_by_one(tmp_path: Path) -> None:
    """The head comes before the first event, each event before the next, and nothing is compressed."""
    first, second = asyncio.Event(), asyncio.Event()
    answer = chunked(first, b"data: 1\n\n", second, b"data: 2\n\n")
    async with RawUpstream(answer) as up, running(tmp_path, up.base_url) as proxy, client() as http:
        request = http.stream(
            "POST", f"{proxy.base()}/chat/completions", json={"stream": True},
            headers={"accept-encoding": "gzip"},
        )  # fmt: skip
        async with request as got:
            assert "content-encoding" not in got.headers
            pieces = got.aiter_raw()
            first.set()
            assert await anext(pieces) == b"data: 1\n\n"
            second.set()
            assert await anext(pieces) == b"data: 2\n\n"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503, 529])
async def test_b116_errors_pass_unchanged(tmp_path: Path, status: int) -> None:
    """Status, the headers that say when to come again, and the body; the proxy does not retry."""
    lines = [
        ("Content-Type", "application/json"), ("Retry-After", "17"), ("retry-after-ms", "17000"),
        ("x-ratelimit-remaining-requests", "0"), ("x-should-retry", "true"),
    ]  # fmt: skip
    async with RawUpstream(whole(b'{"error":1}', status, lines)) as up:
        async with running(tmp_path, up.base_url) as proxy:
            first, got, body = parts(
                await exchange(proxy.port, post("/v1/chat/completions", b"{}"))
            )
    assert str(status).encode() in first
    assert body == b'{"error":1}'
    for name, value in lines[1:]:
        assert f"{name.lower()}: {value}".encode() in got
    assert len(up.requests) == 1


async def test_b110_a_client_that_leaves_ends_the_upstream(tmp_path: Path) -> None:
    """Upstream sees the close though it would go on."""
    answer = [*chunked(b"data: 1\n\n")[:2], Act.HANG]
    async with RawUpstream(answer) as up, running(tmp_path, up.base_url) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(post("/s/x/v1/chat/completions", b"{}"))
        await reader.readuntil(b"data: 1\n\n")
        writer.close()
        await up.gone(0)


async def test_upstream_that_breaks_off_is_seen_to(tmp_path: Path) -> None:
    """A cut answer is cut for the client too: there is no proper end."""
    answer = [*chunked(b"data: 1\n\n")[:2], Act.RESET]
    async with RawUpstream(answer) as up, running(tmp_path, up.base_url) as proxy:
        got = await exchange(proxy.port, post("/s/x/v1/chat/completions", b"{}"))
    assert b"data: 1\n\n" in got
    assert not got.endswith(b"0\r\n\r\n")


async def test_close_delimited_answers(tmp_path: Path) -> None:
    """An answer without a length ends with its connection."""
    async with RawUpstream(until_close(b"a", b"b")) as up, running(tmp_path, up.base_url) as proxy:
        got = await exchange(proxy.port, post("/s/x/v1/chat/completions", b"{}"))
    assert b"a" in parts(got)[2]


async def test_b118_websocket_is_refused_at_once(tmp_path: Path) -> None:
    """426 with a small body and a closed connection; nothing reaches upstream."""
    request = (
        b"GET /v1/responses HTTP/1.1\r\nHost: p\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    async with RawUpstream(whole()) as up, running(tmp_path, up.base_url) as proxy:
        first, _, body = parts(await exchange(proxy.port, request))
        assert b" 426 " in first
        assert json.loads(body)["error"]["code"] == "upgrade_required"
        plain = b"GET /v1/responses/r1 HTTP/1.1\r\nHost: p\r\nConnection: close\r\n\r\n"
        assert b" 200 " in parts(await exchange(proxy.port, plain))[0]
    assert [one.target for one in up.requests] == [b"/v1/responses/r1"]


@pytest.mark.parametrize("method", ["HEAD", "GET", "DELETE", "OPTIONS", "PUT", "PATCH"])
async def test_b124_b125_every_method(tmp_path: Path, method: str) -> None:
    """Methods are the client's business; a preflight needs no credentials."""
    async with RawUpstream(whole(b"" if method == "HEAD" else b"{}")) as up:
        async with running(tmp_path, up.base_url) as proxy:
            raw = f"{method} /v1/models HTTP/1.1\r\nHost: p\r\nOrigin: http://x\r\nConnection: close\r\n\r\n"
            first, got, _ = parts(await exchange(proxy.port, raw.encode()))
    assert b" 200 " in first
    assert up.requests[0].method == method.encode()
    assert not [line for line in got if b"access-control" in line.lower()]


async def test_b120_large_bodies(tmp_path: Path) -> None:
    """24 MB there and a 40 MB line back; over `limits.body` there is a 413 that names it."""
    body = b'{"image":"' + b"A" * 24_000_000 + b'"}'
    line = b"data: " + b"B" * 40_000_000 + b"\n\n"
    async with RawUpstream(chunked(line)) as up, running(tmp_path, up.base_url) as proxy:
        async with client() as http:
            got = await http.post(f"{proxy.base()}/chat/completions", content=body)
            assert len(got.content) == len(line)
            huge = await http.post(
                f"{proxy.base()}/chat/completions", content=b"x" * (64 * 2**20 + 1)
            )
    assert up.requests[0].body == body
    assert huge.status_code == 413
    assert "limits.body" in huge.json()["error"]["message"]


async def test_b130_expect_is_answered_here(tmp_path: Path) -> None:
    """The proxy answers 100 itself and does not pass Expect on."""
    async with RawUpstream(whole()) as up, running(tmp_path, up.base_url) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: p\r\nContent-Length: 2\r\n"
            b"Expect: 100-continue\r\nConnection: close\r\n\r\n"
        )
        assert b"100" in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"{}")
        assert b" 200 " in (await reader.read()).split(b"\r\n")[0]
        writer.close()
    assert up.requests[0].header("expect") == []


async def test_chunked_request_bodies(tmp_path: Path) -> None:
    """A body without a length passes as it comes."""
    raw = (
        b"POST /s/x/v1/chat/completions HTTP/1.1\r\nHost: p\r\nTransfer-Encoding: chunked\r\n"
        b"Connection: close\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    )
    async with RawUpstream(whole()) as up, running(tmp_path, up.base_url) as proxy:
        assert b" 200 " in parts(await exchange(proxy.port, raw))[0]
    assert up.requests[0].body == b"{}"


async def test_default_sessions_leave_no_events(tmp_path: Path) -> None:
    """A session that was only seen lives in the index alone."""
    async with RawUpstream([head(200, [("Content-Length", "0")])]) as up:
        async with running(tmp_path, up.base_url) as proxy:
            await exchange(proxy.port, post("/s/seen/v1/chat/completions", b"{}"))
            assert await proxy.events("seen") == []


JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
).map(lambda value: json.dumps(value).encode())
BODIES = st.binary(min_size=1, max_size=300) | JSON_LIKE
KINDS = st.sampled_from(["application/json", "text/event-stream", "text/html"])
TARGETS = st.sampled_from(
    ["/v1/chat/completions", "/s/h/v1/chat/completions", "/v1/responses", "/x"]
)


def test_property_any_bytes_pass_both_ways(tmp_path: Path) -> None:
    """For any request and any answer both sides get exactly the other's bytes."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(RawUpstream(whole())) as up,
        portal.wrap_async_context_manager(running(tmp_path, up.base_url)) as proxy,
    ):

        @given(body=BODIES, answer=BODIES, kind=KINDS, target=TARGETS)
        def check(body: bytes, answer: bytes, kind: str, target: str) -> None:
            portal.call(up.enqueue, whole(answer, headers=[("Content-Type", kind)]))
            got = portal.call(exchange, proxy.port, post(target, body))
            assert parts(got)[2] == answer
            assert up.requests[-1].body == body

        check()

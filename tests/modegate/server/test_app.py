"""The app: which paths are modegate's own, WebSocket upgrades, probes, and the process around it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from modegate.core.errors import LogUnavailable
from modegate.core.policy import Policy
from modegate.core.problems import Problem
from modegate.server.app import Parts, create_app
from modegate.server.clock import SystemClock
from modegate.server.control import Control, Folds
from modegate.server.eventlog import EventLog
from modegate.server.metrics import Metrics
from modegate.server.serving import (
    Job,
    Server,
    StartFailed,
    TaskDied,
    bind,
    serve_with,
    tune_malloc,
)


@dataclass
class Status:
    generation: int = 3
    loaded_at: int = 0
    problems: tuple[Problem, ...] = ()


@dataclass
class Policies:
    current: Policy = field(default_factory=lambda: Policy("abc123", {}))
    status: Status = field(default_factory=Status)


@dataclass
class Store:
    """An event log of which only `ping` is asked."""

    ping: Callable[[], Awaitable[None]]


async def answers() -> None:
    return


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    request = Request(scope, receive)
    body = await request.body()
    await PlainTextResponse(f"proxy {scope['method']} {scope['path']} {len(body)}")(
        scope, receive, send
    )


def app_of(
    proxy: ASGIApp = echo,
    *,
    ping: Callable[[], Awaitable[None]] = answers,
    policies: Policies | None = None,
) -> ASGIApp:
    policies = policies or Policies()
    log = cast(EventLog, Store(ping))
    control = Control(log=log, folds=cast(Folds, None), policies=policies, clock=SystemClock())
    return create_app(
        Parts(
            proxy=proxy, log=log, policies=policies, control=control, metrics=Metrics(), token="t"
        )
    )


def client_of(app: ASGIApp) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url="http://localhost"
    )


@asynccontextmanager
async def served(app: ASGIApp, drain: float = 5.0) -> AsyncIterator[tuple[int, Server]]:
    """Run the app on a real server, on a free port."""
    listener = bind("127.0.0.1", 0)
    port: int = listener.getsockname()[1]
    server = Server(app, drain=drain, on_drain=lambda: None)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(server.serve(sockets=[listener]))
        try:
            yield port, server
        finally:
            server.should_exit = True
            await task


async def exchange(port: int, request: bytes) -> bytes:
    """Send bytes and read until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        return await reader.read()
    finally:
        writer.close()


async def refused(port: int) -> None:
    """Wait until the port is closed."""
    while True:
        try:
            await exchange(port, b"GET /healthz HTTP/1.0\r\n\r\n")
        except ConnectionError:
            return


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        ("/v1/chat/completions", "proxy"),
        ("/s/x/v1/models", "proxy"),
        ("/", "proxy"),
        ("/controls", "proxy"),
        ("/v1/control", "proxy"),
        ("/s/control/v1/models", "proxy"),
        ("/healthz", "modegate"),
        ("/healthz/x", "modegate"),
        ("/metrics", "modegate"),
        ("/control", "modegate"),
        ("/control/v1/nothing", "modegate"),
        ("//control/v1/sessions", "modegate"),
        ("///control", "modegate"),
        ("/%63ontrol/v1/sessions", "modegate"),
    ],
)
async def test_reserved_paths_never_go_upstream(path: str, owner: str) -> None:
    async with client_of(app_of()) as client:
        answer = await client.get(httpx.URL(f"http://localhost{path}"))
    assert answer.text.startswith("proxy ") == (owner == "proxy")


async def test_health_asks_nobody() -> None:
    async def broken() -> None:
        raise LogUnavailable("gone")

    async with client_of(app_of(ping=broken)) as client:
        answer = await client.get("/healthz")
    assert (answer.status_code, answer.text) == (200, "ok\n")


async def test_ready_when_the_log_answers() -> None:
    async with client_of(app_of()) as client:
        answer = await client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json() == {
        "ready": True,
        "log": "ok",
        "policy": {"hash": "abc123", "generation": 3},
    }


async def test_a_failed_reload_is_a_warning_without_details() -> None:
    policies = Policies(status=Status(problems=(Problem("modes.plan", 7, "secret detail"),)))
    async with client_of(app_of(policies=policies)) as client:
        answer = await client.get("/readyz")
    assert answer.status_code == 200
    assert "1 problem" in answer.json()["warning"]
    assert "secret detail" not in answer.text


async def test_not_ready_without_the_log() -> None:
    async def broken() -> None:
        raise LogUnavailable("no connection to the log")

    async with client_of(app_of(ping=broken)) as client:
        answer = await client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["log"] == "no connection to the log"
    assert answer.json()["ready"] is False


async def test_not_ready_when_the_log_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modegate.server.app.PING_S", 0.01)

    async def hangs() -> None:
        await asyncio.Event().wait()

    async with client_of(app_of(ping=hangs)) as client:
        answer = await client.get("/readyz")
    assert answer.status_code == 503
    assert "no answer" in answer.json()["log"]


async def test_an_error_of_our_own_is_json() -> None:
    async def breaks() -> None:
        raise RuntimeError("inner detail")

    async with client_of(app_of(ping=breaks)) as client:
        answer = await client.get("/readyz")
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal_error"
    assert "inner detail" not in answer.text


UPGRADE = (
    b"Host: localhost\r\nConnection: %b\r\nUpgrade: %b\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


@pytest.mark.parametrize(
    ("path", "connection", "upgrade"),
    [
        (b"/v1/responses", b"Upgrade", b"websocket"),
        (b"/s/x/v1/responses", b"keep-alive, Upgrade", b"WebSocket"),
        (b"/v1/realtime?model=m", b"upgrade", b"websocket"),
        (b"/v1/responses", b"keep-alive", b"websocket"),
    ],
)
async def test_B118_a_websocket_is_refused_and_the_connection_closed(
    path: bytes, connection: bytes, upgrade: bytes
) -> None:
    async with served(app_of()) as (port, _):
        raw = await exchange(port, b"GET %b HTTP/1.1\r\n" % path + UPGRADE % (connection, upgrade))
    head, _, body = raw.partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    assert lines[0].startswith(b"http/1.1 426")
    assert b"connection: close" in lines
    assert b'"code":"upgrade_required"' in body


async def test_B118_a_plain_get_of_an_answer_is_forwarded() -> None:
    async with served(app_of()) as (port, _):
        raw = await exchange(
            port, b"GET /v1/responses/r1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )
    assert raw.endswith(b"proxy GET /v1/responses/r1 0")


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
    async with served(app_of()) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for start in range(0, len(requests), step):
            writer.write(requests[start : start + step])
            await writer.drain()
        raw = await reader.read()
        writer.close()
    assert raw.count(b"HTTP/1.1 200") == 3
    bodies = [part.partition(b"HTTP/1.1")[0] for part in raw.split(b"\r\n\r\n")[1:]]
    assert bodies == [b"proxy POST /v1/x 5", b"proxy POST /v1/x 3", b"proxy POST /v1/x 2"]


async def test_what_follows_a_refused_websocket_is_for_nobody() -> None:
    head = b"GET /v1/responses HTTP/1.1\r\n" + UPGRADE % (b"Upgrade", b"websocket")
    async with served(app_of()) as (port, _):
        raw = await exchange(port, head + b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert raw.startswith(b"HTTP/1.1 426")
    assert raw.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    "request_bytes",
    [b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n", b"no HTTP\r\n\r\n"],
    ids=["a tunnel", "garbage"],
)
async def test_what_is_no_request_is_refused(request_bytes: bytes) -> None:
    async with served(app_of()) as (port, _):
        raw = await exchange(port, request_bytes)
    assert raw.startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    ("extensions", "sent"),
    [
        ({}, ["websocket.close"]),
        (
            {"websocket.http.response": {}},
            ["websocket.http.response.start", "websocket.http.response.body"],
        ),
    ],
    ids=["plain", "with answers"],
)
async def test_a_websocket_scope_is_refused(extensions: dict[str, Any], sent: list[str]) -> None:
    messages: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        messages.append(message)

    await app_of()({"type": "websocket", "path": "/v1/x", "extensions": extensions}, receive, send)
    assert [message["type"] for message in messages] == sent
    assert messages[0].get("status", 426) == 426


async def test_lifespan_is_not_the_apps() -> None:
    with pytest.raises(ValueError, match="lifespan"):
        await app_of()({"type": "lifespan"}, cast(Receive, None), cast(Send, None))


def test_a_taken_port_is_told() -> None:
    with bind("127.0.0.1", 0) as taken, pytest.raises(StartFailed) as caught:
        bind("127.0.0.1", taken.getsockname()[1])
    assert "is in use" in caught.value.lines[0]
    assert caught.value.exit_code == 1


def test_a_foreign_address_is_told() -> None:
    with pytest.raises(StartFailed, match=r"cannot listen on 203\.0\.113\.1:0"):
        bind("203.0.113.1", 0)


def test_malloc_is_tuned_or_left_alone() -> None:
    tune_malloc()


async def test_running_requests_are_drained_and_new_ones_refused() -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        async def body() -> AsyncIterator[str]:
            yield "first "
            started.set()
            await go_on.wait()
            yield "last"

        await StreamingResponse(body())(scope, receive, send)

    async with served(app_of(slow)) as (port, server), asyncio.TaskGroup() as group:
        request = b"GET /v1/x HTTP/1.1\r\nHost: localhost\r\n\r\n"
        running = group.create_task(exchange(port, request))
        await started.wait()
        server.should_exit = True
        await refused(port)
        go_on.set()
        assert b"last" in await running


async def test_a_request_that_outlasts_the_drain_is_cut_off() -> None:
    started, cut = asyncio.Event(), asyncio.Event()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cut.set()

    listener = bind("127.0.0.1", 0)
    drained = asyncio.Event()
    server = Server(app_of(endless), drain=0.01, on_drain=drained.set)
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(serve_with(server, listener, []))
        request = b"GET /v1/x HTTP/1.1\r\nHost: localhost\r\n\r\n"
        group.create_task(exchange(listener.getsockname()[1], request))
        await started.wait()
        server.should_exit = True
        await serving
        assert drained.is_set()
        assert cut.is_set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_server_and_nothing_else(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    running, stopped = asyncio.Event(), asyncio.Event()

    async def job() -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    ready = asyncio.Event()

    async def tell() -> None:
        ready.set()

    server = Server(app_of(), drain=1, on_drain=lambda: None, on_start=tell)
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(serve_with(server, bind("127.0.0.1", 0), [Job("job", job)]))
        await running.wait()
        await ready.wait()
        os.kill(os.getpid(), number)
        await serving
    assert stopped.is_set()
    assert signal.getsignal(number) is before


async def fails() -> None:
    raise RuntimeError("it broke")


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        pytest.param(fails, "it broke", id="fails"),
        pytest.param(answers, "it returned", id="returns"),
    ],
)
async def test_the_server_ends_when_a_job_does(
    job: Callable[[], Awaitable[None]], reason: str
) -> None:
    server = Server(app_of(), drain=1, on_drain=lambda: None)
    with pytest.raises(TaskDied, match=f"the recorder ended: {reason}"):
        await serve_with(server, bind("127.0.0.1", 0), [Job("the recorder", job)])


@pytest.mark.parametrize(
    ("host", "family"),
    [("::1", socket.AF_INET6), ("127.0.0.1", socket.AF_INET), ("localhost", socket.AF_INET)],
)
def test_the_family_follows_the_address(
    monkeypatch: pytest.MonkeyPatch, host: str, family: socket.AddressFamily
) -> None:
    asked: list[tuple[object, object]] = []
    monkeypatch.setattr(
        socket, "create_server", lambda address, *, family, backlog: asked.append((address, family))
    )
    bind(host, 1)
    assert asked == [((host, 1), family)]

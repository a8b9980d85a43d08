"""ACP over WebSocket: frames, upgrades that are refused elsewhere, and sockets that end."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp, Message
from websockets.exceptions import ConnectionClosed

from modegate.core.ids import LOCAL, Tenant
from modegate.core.policy.model import Level
from modegate.server.access import GRANT, Grant
from modegate_acp.connection.connection import Caller
from modegate_acp.endpoint import agents_base
from modegate_acp.following import send_queue
from support.acp import AcpError, Client, Socket, eventually, socket, streams
from support.running import TOKEN, Running, exchange, running
from support.waiting import PATIENCE

KEY = base64.b64encode(b"0" * 16).decode()


def upgrade(target: str, *lines: str, method: str = "GET", host: str = "localhost") -> bytes:
    """Return a request for a WebSocket."""
    head = [
        f"{method} {target} HTTP/1.1",
        f"Host: {host}",
        "Connection: keep-alive, Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {KEY}",
        *lines,
    ]
    return ("\r\n".join(head) + "\r\n\r\n").encode()


AUTH = f"Authorization: Bearer {TOKEN}"


async def status(proxy: Running, request: bytes) -> int:
    """Send a request and give the status of its answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(request)
    line = await reader.readline()
    writer.close()
    return int(line.split()[1])


async def test_a11_two_hosts_are_refused(proxy: Running) -> None:
    """Which of them a proxy in front looked at, nobody knows."""
    assert await status(proxy, upgrade("/acp", AUTH, "Host: localhost")) == 400
    assert await status(proxy, upgrade("/acp", AUTH, "Host: evil.example")) == 400


async def test_the_handshake_names_the_connection(proxy: Running) -> None:
    async with socket(proxy) as one, socket(proxy) as two:
        assert one.connection
        assert one.connection != two.connection


@pytest.mark.parametrize(
    ("target", "method", "expected"),
    [
        ("/acp", "GET", 101),
        ("/acp?tenant=team", "GET", 101),
        ("/v1/responses", "GET", 426),
        ("/s/s1/v1/responses", "GET", 426),
        ("/acp/more", "GET", 404),
        ("//acp", "GET", 404),
        ("/acp/", "GET", 404),
        ("/ACP", "GET", 404),
        ("/control/v1/sessions", "GET", 200),
        ("/acp", "PUT", 405),
    ],
)
async def test_only_one_path_takes_a_websocket(
    proxy: Running, target: str, method: str, expected: int
) -> None:
    assert await status(proxy, upgrade(target, AUTH, method=method)) == expected


async def test_nothing_behind_a_refused_upgrade_is_served(proxy: Running) -> None:
    second = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answer = await exchange(proxy.port, upgrade("/v1/responses") + second)
    assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    "lines",
    [[], ["Authorization: Bearer wrong"], ["Authorization: Basic x"], [f"X-Token: {TOKEN}"]],
    ids=["none", "wrong", "another scheme", "another header"],
)
async def test_a_token_is_needed(proxy: Running, lines: list[str]) -> None:
    assert await status(proxy, upgrade("/acp", *lines)) == 401
    assert await status(proxy, upgrade(f"/acp?token={TOKEN}", *lines)) == 401
    assert await status(proxy, upgrade("/acp", f"Sec-WebSocket-Protocol: {TOKEN}", *lines)) == 401


@pytest.mark.parametrize(
    ("host", "origin", "expected"),
    [
        ("localhost", None, 101),
        ("localhost:8484", "http://localhost:8484", 101),
        ("evil.example", None, 403),
        ("evil.example", "http://evil.example", 403),
        ("localhost", "http://evil.example", 403),
        ("localhost:8484", "http://localhost:3000", 403),
        ("127.0.0.1", "http://localhost", 403),
        ("localhost", "null", 403),
    ],
)
async def test_other_sites_are_refused(
    proxy: Running, host: str, origin: str | None, expected: int
) -> None:
    """Cross-site WebSockets and DNS rebinding; loopback is no exemption (qwen-code PR 4773)."""
    lines = [AUTH] + ([f"Origin: {origin}"] if origin else [])
    assert await status(proxy, upgrade("/acp", *lines, host=host)) == expected


@pytest.mark.parametrize("tenant", ["", "ci", "x" * 129])
async def test_o2_a_tenant_that_no_agent_can_have_is_refused(
    proxy: Running, monkeypatch: pytest.MonkeyPatch, tenant: str
) -> None:
    monkeypatch.setattr("modegate.core.ids.TENANTS", frozenset({LOCAL}))
    assert await status(proxy, upgrade(f"/acp?tenant={tenant}", AUTH)) == 400
    assert await status(proxy, upgrade("/acp?tenant=local", AUTH)) == 101


NO_MESSAGES: dict[str, tuple[str, int]] = {
    "no JSON": ("{", -32700),
    "a batch": ("[]", -32600),
    "a key twice": ('{"jsonrpc":"2.0","id":1,"id":1,"method":"session/list"}', -32700),
    "text": ('"hello"', -32600),
}


@pytest.mark.parametrize("case", NO_MESSAGES.values(), ids=NO_MESSAGES)
async def test_what_is_no_message_is_answered_and_ends_nothing(
    proxy: Running, case: tuple[str, int]
) -> None:
    text, code = case
    async with socket(proxy) as client:
        await client.raw(text)
        error = await client.find(lambda one: one.get("id", 0) is None)
        assert error["error"]["code"] == code
        await client.settled()


async def test_initialize_comes_first_and_once(proxy: Running) -> None:
    async with socket(proxy, begin=False) as client:
        with pytest.raises(AcpError) as before:
            await client.call("session/list")
        await client.initialize()
        with pytest.raises(AcpError) as again:
            await client.initialize()
    assert (before.value.code, again.value.code) == (-32600, -32600)


async def test_an_unknown_method_is_told_as_such(proxy: Running) -> None:
    async with socket(proxy) as client:
        with pytest.raises(AcpError) as caught:
            await client.call("session/fork", sessionId="s")
    assert caught.value.code == -32601


@pytest.mark.parametrize(
    ("frame", "code"), [(b"{}", 1003), ('"' + "x" * (4 * 2**20) + '"', 1009)], ids=["bytes", "long"]
)
async def test_frames_that_end_the_connection(
    proxy: Running, frame: str | bytes, code: int
) -> None:
    async with socket(proxy) as client:
        with suppress(ConnectionClosed):
            await client.raw(frame)
        assert await client.until_closed() == code


async def test_a_long_frame_is_taken(proxy: Running) -> None:
    async with socket(proxy) as client:
        session = await client.new()
        await client.prompt(session, "x" * (4 * 2**20 - 1_000))


async def test_there_are_so_many_connections_for_a_token(alone: Running) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(63):
            await stack.enter_async_context(socket(alone, begin=False))
        web = await stack.enter_async_context(streams(alone))
        assert await status(alone, upgrade("/acp", AUTH)) == 429
        begin = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {"protocolVersion": 1},
        }
        answer = await web.http.post(web.url, json=begin)
        assert answer.status_code == 429
        await web.http.delete(web.url, headers=web.headers)
        assert await status(alone, upgrade("/acp", AUTH)) == 101


async def test_who_does_not_begin_is_let_go(
    proxy: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with socket(proxy, begin=False) as silent, socket(proxy) as client:
        web = await client.settled()
        monkeypatch.setattr("modegate_acp.endpoint.IDLE_S", 0.0)
        assert await silent.until_closed() == 1008
        assert await client.settled() > web


async def test_who_has_no_stream_is_let_go(proxy: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    async with streams(proxy) as client, streams(proxy) as open_one:
        await client.drop(None)
        monkeypatch.setattr("modegate_acp.endpoint.IDLE_S", 0.0)
        listing = {"jsonrpc": "2.0", "id": 2, "method": "session/list"}

        async def gone() -> bool:
            return (await client.post(listing)).status_code == 404

        assert await eventually(gone)
        await open_one.settled()


async def test_who_reads_nothing_is_let_go(proxy: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_queue, "MAX_WAITING", 8)
    async with streams(proxy) as client:
        await client.drop(None)
        listing = {"jsonrpc": "2.0", "id": 2, "method": "session/list"}

        async def gone() -> bool:
            return (await client.post(listing)).status_code == 404

        assert await eventually(gone)


class Asgi:
    """The server's end of a socket whose client takes only so many messages."""

    def __init__(self, takes: int) -> None:
        self.takes = takes
        self.sent: list[Message] = []
        self.incoming: asyncio.Queue[Message] = asyncio.Queue()
        self.incoming.put_nowait({"type": "websocket.connect"})
        self.stuck = asyncio.Event()

    @property
    def scope(self) -> dict[str, Any]:
        return {
            "type": "websocket",
            "scheme": "ws",
            "path": "/acp",
            "query_string": b"",
            "headers": [(b"host", b"localhost"), (b"authorization", f"Bearer {TOKEN}".encode())],
            GRANT: Grant("control", Level.FULL, None),
        }

    def tell(self, **message: Any) -> None:
        text = json.dumps({"jsonrpc": "2.0", **message})
        self.incoming.put_nowait({"type": "websocket.receive", "text": text})

    async def send(self, message: Message) -> None:
        if len(self.sent) >= self.takes:
            self.stuck.set()
            await asyncio.Event().wait()
        self.sent.append(message)


async def call(app: ASGIApp, asgi: Asgi) -> None:
    await app(asgi.scope, asgi.incoming.get, asgi.send)


async def test_a_socket_that_is_not_read_is_closed(
    proxy: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send_queue, "MAX_WAITING", 8)
    monkeypatch.setattr("modegate_acp.transport.websocket.CLOSE_S", 0.01)
    assert proxy.composed
    assert proxy.composed.acp
    asgi = Asgi(takes=2)
    asgi.tell(id=1, method="initialize", params={"protocolVersion": 1})
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        app = proxy.composed.acp.app
        _ = group.create_task(call(app, asgi))
        asgi.tell(id=2, method="session/list")
        await asgi.stuck.wait()
        for number in range(20):
            asgi.tell(id=3 + number, method="session/list")
    assert [one["type"] for one in asgi.sent] == ["websocket.accept", "websocket.send"]


async def test_shutdown_closes_sockets_and_streams(tmp_path: Path) -> None:
    async with AsyncExitStack() as clients, AsyncExitStack() as proxies:
        proxy = await proxies.enter_async_context(running(tmp_path, "http://127.0.0.1:9"))
        one: Socket = await clients.enter_async_context(socket(proxy))
        two: Client = await clients.enter_async_context(streams(proxy))
        session = await one.new()
        await one.set_mode(session, "plan")
        await two.load(session)
        waiting = await one.start("session/set_mode", sessionId=session, modeId="default")
        await one.question()
        await proxies.aclose()
        assert await one.until_closed() == 1012
        await two.until_closed()
        assert not any(message.get("id") == waiting for message in one.seen)


async def test_a_connection_that_comes_during_the_shutdown_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, "http://127.0.0.1:9") as proxy:
        assert proxy.composed
        proxy.composed.drain()
        assert await status(proxy, upgrade("/acp", AUTH)) == 503
        async with streams(proxy, begin=False) as client:
            begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
            assert (await client.post(begin)).status_code == 503


@pytest.mark.parametrize(
    ("scheme", "host", "port", "base"),
    [
        ("ws", "localhost:8484", None, "http://localhost:8484"),
        ("wss", "modegate.example", None, "https://modegate.example"),
        ("http", "localhost:8485", 8484, "http://localhost:8484"),
        ("https", "[::1]:8485", 8484, "https://[::1]:8484"),
        ("http", "[::1]", 8484, "http://[::1]:8484"),
    ],
)
def test_where_agents_are_pointed(scheme: str, host: str, port: int | None, base: str) -> None:
    assert agents_base(scheme, host, port) == base


def test_a_token_is_not_shown() -> None:
    caller = Caller(TOKEN, "phone", Tenant("local"), "http://localhost")
    assert TOKEN not in repr(caller)

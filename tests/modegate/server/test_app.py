"""The app: which paths are modegate's own, WebSocket upgrades, probes, and the process around it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, cast

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Send

from modegate.core.errors import LogUnavailable
from modegate.core.policy.file.problems import Problem
from modegate.core.policy.model import Policy
from modegate.server.access import Access, Sites
from modegate.server.app import create_app
from modegate.server.clock import SystemClock
from modegate.server.control.routes import Control
from modegate.server.extension import Services
from modegate.server.log.protocol import EventLog
from modegate.server.metrics import Metrics
from support.running import exchange
from support.served import echo, served


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
    """An event log of which only `ping` and `warnings` are asked."""

    ping: Callable[[], Awaitable[None]]
    wrong: list[str] = field(default_factory=list)

    async def warnings(self) -> list[str]:
        return self.wrong


async def answers() -> None:
    return


def app_of(
    proxy: ASGIApp = echo,
    *,
    ping: Callable[[], Awaitable[None]] = answers,
    policies: Policies | None = None,
) -> ASGIApp:
    policies = policies or Policies()
    nothing: Any = None
    services = Services(
        log=cast(EventLog, Store(ping)),
        folds=nothing,
        policies=cast(Any, policies),
        approvals=nothing,
        setter=nothing,
        access=Access("t", policies, {}),
        sites=Sites(hosts=(), bound="127.0.0.1"),
        clock=SystemClock(),
        metrics=Metrics(),
        batch_writer=nothing,
    )
    return create_app(services, proxy, Control(services))


def client_of(app: ASGIApp) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url="http://localhost"
    )


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
        ("/console", "modegate"),
        ("/console/x", "modegate"),
        ("/s/x/control/v1/sessions", "modegate"),
        ("/CONTROL/v1/sessions", "modegate"),
        ("/%2E/control/v1/sessions", "modegate"),
        ("/s/x/metrics", "modegate"),
    ],
)
async def test_reserved_paths_never_go_upstream(path: str, owner: str) -> None:
    async with client_of(app_of()) as client:
        answer = await client.get(httpx.URL(f"http://localhost{path}"))
    assert answer.text.startswith("proxy ") == (owner == "proxy")


TOKEN = {"authorization": "Bearer t"}


@pytest.mark.parametrize(
    "path",
    ["/control", "/control/", "/acp", "/acp/", "/console", "/control/v1/policy/", "/console/"],
)
async def test_h20_nothing_of_people_answers_in_front_of_the_guard(path: str) -> None:
    """No redirect, which would repeat the Host header, and the same words for whatever is behind it."""
    async with client_of(app_of()) as client:
        strange = await client.get(path, headers={"host": "evil.example", **TOKEN})
        nobody = await client.get(path)
        somebody = await client.get(path, headers=TOKEN)
    assert (strange.status_code, nobody.status_code, somebody.status_code) == (403, 401, 404)


@pytest.mark.parametrize("path", ["/healthz/", "/readyz/", "/metrics/"])
async def test_h20_probes_redirect_nowhere(path: str) -> None:
    async with client_of(app_of()) as client:
        assert (await client.get(path)).status_code == 404


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8484", 200),
        ("10.2.3.4:8485", 200),
        ("[fd00::1]:8485", 200),
        ("evil.example", 403),
        ("10.2.3.4.evil.example", 403),
        ("", 403),
    ],
)
async def test_h20_metrics_are_read_under_a_known_name_or_an_address(
    host: str, status: int
) -> None:
    """Prometheus goes to addresses; a page that rebinds a name of its own gets nothing."""
    async with client_of(app_of()) as client:
        answer = await client.get("/metrics", headers={"host": host})
        page = await client.get(
            "/metrics", headers={"host": host, "origin": "https://evil.example"}
        )
    assert answer.status_code == status
    assert page.status_code == 403


async def test_o18_the_console_is_answered_here_and_says_that_there_is_none() -> None:
    async with client_of(app_of()) as client:
        answer = await client.get("/console", headers=TOKEN)
    assert answer.status_code == 404
    assert "no console" in answer.json()["error"]["message"]


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


async def test_of_a_policys_warnings_the_number_is_told() -> None:
    policy = Policy("abc123", {}, warnings=(Problem("modes.plan", 7, "secret detail"),))
    async with client_of(app_of(policies=Policies(current=policy))) as client:
        answer = await client.get("/readyz")
    assert answer.status_code == 200
    assert "1 warning" in answer.json()["warning"]
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
    assert b"connection: upgrade, close" in lines
    assert b'"code":"upgrade_required"' in body


async def test_B118_a_plain_get_of_an_answer_is_forwarded() -> None:
    async with served(app_of()) as (port, _):
        raw = await exchange(
            port, b"GET /v1/responses/r1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )
    assert raw.endswith(b"proxy GET /v1/responses/r1 0")


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

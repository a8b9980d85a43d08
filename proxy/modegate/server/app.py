"""The one ASGI callable: a few reserved paths are modegate's own, all others are the proxy's.

No router, middleware or request object stands in front of the proxy: each was measured to cost a good part of
what the proxy itself does.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from modegate.core.errors import LogUnavailable, ModegateError, UpgradeRequired, error_json
from modegate.core.wire.headers import is_upgrade
from modegate.core.wire.own_paths import PROBES, is_own, looks_own
from modegate.server.access import Guard, problem
from modegate.server.control.http import on_error
from modegate.server.control.routes import Control
from modegate.server.extension import Services
from modegate.server.process.http11 import WEBSOCKET_PATH

PING_S = 3.0
"""A store that takes longer counts as unreachable; orchestrators give a probe little more."""


def create_app(
    services: Services,
    proxy: ASGIApp,
    control: Control,
    acp: ASGIApp | None = None,
    *,
    control_port: int | None = None,
) -> ASGIApp:
    """Join all endpoints to the ASGI callable that a server runs. It has no lifespan of its own.

    With `control_port`, what is for people is served on that port alone, and agents are not served there.
    """
    own = _own(services, control, acp)
    if control_port is None:
        return _both(proxy, own, acp=acp is not None)
    agents, people = _both(proxy, _only_probes(own), acp=False), _only_people(own)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        at_control = (scope.get("server") or ("", 0))[1] == control_port
        await (people if at_control else agents)(scope, receive, send)

    return app


def _only_probes(own: ASGIApp) -> ASGIApp:
    """Serve agents the probes, and nothing else of modegate's own."""
    elsewhere = problem(
        404, "not_found", "this is served on modegate's control address: that of --control-port"
    )

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        segment = scope["path"].lstrip("/").partition("/")[0]
        await (own if segment in PROBES else elsewhere)(scope, receive, send)

    return app


def _only_people(own: ASGIApp) -> ASGIApp:
    elsewhere = problem(404, "not_found", "no requests of agents are served on the control address")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and scope["path"] != WEBSOCKET_PATH:
            await _refuse_websocket(scope, receive, send)
        elif scope["type"] == "http" and not is_own(scope["path"]):
            await elsewhere(scope, receive, send)
        else:
            await own(scope, receive, send)

    return app


def _both(proxy: ASGIApp, own: ASGIApp, *, acp: bool) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            if is_own(scope["path"]):
                await own(scope, receive, send)
            elif looks_own(scope["raw_path"]):
                await _LOOKS_OWN(scope, receive, send)
            elif scope["method"] == "GET" and is_upgrade(scope["headers"]):
                await _UPGRADE_REFUSED(scope, receive, send)
            else:
                await proxy(scope, receive, send)
        elif scope["type"] == "websocket" and scope["path"] == WEBSOCKET_PATH and acp:
            await own(scope, receive, send)
        elif scope["type"] == "websocket":
            await _refuse_websocket(scope, receive, send)
        else:
            raise ValueError(f"scope {scope['type']!r} is not served; run with lifespan off")

    return app


_LOOKS_OWN = problem(
    404,
    "not_found",
    "this looks like a path of modegate's own, which never goes upstream; those are /control/v1, /acp, "
    "/console, /metrics, /healthz and /readyz, spelled so and without a session in front",
)


class _UpgradeRefusal(Response):
    """426, which makes clients fall back to HTTP at once; what came after the request is dropped."""

    def init_headers(self, headers: object = None) -> None:
        # RFC 9110, section 15.5.22: a 426 names a protocol that will do, and so is Connection: upgrade.
        self.raw_headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(self.body)).encode()),
            (b"upgrade", b"HTTP/1.1"),
            (b"connection", b"upgrade, close"),
        ]


_UPGRADE_REFUSED = _UpgradeRefusal(
    error_json(UpgradeRequired("WebSocket is not offered here; use HTTP with streaming")),
    UpgradeRequired.status,
)


async def _refuse_websocket(scope: Scope, receive: Receive, send: Send) -> None:
    # Only servers that take WebSockets at every path come here; ours takes them at one.
    if "websocket.http.response" in scope.get("extensions", {}):
        await _UPGRADE_REFUSED(scope, receive, send)
    else:
        await send({"type": "websocket.close"})


def _own(services: Services, control: Control, acp: ASGIApp | None) -> ASGIApp:
    people = Guard(_for_people(control, acp), access=services.access, sites=services.sites)
    probes = _for_machines(services)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        segment = scope["path"].lstrip("/").partition("/")[0]
        await (probes if segment in _FOR_MACHINES else people)(scope, receive, send)

    return app


_FOR_MACHINES = PROBES | {"metrics"}
"""First segments of paths that need no token."""


def _for_people(control: Control, acp: ASGIApp | None) -> ASGIApp:
    no_console = problem(
        404, "not_found", "this version has no console; see `modegate watch`, or /acp"
    )
    routes: list[BaseRoute] = [
        Mount("/control", control.router()),
        Route("/console", _Whole(no_console)),
        Mount("/console", no_console),
    ]
    if acp is not None:
        endpoint = _Whole(acp)
        routes += [Route(WEBSOCKET_PATH, endpoint), WebSocketRoute(WEBSOCKET_PATH, endpoint)]
    return _starlette(*routes)


@dataclass(frozen=True, slots=True)
class _Whole:
    """An ASGI app at one path; a route would take a function for a handler of requests."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


def _for_machines(services: Services) -> ASGIApp:
    probes = _Probes(services)
    return _starlette(
        Route("/healthz", probes.health),
        Route("/readyz", probes.ready),
        Route("/metrics", probes.metrics),
    )


def _starlette(*routes: BaseRoute) -> ASGIApp:
    app = Starlette(
        routes=routes,
        exception_handlers={ModegateError: on_error, HTTPException: on_error, Exception: on_error},
    )
    # It would redirect a request for /acp/ to the name in its Host header.
    app.router.redirect_slashes = False
    return app


class _Probes:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._asking = asyncio.Lock()

    async def health(self, _request: Request) -> Response:
        """Say that the process runs. The store is not asked, so an outage of it restarts no process."""
        return PlainTextResponse("ok\n")

    async def ready(self, _request: Request) -> Response:
        """Return whether every step can be served: the log is the right one and can be written.

        A failed reload of the policy is only a warning, and so is what operators should change about the log.
        """
        log, warnings = await self._log_now()
        status = self._services.policies.status
        policy = self._services.policies.current
        body: dict[str, object] = {
            "ready": log == "ok",
            "log": log,
            "policy": {
                "hash": policy.hash,
                "generation": status.generation,
            },
        }
        # What is wrong with the policy is left out: anyone may read this answer.
        if policy.warnings:
            count = len(policy.warnings)
            warnings.append(f"the policy has {count} warning(s); see `modegate check FILE`")
        if status.problems:
            warnings = [
                f"the policies file has {len(status.problems)} problem(s), so an older policy is in "
                "force; see `modegate check FILE` or GET /control/v1/policy",
                *warnings,
            ]
        if warnings:
            body["warning"] = "; ".join(warnings)
        return JSONResponse(body, 200 if log == "ok" else 503)

    async def _log_now(self) -> tuple[str, list[str]]:
        # One at a time: the check writes, and anyone may ask for it.
        async with self._asking:
            try:
                async with asyncio.timeout(PING_S):
                    await self._services.log.ping()
                    return "ok", await self._services.log.warnings()
            except LogUnavailable as error:
                return str(error), []
            except TimeoutError:
                return f"no answer within {PING_S:g} s", []

    async def metrics(self, request: Request) -> Response:
        """Return the page that Prometheus reads, under an IP address or a name of this proxy."""
        refusal = self._services.sites.refusal(request.headers, addresses=True)
        if refusal is not None:
            return refusal
        body, content_type = self._services.metrics.page()
        return Response(body, headers={"content-type": content_type})

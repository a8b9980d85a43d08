"""The `/acp` endpoint: which connections there are, which are taken, and when they end."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from modegate.core.errors import UnknownTenant
from modegate.core.ids import LOCAL, Tenant, parse_tenant
from modegate.server.access import GRANT, Grant, bearer, problem
from modegate.server.extension import Services
from modegate.server.jobs import Job
from modegate_acp.connection.connection import Caller, CloseCode, Connection
from modegate_acp.following.session_feed import SessionFeed
from modegate_acp.methods.handlers import handle
from modegate_acp.transport.streamable import Streamable
from modegate_acp.transport.websocket import serve

MAX_CONNECTIONS = 64
"""Connections of one token at a time."""

IDLE_S = 60.0
"""How long a connection lives that has no stream, or that does not begin."""


class Endpoint:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._feed = SessionFeed(services, self._tick)
        self._connections: dict[str, Connection] = {}
        self._idle_since: dict[str, float] = {}
        self._closing = False
        self._streamable = Streamable(self)
        self.app: ASGIApp = self._serve
        self.jobs: Sequence[Job] = (Job("the ACP endpoint", self._feed.run, self._feed.stop),)
        services.policies.on_change.append(lambda _policy: self._feed.refresh_all())

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = self._caller(scope)
        if isinstance(caller, Response):
            await caller(scope, receive, send)
        elif scope["type"] == "websocket":
            await serve(self, caller, (scope, receive, send))
        else:
            await self._streamable.serve(caller, (scope, receive, send))

    def _caller(self, scope: Scope) -> Caller | Response:
        grant: Grant = scope[GRANT]
        request = HTTPConnection(scope)
        tenant = Tenant(request.query_params.get("tenant", LOCAL))
        if not grant.sees(tenant):
            # Not 404, on which clients take their connection for lost.
            return problem(
                403, "tenant_not_allowed", f"this token knows no tenant {tenant[:128]!r}"
            )
        try:
            parse_tenant(tenant)
        except UnknownTenant as error:
            return problem(400, error.code, str(error))
        headers = Headers(scope=scope)
        base = agents_base(scope["scheme"], headers.get("host", ""), self._services.agents_port)
        return Caller(bearer(headers), grant.name, tenant, base)

    def connect(self, caller: Caller, *, split: bool) -> Connection | Response:
        if self._closing:
            return problem(503, "shutting_down", "this process is shutting down")
        taken = sum(one.caller.name == caller.name for one in self._connections.values())
        if taken >= MAX_CONNECTIONS:
            text = f"this token has {MAX_CONNECTIONS} connections already"
            return problem(429, "too_many_connections", text)
        connection = Connection(self._services, self._feed, caller, handle, split=split)
        self._connections[connection.id] = connection
        self.idle(connection)
        return connection

    def find(self, name: str, caller: Caller) -> Connection | None:
        found = self._connections.get(name)
        mine = found and (found.caller.name, found.caller.tenant) == (caller.name, caller.tenant)
        return found if mine else None

    def drop(self, connection: Connection) -> None:
        self._connections.pop(connection.id, None)
        self._idle_since.pop(connection.id, None)
        connection.end()

    def idle(self, connection: Connection) -> None:
        self._idle_since[connection.id] = self._services.clock.monotonic()

    def busy(self, connection: Connection) -> None:
        self._idle_since.pop(connection.id, None)

    def _tick(self) -> None:
        now = self._services.clock.monotonic()
        for connection in list(self._connections.values()):
            since = self._idle_since.get(connection.id)
            if connection.grant is None or (since is not None and now - since >= IDLE_S):
                connection.close(CloseCode.NOT_ALLOWED)
            if connection.send_queue.closed and connection.split:
                self.drop(connection)

    def close(self) -> None:
        self._closing = True
        for connection in list(self._connections.values()):
            connection.close(CloseCode.RESTARTING)
            if connection.split:
                self.drop(connection)


def agents_base(scheme: str, host: str, port: int | None) -> str:
    """Return the URL of the proxy for agents, as the client reached it; `port` if agents have another one."""
    if port is not None:
        name = host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
        host = f"{name}:{port}"
    return f"{'https' if scheme in ('https', 'wss') else 'http'}://{host}"


def build(services: Services) -> Endpoint:
    """Make the endpoint of a proxy, for `compose(acp=build)`."""
    return Endpoint(services)

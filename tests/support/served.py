"""An ASGI app on a real server, as `modegate serve` would serve it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from modegate.server.process.connection_limits import MOST
from modegate.server.process.serving import Server, bind


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with what arrived: method, path, and the body's length."""
    request = Request(scope, receive)
    body = await request.body()
    text = f"proxy {scope['method']} {scope['path']} {len(body)}"
    await PlainTextResponse(text)(scope, receive, send)


@asynccontextmanager
async def served(
    app: ASGIApp, drain: float = 5.0, connections: int = MOST
) -> AsyncIterator[tuple[int, Server]]:
    """Run the app on a real server, on a free port."""
    listener = bind("127.0.0.1", 0)
    port: int = listener.getsockname()[1]
    server = Server(app, drain=drain, on_drain=lambda: None, connections=connections)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(server.serve(sockets=[listener]))
        try:
            yield port, server
        finally:
            server.should_exit = True
            await task

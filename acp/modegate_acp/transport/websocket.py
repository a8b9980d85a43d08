"""ACP over WebSocket: one JSON-RPC message in each text frame."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.responses import Response

from modegate_acp.connection.connection import Caller, CloseCode, Connection
from modegate_acp.messages import jsonrpc
from modegate_acp.messages.jsonrpc import MAX_MESSAGE, RpcError
from modegate_acp.transport.common import Asgi, Connections, first_of

CLOSE_S = 1.0
"""How long the close frame of a client that reads nothing may take."""


async def serve(connections: Connections, caller: Caller, asgi: Asgi) -> None:
    scope, receive, send = asgi
    connection = connections.connect(caller, split=False)
    if isinstance(connection, Response):
        await connection(scope, receive, send)
        return
    try:
        await receive()  # websocket.connect
        name = connection.id.encode()
        await send({"type": "websocket.accept", "headers": [(b"acp-connection-id", name)]})
        _ = connection.open_stream(None, connection)
        await first_of(
            _read(connections, connection, asgi),
            _write(connection, asgi),
            connection.send_queue.ended.wait(),
        )
        if connection.send_queue.closed:
            code = connection.close_code
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await send({"type": "websocket.close", "code": code})
    finally:
        connections.drop(connection)


async def _read(connections: Connections, connection: Connection, asgi: Asgi) -> None:
    receive = asgi[1]
    while (frame := await receive())["type"] == "websocket.receive":
        if connection.level is None:
            connection.close(CloseCode.NOT_ALLOWED)
            return
        text = frame.get("text")
        if text is None or len(text) > MAX_MESSAGE:
            connection.close(CloseCode.NOT_TEXT if text is None else CloseCode.TOO_BIG)
            return
        try:
            message = jsonrpc.read(text)
        except RpcError as error:
            connection.refuse(error)
        else:
            await connection.receive(message)
            if connection.initialized:
                connections.busy(connection)


async def _write(connection: Connection, asgi: Asgi) -> None:
    send, queue = asgi[2], connection.send_queue
    while (taken := await queue.take(queue.main, connection)) is not None:
        session, out = taken
        await send({"type": "websocket.send", "text": out.text})
        connection.questions.sent(session, out)

"""ACP over Streamable HTTP: messages come by POST, answers and updates go out as server-sent events.

A connection is one process's. Trouble with a session is a JSON-RPC error, never a 403 or 404, on which
clients give up their whole connection.
"""

from __future__ import annotations

import asyncio

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Send

from modegate.core.ids import SessionId, fits_session_id
from modegate.core.wire.sse import write_comment, write_event
from modegate.server.access import problem
from modegate.server.control.streams import SSE_HEADERS, STILL_HERE
from modegate.server.proxy.sending import KEEPALIVE_S
from modegate_acp.connection.connection import Caller, Connection
from modegate_acp.following.followed_sessions import MAX_SESSIONS
from modegate_acp.following.send_queue import StreamQueue
from modegate_acp.messages import jsonrpc
from modegate_acp.messages.jsonrpc import MAX_MESSAGE, Batch, Incoming, Request, RpcError
from modegate_acp.messages.params import session_named
from modegate_acp.transport.common import Asgi, Connections, first_of

CONNECTION_ID = "acp-connection-id"
SESSION_ID = "acp-session-id"

MAX_STREAMS = MAX_SESSIONS + 1
"""Open streams of one connection: one for each session that it may follow, and its own."""


class _Refused(Exception):
    def __init__(self, answer: Response) -> None:
        super().__init__("refused")
        self.answer = answer


def _refused(status: int, code: str, text: str) -> _Refused:
    return _Refused(problem(status, code, text))


class Streamable:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def serve(self, caller: Caller, asgi: Asgi) -> None:
        scope, receive, _ = asgi
        request = HttpRequest(scope, receive)
        try:
            match scope["method"]:
                case "POST":
                    await self._post(caller, request, asgi)
                case "GET":
                    await self._get(caller, request, asgi)
                case "DELETE":
                    self._connections.drop(self._of(caller, request))
                    await Response(status_code=202)(*asgi)
                case _:
                    answer = problem(405, "method_not_allowed", "use GET, POST or DELETE")
                    answer.headers["allow"] = "GET, POST, DELETE"
                    await answer(*asgi)
        except _Refused as refused:
            await refused.answer(*asgi)

    async def _post(self, caller: Caller, request: HttpRequest, asgi: Asgi) -> None:
        message = await _message(request)
        new = CONNECTION_ID not in request.headers
        if new and isinstance(message, Request) and message.method == "initialize":
            await (await self._initialize(caller, message))(*asgi)
            return
        connection = self._of(caller, request)
        header, named = request.headers.get(SESSION_ID), session_named(message)
        # Answers are matched by their id alone.
        if header is not None and named is not None and header != named:
            raise _refused(400, "bad_request", "Acp-Session-Id is not the session of the message")
        await Response(status_code=202)(*asgi)
        await connection.receive(message)

    async def _initialize(self, caller: Caller, message: Request) -> Response:
        connection = self._connections.connect(caller, split=True)
        if isinstance(connection, Response):
            return connection
        stream = connection.send_queue.main
        stream.reader = self
        await connection.receive(message)
        taken = await connection.send_queue.take(stream, self)
        stream.reader = None
        answer = taken[1].message if taken else {}
        if not connection.initialized:
            self._connections.drop(connection)
            return JSONResponse(answer)
        return JSONResponse(answer, headers={CONNECTION_ID: connection.id})

    def _of(self, caller: Caller, request: HttpRequest) -> Connection:
        name = request.headers.get(CONNECTION_ID)
        if name is None:
            raise _refused(400, "bad_request", "the header Acp-Connection-Id is missing")
        found = self._connections.find(name, caller)
        if found is None:
            raise _refused(404, "unknown_connection", "initialize a new connection")
        return found

    async def _get(self, caller: Caller, request: HttpRequest, asgi: Asgi) -> None:
        if not _accepts(request, "text/event-stream"):
            raise _refused(406, "not_acceptable", "Accept must have text/event-stream")
        connection, name = self._of(caller, request), request.headers.get(SESSION_ID)
        if name is not None and not fits_session_id(name):
            raise _refused(400, "bad_request", "Acp-Session-Id is no session id")
        if connection.streams >= MAX_STREAMS:
            text = f"this connection has {MAX_STREAMS} streams already"
            raise _refused(429, "too_many_streams", text)
        await self._stream(connection, None if name is None else SessionId(name), asgi)

    async def _stream(self, connection: Connection, session: SessionId | None, asgi: Asgi) -> None:
        _, receive, send = asgi
        reader = object()
        stream = connection.open_stream(session, reader)
        self._connections.busy(connection)
        connection.streams += 1
        try:
            await first_of(_until_gone(receive), _events(connection, stream, reader, send))
        finally:
            connection.close_stream(session, reader)
            connection.streams -= 1
            if not connection.streams and not connection.send_queue.closed:
                self._connections.idle(connection)


async def _events(connection: Connection, stream: StreamQueue, reader: object, send: Send) -> None:
    head = {"content-type": "text/event-stream", **SSE_HEADERS}
    headers = [(name.encode(), value.encode()) for name, value in head.items()]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await _send(send, write_comment("open"))
    while True:
        try:
            async with asyncio.timeout(KEEPALIVE_S):
                taken = await connection.send_queue.take(stream, reader)
        except TimeoutError:
            await _send(send, STILL_HERE)
            continue
        if taken is None:
            break
        session, out = taken
        await _send(send, write_event(out.text.encode()))
        connection.questions.sent(session, out)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _message(request: HttpRequest) -> Incoming:
    kind = request.headers.get("content-type", "").partition(";")[0]
    if kind.strip().lower() != "application/json":
        raise _refused(415, "unsupported_media_type", "Content-Type must be application/json")
    if not _accepts(request, "application/json"):
        raise _refused(406, "not_acceptable", "Accept must have application/json")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_MESSAGE:
            raise _refused(413, "too_large", f"a message has {MAX_MESSAGE} bytes at most")
    try:
        return jsonrpc.read(bytes(body))
    except RpcError as error:
        status = 501 if isinstance(error, Batch) else 400
        raise _Refused(JSONResponse(jsonrpc.failure(error.request, error), status)) from error


def _accepts(request: HttpRequest, wanted: str) -> bool:
    accept = request.headers.get("accept")
    if accept is None:
        return wanted == "application/json"
    kinds = {part.partition(";")[0].strip().lower() for part in accept.split(",")}
    return bool(kinds & {wanted, "*/*", f"{wanted.partition('/')[0]}/*"})

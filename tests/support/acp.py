"""Plain ACP clients over WebSocket and over Streamable HTTP, with one face: no SDK, every message is kept."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import httpx
import websockets

from support.running import TOKEN, Running
from support.waiting import PATIENCE

Json = dict[str, Any]


class AcpError(Exception):
    """A request was answered with an error."""

    def __init__(self, error: Json) -> None:
        """Keep it."""
        super().__init__(error["message"])
        self.code: int = error["code"]
        self.data: Json | None = error.get("data")


class Client:
    """What tests do with a connection, whatever carries it."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self.seen: list[Json] = []
        """Every message that came, in order."""
        self.connection = ""
        self.closed: int | None = None
        """The close code, once the socket is closed."""
        self._news = asyncio.Condition()
        self._next = 0

    async def transmit(self, message: Json) -> None:
        """Send a message."""
        raise NotImplementedError

    async def came(self, message: Json) -> None:
        """Take a message."""
        async with self._news:
            self.seen.append(message)
            self._news.notify_all()

    async def over(self, code: int | None) -> None:
        """Note that nothing more comes."""
        async with self._news:
            self.closed = code or 0
            self._news.notify_all()

    async def find(self, wanted: Callable[[Json], bool], *, after: int = 0) -> Json:
        """Wait for the first message of this kind, of those from number `after` on."""

        def found() -> Json | None:
            return next((one for one in self.seen[after:] if wanted(one)), None)

        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(lambda: found() is not None)
            message = found()
        assert message is not None
        return message

    async def until_closed(self) -> int:
        """Wait for the end and give the close code."""
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(lambda: self.closed is not None)
        assert self.closed is not None
        return self.closed

    async def start(self, method: str, **params: Any) -> int:
        """Send a request and give its id."""
        self._next += 1
        number = self._next
        await self.transmit({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    async def answer(self, number: int | str) -> Json:
        """Wait for the answer to a request and give its result."""
        message = await self.find(lambda one: one.get("id") == number and "method" not in one)
        if "error" in message:
            raise AcpError(message["error"])
        result: Json = message["result"]
        return result

    async def call(self, method: str, **params: Any) -> Json:
        """Send a request and give its result."""
        return await self.answer(await self.start(method, **params))

    async def notify(self, method: str, **params: Any) -> None:
        """Send a notification."""
        await self.transmit({"jsonrpc": "2.0", "method": method, "params": params})

    async def reply(self, request: Json, outcome: Json) -> None:
        """Answer a request of the endpoint."""
        await self.transmit({"jsonrpc": "2.0", "id": request["id"], "result": {"outcome": outcome}})

    async def choose(self, request: Json, option: str) -> None:
        """Choose an option of a permission request."""
        await self.reply(request, {"outcome": "selected", "optionId": option})

    async def question(self, *, after: int = 0) -> Json:
        """Wait for a permission request."""
        return await self.find(is_question, after=after)

    async def update(self, kind: str, *, after: int = 0, **fields: Any) -> Json:
        """Wait for an update of this kind with these fields, and give its params."""

        def wanted(message: Json) -> bool:
            update = updated(message)
            return update.get("sessionUpdate") == kind and update.items() >= fields.items()

        params: Json = (await self.find(wanted, after=after))["params"]
        return params

    async def settled(self) -> int:
        """Have everything that was caused before now come in, and give how many messages there are."""
        await self.call("session/list")
        return len(self.seen)

    def updates(self, kind: str) -> list[Json]:
        """Return the updates of this kind that came so far."""
        return [updated(one) for one in self.seen if updated(one).get("sessionUpdate") == kind]

    async def initialize(self, name: str = "test", version: str = "1", **more: Any) -> Json:
        """Begin."""
        info = {"name": name, "version": version}
        return await self.call("initialize", protocolVersion=1, clientInfo=info, **more)

    async def new(self, cwd: str = "/work") -> str:
        """Open a session and give its id."""
        opened = await self.call("session/new", cwd=cwd, mcpServers=[])
        return str(opened["sessionId"])

    async def set_mode(self, session: str, mode: str, **more: Any) -> Json:
        """Set a mode."""
        return await self.call("session/set_mode", sessionId=session, modeId=mode, **more)

    async def load(self, session: str) -> Json:
        """Load a session."""
        return await self.call("session/load", sessionId=session, cwd="/work", mcpServers=[])

    async def resume(self, session: str) -> Json:
        """Resume a session."""
        return await self.call("session/resume", sessionId=session, cwd="/work")

    async def prompt(self, session: str, text: str) -> Json:
        """Type something."""
        block = {"type": "text", "text": text}
        return await self.call("session/prompt", sessionId=session, prompt=[block])


def updated(message: Json) -> Json:
    """Return what a `session/update` tells; nothing of other messages."""
    if message.get("method") != "session/update":
        return {}
    update: Json = message["params"]["update"]
    return update


def is_question(message: Json) -> bool:
    """Return whether a message is a permission request."""
    return message.get("method") == "session/request_permission"


class Socket(Client):
    """A client over WebSocket."""

    def __init__(self, socket: websockets.ClientConnection) -> None:
        """Take an open socket."""
        super().__init__()
        self.socket = socket
        assert socket.response is not None
        self.connection = socket.response.headers["acp-connection-id"]

    async def transmit(self, message: Json) -> None:
        """Send a message."""
        await self.raw(json.dumps(message))

    async def raw(self, text: str | bytes) -> None:
        """Send a frame."""
        await self.socket.send(text)

    async def listen(self) -> None:
        """Take what comes until the socket is closed."""
        with contextlib.suppress(websockets.ConnectionClosed):
            async for text in self.socket:
                await self.came(json.loads(text))
        await self.over(self.socket.close_code)


class Streams(Client):
    """A client over Streamable HTTP."""

    def __init__(self, http: httpx.AsyncClient, url: str, tasks: asyncio.TaskGroup) -> None:
        """Take an HTTP client and a place for the streams' tasks."""
        super().__init__()
        self.http = http
        self.url = url
        self.tasks = tasks
        self.opened: dict[str | None, asyncio.Task[None]] = {}

    @property
    def headers(self) -> dict[str, str]:
        """The header that names the connection."""
        return {"acp-connection-id": self.connection} if self.connection else {}

    async def post(self, message: Any, headers: dict[str, str] | None = None) -> httpx.Response:
        """Post a message."""
        return await self.http.post(self.url, json=message, headers=self.headers | (headers or {}))

    async def transmit(self, message: Json) -> None:
        """Send a message as the protocol's clients do: session streams are opened when they are named."""
        session = message.get("params", {}).get("sessionId")
        if session is not None and session not in self.opened:
            await self.open(session)
        answer = await self.post(message)
        if message.get("method") == "initialize" and not self.connection:
            assert answer.status_code == 200, answer.text
            self.connection = answer.headers.get("acp-connection-id", "")
            if self.connection:
                await self.open(None)
            await self.came(answer.json())
        else:
            assert answer.status_code == 202, answer.text

    async def new(self, cwd: str = "/work") -> str:
        """Open a session and its stream."""
        session = await super().new(cwd)
        await self.open(session)
        return session

    async def open(self, session: str | None) -> None:
        """Open a stream, in place of one that is open."""
        began = asyncio.Event()
        self.opened[session] = self.tasks.create_task(self._stream(session, began))
        await began.wait()

    async def drop(self, session: str | None) -> None:
        """Let go of a stream."""
        task = self.opened.pop(session)
        task.cancel()
        await asyncio.wait([task])

    async def _stream(self, session: str | None, began: asyncio.Event) -> None:
        headers = {"accept": "text/event-stream", **self.headers}
        headers |= {"acp-session-id": session} if session else {}
        async with self.http.stream("GET", self.url, headers=headers) as answer:
            assert answer.status_code == 200, answer.status_code
            async for line in answer.aiter_lines():
                if line == ": open":
                    began.set()
                elif line.startswith("data: "):
                    await self.came(json.loads(line.removeprefix("data: ")))
        if session is None:
            await self.over(None)


def address(proxy: Running, tenant: str = "") -> str:
    """Return the endpoint's URL for HTTP."""
    return f"{proxy.url}/acp" + (f"?tenant={tenant}" if tenant else "")


def bearer(token: str = TOKEN) -> dict[str, str]:
    """Return the header that carries a token."""
    return {"authorization": f"Bearer {token}"}


@contextlib.asynccontextmanager
async def socket(
    proxy: Running, *, token: str = TOKEN, tenant: str = "", begin: bool = True, name: str = "test"
) -> AsyncIterator[Socket]:
    """Connect over WebSocket, and initialize."""
    url = address(proxy, tenant).replace("http", "ws", 1)
    connecting = websockets.connect(
        url, additional_headers=bearer(token), proxy=None, max_size=None, compression=None
    )
    async with connecting as connected:
        client = Socket(connected)
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(client.listen())
            try:
                if begin:
                    await client.initialize(name)
                yield client
            finally:
                listening.cancel()


@contextlib.asynccontextmanager
async def streams(
    proxy: Running, *, token: str = TOKEN, tenant: str = "", begin: bool = True, name: str = "test"
) -> AsyncIterator[Streams]:
    """Connect over Streamable HTTP, and initialize."""
    async with httpx.AsyncClient(
        trust_env=False, verify=False, timeout=None, headers=bearer(token)
    ) as http:
        async with asyncio.TaskGroup() as group:
            client = Streams(http, address(proxy, tenant), group)
            try:
                if begin:
                    await client.initialize(name)
                yield client
            finally:
                for task in client.opened.values():
                    task.cancel()


Connect = Callable[..., contextlib.AbstractAsyncContextManager[Client]]
TRANSPORTS: dict[str, Connect] = {"websocket": socket, "http": streams}


async def eventually(found: Callable[[], Awaitable[Any]]) -> Any:
    """Ask again until there is something."""
    async with asyncio.timeout(PATIENCE):
        while not (value := await found()):  # noqa: ASYNC110 -- the proxy is asked each time
            await asyncio.sleep(0)
        return value


def kinds(messages: Iterable[Json]) -> list[str]:
    """Name messages for comparison: methods, kinds of updates, and `result` or `error`."""
    names = []
    for one in messages:
        update = updated(one).get("sessionUpdate")
        names.append(update or one.get("method") or ("error" if "error" in one else "result"))
    return names

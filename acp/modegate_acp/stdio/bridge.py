"""ACP over stdio for editors that only start processes: one message a line, to a proxy's `/acp` and back.

`relay` decides what is said. A lost connection is opened again at growing intervals, and at once when the
editor wants something. Meanwhile each request gets an error that says why.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from ssl import SSLError
from typing import Protocol
from urllib.parse import quote, urlsplit

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from modegate import __version__
from modegate.server.process.tls_errors import explain_tls_error
from modegate.server.upstream.loopback import is_loopback
from modegate_acp.stdio.relay import Lines, Out, Relay, Tell, ToEditor, ToProxy, too_long

MAX_LINE = 64 * 2**20
"""Bytes of a line that are kept at most."""

OPEN_S = 10.0
RETRY_S = 0.5
MAX_RETRY_S = 10.0
"""How long it takes to try again by itself, doubled each time up to the maximum."""

LAST_ANSWERS_S = 5.0
"""How long to wait for answers after the editor has closed its end."""

CHUNK = 65536


class Unreachable(Exception):
    """There is no connection, or no longer; `str()` says why, for the editor and the person."""


class Socket(Protocol):
    async def send(self, message: bytes) -> None:
        """Send one message. If the connection is lost, nothing happens; `messages` raises."""

    def messages(self) -> AsyncIterator[bytes]:
        """Yield what comes.

        Raises:
            Unreachable: the connection is lost.
        """


Connect = Callable[[], AbstractAsyncContextManager[Socket]]


class Stdio:
    """One editor, over as many connections as it takes."""

    def __init__(
        self,
        connect: Connect,
        write: Callable[[bytes], None],
        tell: Callable[[str], None],
        *,
        retry: float = RETRY_S,
        last_answers: float = LAST_ANSWERS_S,
    ) -> None:
        """Take how to reach the proxy, the editor and the person.

        `connect` raises `Unreachable`. `write` may block, and raises OSError when the editor is gone.
        """
        self._connect = connect
        self._write = write
        self._tell = tell
        self._first_retry = retry
        self._last_answers = last_answers
        self._relay = Relay()
        self._socket: Socket | None = None
        self._settled = asyncio.Event()
        """No attempt to connect is under way."""
        self._wanted = asyncio.Event()
        """The editor waits for a connection."""
        self._writing = asyncio.Lock()
        self._news = asyncio.Event()
        self._over = asyncio.Event()

    async def run(self, chunks: AsyncIterator[bytes]) -> None:
        """Talk until the editor has closed its end and has its last answers, or until it no longer reads."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._talk()), group.create_task(self._listen(chunks))]
            await self._over.wait()
            for task in tasks:
                task.cancel()

    async def _listen(self, chunks: AsyncIterator[bytes]) -> None:
        lines = Lines(MAX_LINE)
        async for chunk in chunks:
            await self._take(lines.feed(chunk))
        await self._take(lines.end())
        await self._do(self._relay.ended())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._last_answers):
                while self._relay.busy:
                    self._news.clear()
                    await self._news.wait()
        self._over.set()

    async def _take(self, lines: Iterable[bytes | None]) -> None:
        for line in lines:
            if line is None:
                await self._do([too_long(MAX_LINE)])
                continue
            if self._socket is None and self._settled.is_set():
                self._settled.clear()
                self._wanted.set()
            await self._settled.wait()
            await self._do(self._relay.from_editor(line))

    async def _talk(self) -> None:
        delay = self._first_retry
        while True:
            self._settled.clear()
            self._wanted.clear()
            why = "the proxy ended the connection"
            try:
                async with self._connect() as socket:
                    self._socket = socket
                    await self._do(self._relay.connected())
                    self._settled.set()
                    delay = self._first_retry
                    async for message in socket.messages():
                        await self._do(self._relay.from_proxy(message))
            except Unreachable as error:
                why = str(error)
            self._socket = None
            await self._do(self._relay.lost(why))
            self._settled.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._wanted.wait()
            delay = min(2 * delay, MAX_RETRY_S)

    async def _do(self, out: Iterable[Out]) -> None:
        for one in out:
            match one:
                case ToEditor(message):
                    await self._to_editor(message)
                case ToProxy(message):
                    if self._socket is not None:
                        await self._socket.send(message)
                case Tell(text):
                    self._tell(text)
        self._news.set()

    async def _to_editor(self, message: bytes) -> None:
        async with self._writing:
            try:
                await asyncio.to_thread(self._write, message + b"\n")
            except OSError:
                self._over.set()


class _WebSocket:
    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def send(self, message: bytes) -> None:
        with contextlib.suppress(ConnectionClosed):
            await self._socket.send(message, text=True)

    async def messages(self) -> AsyncIterator[bytes]:
        try:
            while True:
                yield await self._socket.recv(decode=False)
        except ConnectionClosed as error:
            said = error.rcvd
            reason = f" ({said.code} {said.reason}".rstrip() + ")" if said else ""
            raise Unreachable(f"the proxy ended the connection{reason}") from error


def websocket(url: str, token: Callable[[], str | None], tenant: str) -> Connect:
    """Return what connects to the proxy at a base URL (`http://…` or `https://…`).

    The token is asked for anew for each connection, since a proxy that starts for the first time makes it.
    """
    parts = urlsplit(url)
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    path = f"{parts.path.rstrip('/')}/acp"
    target = parts._replace(scheme=scheme, path=path, query=f"tenant={quote(tenant, safe='')}")

    @asynccontextmanager
    async def connection() -> AsyncIterator[Socket]:
        secret = token()
        try:
            socket = await connect(
                target.geturl(),
                additional_headers={"authorization": f"Bearer {secret}"} if secret else {},
                user_agent_header=f"modegate/{__version__}",
                compression=None,
                # The token never goes through a proxy of the environment on its way to this machine.
                proxy=None if is_loopback(parts.hostname or "") else True,
                open_timeout=OPEN_S,
                max_size=MAX_LINE,
            )
        except (OSError, InvalidHandshake, InvalidURI, ValueError) as error:
            raise Unreachable(_why(url, error)) from error
        try:
            yield _WebSocket(socket)
        finally:
            await socket.close()

    return connection


def _why(url: str, error: Exception) -> str:
    match error:
        case InvalidStatus():
            status, said = error.response.status_code, _message(error.response.body)
            return f"{url} does not let us in: HTTP {status}{said and f', {said}'}"
        case SSLError():
            return explain_tls_error(url, error) or str(error)
        case OSError() if not isinstance(error, TimeoutError):
            return f"no proxy answers at {url}; start one with `modegate serve`, or give --url"
        case _:
            return f"{url}: {str(error) or type(error).__name__}"


def _message(body: bytes | bytearray) -> str:
    """Return what an error of the control API says; nothing of a body that is none."""
    try:
        return str(msgspec.json.decode(body)["error"]["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return ""


async def from_file(descriptor: int) -> AsyncIterator[bytes]:
    """Yield what is read from a file, a pipe or a terminal, until its end.

    A thread reads, since the event loop cannot wait for every kind of file; it reads a few chunks ahead.
    """
    loop, chunks, room = asyncio.get_running_loop(), asyncio.Queue[bytes](), threading.Semaphore(4)

    def read() -> None:
        data = b" "
        while data:
            room.acquire()
            try:
                data = os.read(descriptor, CHUNK)
            except OSError:
                data = b""
            with contextlib.suppress(RuntimeError):  # the loop has ended before
                loop.call_soon_threadsafe(chunks.put_nowait, data)

    # Not joined at the end, as it may wait for an editor that never says anything again.
    threading.Thread(target=read, daemon=True).start()
    while data := await chunks.get():
        room.release()
        yield data


def to_file(descriptor: int) -> Callable[[bytes], None]:
    def write(data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]

    return write

"""A double of an upstream that speaks raw TCP: it records exact requests and answers with given bytes.

    async with RawUpstream(whole(b'{"ok":true}')) as upstream:
        ...  # send something to upstream.base_url
        assert upstream.requests[0].target == b"/v1/models"

An answer is a sequence of pieces, written one after another, each with its own `write` and `drain`:
`bytes` go out as they are, an `asyncio.Event` is a pause until the test sets it, an `Act` does
something to the connection. After the last piece the connection waits for its next request. A
function may choose the answer by the request:

    async with RawUpstream(lambda request: whole(request.body)) as upstream: ...

Nothing here sleeps. Every wait of a test has an end: `PATIENCE` seconds, then `TimeoutError`.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import socket
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from support.waiting import PATIENCE


class Act(enum.Enum):
    """What a piece of an answer can do to the connection."""

    RESET = "RST"
    CLOSE = "FIN in both directions"
    HALF_CLOSE = "FIN from upstream, which still reads"
    HANG = "nothing more, until the client goes away"


Piece = bytes | asyncio.Event | Act
Headers = Iterable[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it came over the wire."""

    connection: int
    """Which connection brought it: 0, 1, 2 …"""
    head: bytes
    """Request line and headers, up to and including the empty line."""
    raw_body: bytes
    """The body with its chunk framing, if it had one."""
    body: bytes
    """The body without framing."""

    @property
    def method(self) -> bytes:
        return self.head.split(b" ", 1)[0]

    @property
    def target(self) -> bytes:
        return self.head.split(b" ", 2)[1]

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Header lines in order, spelled as they came."""
        lines = self.head.split(b"\r\n")[1:-2]
        return [(name, value.strip()) for name, _, value in (li.partition(b":") for li in lines)]

    def header(self, name: str) -> list[bytes]:
        """All values of one header."""
        return [value for key, value in self.headers if key.lower() == name.lower().encode()]


Responder = Callable[[Received], Sequence[Piece]]


def head(status: int = 200, headers: Headers = (), *, reason: str = "X") -> bytes:
    """A status line and headers; framing is up to the caller."""
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def whole(
    body: bytes = b"{}",
    status: int = 200,
    headers: Headers = (("Content-Type", "application/json"),),
) -> list[Piece]:
    """An answer with a correct Content-Length."""
    return [head(status, [*headers, ("Content-Length", str(len(body)))]) + body]


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def chunked(
    *pieces: Piece,
    status: int = 200,
    headers: Headers = (("Content-Type", "text/event-stream"),),
    trailers: Headers = (),
) -> list[Piece]:
    """A chunked answer, one chunk for each `bytes`; pauses and acts stay between them."""
    first = head(status, [*headers, ("Transfer-Encoding", "chunked")])
    middle = [chunk(piece) if isinstance(piece, bytes) else piece for piece in pieces]
    ends = "".join(f"{name}: {value}\r\n" for name, value in trailers)
    return [first, *middle, f"0\r\n{ends}\r\n".encode()]


def until_close(*pieces: Piece, headers: Headers = ()) -> list[Piece]:
    """An answer whose body ends with the connection."""
    return [head(200, [*headers, ("Connection", "close")]), *pieces, Act.CLOSE]


@dataclass(slots=True, eq=False)
class _Connection:
    """What came over one connection and has not been parsed yet."""

    number: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    data: bytearray = field(default_factory=bytearray)
    more: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def pump(self) -> None:
        """Take what comes, so that the client's end is noticed also in the midst of an answer."""
        with contextlib.suppress(ConnectionError):
            while data := await self.reader.read(1 << 20):
                self.data += data
                self.more.set()
        self.gone.set()
        self.more.set()

    async def _until(self, ready: Callable[[], bool]) -> None:
        while not ready():
            if self.gone.is_set():
                raise EOFError
            self.more.clear()
            await self.more.wait()

    async def take(self, size: int) -> bytes:
        await self._until(lambda: len(self.data) >= size)
        taken = bytes(self.data[:size])
        del self.data[:size]
        return taken

    async def take_through(self, mark: bytes) -> bytes:
        await self._until(lambda: mark in self.data)
        return await self.take(self.data.index(mark) + len(mark))

    async def take_body(self, request: Received) -> tuple[bytes, bytes]:
        """Return the body with its framing and without."""
        if request.header("transfer-encoding"):
            return await self._take_chunks()
        lengths = request.header("content-length")
        body = await self.take(int(lengths[0]) if lengths else 0)
        return body, body

    async def _take_chunks(self) -> tuple[bytes, bytes]:
        raw, body = bytearray(), bytearray()
        while True:
            line = await self.take_through(b"\r\n")
            size = int(line, 16)
            data = await self.take(size + 2)
            raw += line + data
            if size == 0:
                return bytes(raw), bytes(body)
            body += data[:-2]

    async def play(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            match piece:
                case bytes():
                    self.writer.write(piece)
                    await self.writer.drain()
                case asyncio.Event():
                    await piece.wait()
                case Act():
                    await self._act(piece)

    async def _act(self, act: Act) -> None:
        match act:
            case Act.RESET:
                sock: socket.socket = self.writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.writer.transport.abort()
                await self.gone.wait()
            case Act.CLOSE:
                self.writer.close()
                await self.gone.wait()
            case Act.HALF_CLOSE:
                self.writer.write_eof()
            case Act.HANG:
                await self.gone.wait()


class RawUpstream:
    """A TCP server on a free loopback port, for as long as it is entered."""

    def __init__(
        self,
        answer: Sequence[Piece] | Responder | None = None,
        *,
        on_connect: Sequence[Piece] = (),
        on_head: Sequence[Piece] = (),
        read_body: bool = True,
    ) -> None:
        """Take the answer to every request that has none of its own in `enqueue`.

        `on_connect` is played before a request is read, `on_head` when its head has come (`100
        Continue`); without `read_body` the answer follows at once and the body stays unread.
        """
        self.answer: Sequence[Piece] | Responder = whole() if answer is None else answer
        self.requests: list[Received] = []
        """Requests in the order in which they were complete."""
        self.heads: list[bytes] = []
        """Heads in the order in which they came, also of requests that never became complete."""
        self._on_connect = on_connect
        self._on_head = on_head
        self._read_body = read_body
        self._queue: list[Sequence[Piece] | Responder] = []
        self._connections: list[_Connection] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._changed = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self.port = 0

    def enqueue(self, *answers: Sequence[Piece] | Responder) -> None:
        """Give the next requests these answers, one each, before `answer` serves again."""
        self._queue.extend(answers)

    @property
    def base_url(self) -> str:
        """Where it listens, without a path."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def connections(self) -> int:
        """How many connections there have been."""
        return len(self._connections)

    @property
    def open_connections(self) -> int:
        """How many connections the client has not closed."""
        return sum(not connection.gone.is_set() for connection in self._connections)

    async def received(self, count: int = 1) -> Received:
        """Wait until that many requests are complete; give the last of them."""
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(lambda: len(self.requests) >= count)
        return self.requests[count - 1]

    def say(self, data: bytes, connection: int = 0) -> None:
        """Send what nobody asked for, at once: it has come before either end's loop takes a turn."""
        self._connections[connection].writer.write(data)

    def hang_up(self, connection: int = 0) -> None:
        """End a connection at once: its end has come before either end's loop takes a turn."""
        sock: socket.socket = self._connections[connection].writer.get_extra_info("socket")
        sock.shutdown(socket.SHUT_WR)

    async def gone(self, connection: int = 0) -> None:
        """Wait until that connection exists and has ended."""
        async with asyncio.timeout(PATIENCE):
            async with self._changed:
                await self._changed.wait_for(lambda: len(self._connections) > connection)
            await self._connections[connection].gone.wait()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in self._connections:
            connection.writer.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.append(task)
        connection = _Connection(len(self._connections), reader, writer)
        async with self._changed:
            self._connections.append(connection)
            self._changed.notify_all()
        with contextlib.suppress(asyncio.CancelledError):
            async with asyncio.TaskGroup() as group:
                pump = group.create_task(connection.pump())
                with contextlib.suppress(EOFError, ConnectionError):
                    await self._converse(connection)
                pump.cancel()
        connection.gone.set()
        writer.close()

    async def _converse(self, connection: _Connection) -> None:
        await connection.play(self._on_connect)
        while True:
            request = await self._receive(connection)
            answer = self._queue.pop(0) if self._queue else self.answer
            await connection.play(answer(request) if callable(answer) else answer)

    async def _receive(self, connection: _Connection) -> Received:
        head_bytes = await connection.take_through(b"\r\n\r\n")
        self.heads.append(head_bytes)
        request = Received(connection.number, head_bytes, b"", b"")
        await connection.play(self._on_head)
        if self._read_body:
            raw, body = await connection.take_body(request)
            request = Received(connection.number, head_bytes, raw, body)
        async with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
        return request

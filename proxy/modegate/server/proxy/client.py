"""One request's two ways: what its client sends (ASGI `receive`), and what it is sent (ASGI `send`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from starlette.types import Message, Receive, Send

from modegate.core.errors import BadRequest, ModegateError, TooLarge
from modegate.core.step.answer.stream_detection import is_plain_stream
from modegate.core.wire import headers as lines
from modegate.core.wire.content_encoding import BadEncoding, UnknownEncoding, whole
from modegate.core.wire.request_body import RequestBody
from modegate.server.proxy.executor import LARGE, Executor
from modegate.server.proxy.memory import Share
from modegate.server.proxy.step_log import StepLog

_EVENT_ENDS = (b"\n\n", b"\r\r", b"\r\n\r\n")


class ClientGone(Exception):
    """The client closed its connection."""


class ClientRequest:
    """What the client sends: its body, piece by piece, and the news that it has gone.

    Read by one reader at a time.
    """

    def __init__(self, receive: Receive, log: StepLog, limit: int, share: Share) -> None:
        """Take at most `limit` bytes of a body; those that are kept count as the step's share."""
        self._receive = receive
        self._log = log
        self._limit = limit
        self._share = share
        self._size = 0
        self._read = asyncio.Event()

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes.

        Raises:
            ClientGone: it went before the body's end.
            TooLarge: the body is over the limit.
        """
        while not self._read.is_set():
            message = await self._receive()
            if message["type"] != "http.request":
                # The upstream client keeps what is raised here, and thus this frame, until it is collected.
                self._receive = _gone
                raise ClientGone
            piece = message.get("body", b"")
            if not message.get("more_body", False):
                self._read.set()
            self._size += len(piece)
            if self._size > self._limit:
                raise TooLarge(f"the request body is over {self._limit} bytes (limits.body)")
            if piece:
                yield piece

    async def body(self) -> bytes:
        """Return the whole body; raises as `pieces` does.

        Raises:
            Overloaded: no step may hold more now.
        """
        found: list[bytes] = []
        with self._log.elsewhere():
            async for piece in self.pieces():
                self._share.take(len(piece))
                found.append(piece)
        return b"".join(found)

    async def _until_gone(self) -> None:
        await self._read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def during(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do some work, cancel it at once when the client goes, and return whether it was done.

        A task group would keep the bytes of a request until the collector runs: what it raises stands in a
        cycle with the frames of the work.
        """
        task = _current_task()
        gone = False

        def cancel(watcher: asyncio.Task[None]) -> None:
            nonlocal gone
            if not watcher.cancelled() and not gone:
                gone = True
                task.cancel()

        watcher = asyncio.create_task(self._until_gone())  # noqa: TID251 -- ended below
        watcher.add_done_callback(cancel)
        try:
            await work
        except ClientGone:
            return False
        except asyncio.CancelledError:
            # Of two reasons to stop, the one from outside counts.
            if gone and task.uncancel() == 0:
                return False
            raise
        finally:
            watcher.remove_done_callback(cancel)
            watcher.cancel()
        return True


async def _gone() -> Message:
    return {"type": "http.disconnect"}


def _current_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    if task is None:
        raise AssertionError("a request is served by a task")
    return task


class BodyReader:
    """Reads one request's body, as far as somebody asks for it."""

    def __init__(
        self,
        client: ClientRequest,
        headers: lines.Headers,
        limit: int,
        share: Share,
        executor: Executor,
    ) -> None:
        """Take a request of which nothing was read; `limit` is what a decoded body may have."""
        self._client = client
        self._headers = headers
        self._limit = limit
        self._share = share
        self._executor = executor
        self._raw: bytes | None = None
        self._body: RequestBody | None = None
        self._flaw: tuple[type[ModegateError], str] | None = None
        """Why it could not be decoded."""

    async def raw(self) -> bytes:
        if self._raw is None:
            self._raw = await self._client.body()
        return self._raw

    async def read(self) -> RequestBody:
        """Return the whole body; what cannot be decoded stands as it came (`check_decoded`)."""
        if self._body is None:
            self._body = RequestBody(await self.raw(), await self._decoded())
        return self._body

    async def _decoded(self) -> bytes | None:
        raw, encoding = await self.raw(), lines.get_one(self._headers, b"content-encoding")
        if not encoding:
            return None
        try:
            # What some bytes stand for may be long.
            decoded = await self._executor(LARGE, whole, raw, encoding, self._limit)
        except (BadEncoding, UnknownEncoding) as error:
            self._flaw = BadRequest, f"the request body cannot be decoded: {error}"
            return None
        except TooLarge as error:
            self._flaw = TooLarge, str(error)
            return None
        self._share.take(len(decoded))
        return decoded

    def check_decoded(self, *, gated: bool) -> None:
        """Refuse what could not be decoded. Without a mode, a body that is only malformed may pass.

        Raises:
            BadRequest: it is not what its content-encoding says.
            TooLarge: it stands for more than it may.
        """
        if self._flaw is not None:
            kind, why = self._flaw
            if gated or kind is TooLarge:
                raise kind(why)

    async def to_forward(self) -> bytes | AsyncIterator[bytes]:
        """Return the body as it came: whole if somebody has read it, else piece by piece."""
        if self._raw is not None:
            return self._raw
        return self._client.pieces() if has_body(self._headers) else await self.raw()


def has_body(headers: lines.Headers) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip() != b"0")
        for name, value in headers
    )


class ClientAnswer:
    """What the client is sent.

    An object of its own: whatever is on its way to the client refers to this one, and not back to the step.
    """

    def __init__(self, send: Send, log: StepLog) -> None:
        self._send = send
        self._log = log
        self.began = False
        self._events = False
        self._last = b""

    @property
    def between_events(self) -> bool:
        """Whether what goes out is a plain event stream, of which no event is cut short so far."""
        return self._events and (not self._last or self._last.endswith(_EVENT_ENDS))

    async def __call__(self, message: Message) -> None:
        self.began = True
        if message["type"] == "http.response.start":
            self._log.head_sent(message["status"])
            self._events = is_plain_stream(message["headers"])
        elif message.get("body"):
            self._last = (
                message["body"] if len(message["body"]) >= 4 else self._last + message["body"]
            )
        await self._send(message)

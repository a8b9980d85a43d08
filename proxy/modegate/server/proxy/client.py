"""One request's two ways: what its client sends (ASGI `receive`), and what it is sent (ASGI `send`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from starlette.types import Message, Receive, Send

from modegate.core.errors import TooLarge
from modegate.core.step.answer.stream_detection import is_plain_stream
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

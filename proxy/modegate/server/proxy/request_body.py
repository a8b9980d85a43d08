"""What a client sends: its body, piece by piece, and the news that it has gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from starlette.types import Message, Receive

from modegate.core.errors import TooLarge
from modegate.server.proxy.memory import Share


class ClientGone(Exception):
    """The client closed its connection."""


class Inbox:
    """One request's ASGI `receive`, read by one reader at a time."""

    def __init__(self, receive: Receive, limit: int, share: Share) -> None:
        """Take at most `limit` bytes of a body; those that are kept are of the step's share."""
        self._share = share
        self._receive = receive
        self._limit = limit
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
        async for piece in self.pieces():
            self._share.take(len(piece))
            found.append(piece)
        return b"".join(found)

    async def _until_gone(self) -> None:
        """Wait until the body has been read and the client is gone."""
        await self._read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def during(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do some work, and cancel it at once when the client goes; tell whether it was done.

        Without a task group: what it raises, and whoever takes an exception out of that, stands in a cycle
        with the frames of the work, so that the bytes of a request would stay until the collector runs.
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

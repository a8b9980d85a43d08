"""What a client sends: its body, piece by piece, and the news that it has gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from starlette.types import Receive

from modegate.core.errors import ModegateError, TooLarge


class ClientGone(Exception):
    """The client closed its connection."""


class Inbox:
    """One request's ASGI `receive`, read by one reader at a time."""

    def __init__(self, receive: Receive, limit: int) -> None:
        """Take at most `limit` bytes of a body."""
        self._receive = receive
        self._limit = limit
        self._size = 0
        self._read = asyncio.Event()

    async def pieces(self) -> AsyncIterator[bytes]:
        """Give the body as it comes.

        Raises:
            ClientGone: it went before the body's end.
            TooLarge: the body is over the limit.
        """
        while not self._read.is_set():
            message = await self._receive()
            if message["type"] != "http.request":
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
        """Give the whole body; raises as `pieces` does."""
        return b"".join([piece async for piece in self.pieces()])

    async def gone(self) -> None:
        """Wait until the body has been read and the client is gone.

        Raises:
            ClientGone: always, in the end.
        """
        await self._read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass
        raise ClientGone

    async def during(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do some work, and cancel it at once when the client goes; tell whether it was done."""
        done = True
        try:
            async with asyncio.TaskGroup() as group:
                watcher = group.create_task(self.gone())
                await work
                watcher.cancel()
        except* ClientGone:
            done = False
        except* ModegateError as group_of_one:
            raise group_of_one.exceptions[0] from None
        return done

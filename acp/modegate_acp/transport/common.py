"""What both transports share: an ASGI call, the process's connections, and running until one side ends."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from modegate_acp.connection.connection import Caller, Connection

Asgi = tuple[Scope, Receive, Send]


class Connections(Protocol):
    """The process's connections."""

    def connect(self, caller: Caller, *, split: bool) -> Connection | Response:
        """Take a new connection, or say why not."""

    def find(self, name: str, caller: Caller) -> Connection | None:
        """Return a connection of the same caller."""

    def drop(self, connection: Connection) -> None:
        """Forget a connection whose transport is gone."""

    def idle(self, connection: Connection) -> None:
        """Note that it has no stream from now on."""

    def busy(self, connection: Connection) -> None:
        """Note that it has one."""


async def first_of(*sides: Coroutine[Any, Any, object]) -> None:
    """Run all until the first one ends, then cancel the others. A client that is gone ends its side."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_gone(side)) for side in sides]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()


async def _gone(side: Coroutine[Any, Any, object]) -> None:
    try:
        await side
    except OSError:
        return

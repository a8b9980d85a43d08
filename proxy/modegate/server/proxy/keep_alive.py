"""What keeps a client waiting: something is sent before its idle timer runs out (10 s, see the design).

Agents and proxies give up on a stream that is silent, be it that the arguments of a held call come slowly,
that a person reads a plan, or that a further hop has not begun. The core says what can be said; here is the
clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.types import Message, Send

from modegate.server.clock import Clock

KEEPALIVE_S = 8.0
"""Silence after which the client is sent something: clients and proxies bear 10 s."""

BUSY_S = 0.5
"""How soon to look again where the client should have been told and could not: the step was busy, or a frame
stood half sent."""


class KeepAlive:
    """One step's way to its client, on which something goes while the step waits."""

    def __init__(
        self, send: Send, clock: Clock, give: Callable[[], bytes], after: float = KEEPALIVE_S
    ) -> None:
        """Send nothing of its own until it has begun; `give` is asked for it, `after` seconds of silence."""
        self._send = send
        self._clock = clock
        self._give = give
        self._after = after
        self._told = clock.monotonic()
        self._waiting = False
        self._task: asyncio.Task[None] | None = None
        # What goes must go in the order in which it was made.
        self._turn = asyncio.Lock()

    async def __call__(self, message: Message) -> None:
        """Send a piece of the answer."""
        async with self._turn:
            await self._send(message)
            self._told = self._clock.monotonic()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let the client be kept waiting meanwhile: the step has nothing to send, and decides nothing."""
        self._waiting = True
        try:
            yield
        finally:
            self._waiting = False

    def begin(self) -> None:
        """Look after the client from here on: its stream has begun."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())  # noqa: TID251 -- ended by `end`

    def end(self) -> None:
        """Send nothing more of its own."""
        if self._task is not None:
            # Without a way back from here to its frames, nothing of the step stays until the collector runs.
            task, self._task = self._task, None
            task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._told + self._after - self._clock.monotonic())
            async with self._turn:
                silent = self._clock.monotonic() - self._told
                data = self._give() if silent >= self._after and self._waiting else b""
                if data:
                    await self._send(
                        {"type": "http.response.body", "body": data, "more_body": True}
                    )
                    self._told = self._clock.monotonic()
            if not data:
                await asyncio.sleep(BUSY_S)

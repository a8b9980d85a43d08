"""Keeps a waiting client's stream alive: an event is sent before its idle timer runs out, after 10 s.

Agents and proxies give up on a silent stream. It is silent while a held call's arguments come slowly, while
a person reads a plan, and until the next hop begins. The core says what may be sent; the clock is here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.types import Message, Send

from modegate.server.clock import Clock

KEEPALIVE_S = 8.0
"""Silence after which a client that waits is sent an event: clients and proxies bear 10 s."""

BUSY_S = 0.5
"""How soon to try again if nothing could be sent: the step was busy, or a frame was half sent."""


class KeepAlive:
    """Sends one step's answer to its client, and keep-alive events while the step waits."""

    def __init__(
        self, send: Send, clock: Clock, give: Callable[[], bytes], after: float = KEEPALIVE_S
    ) -> None:
        """Send no event until `begin`; `give` returns the one to send after `after` seconds of silence."""
        self._send = send
        self._clock = clock
        self._give = give
        self._after = after
        self._told = clock.monotonic()
        self._waiting = False
        self._task: asyncio.Task[None] | None = None
        # Pieces must be sent in the order in which they were made.
        self._turn = asyncio.Lock()

    async def __call__(self, message: Message) -> None:
        async with self._turn:
            await self._send(message)
            self._told = self._clock.monotonic()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Send events meanwhile: the step has nothing to send, and decides nothing."""
        self._waiting = True
        try:
            yield
        finally:
            self._waiting = False

    def begin(self) -> None:
        """Send events from here on: the client's stream has begun."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())  # noqa: TID251 -- ended by `end`

    def end(self) -> None:
        if self._task is not None:
            # A reference to the task would keep its frames, and the step, until the collector runs.
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

"""One step's answer on its way to the client: its head, its body, its end, and events that keep it alive.

Agents and proxies give up on a silent stream, after 10 s. It is silent while a held call's arguments come
slowly, while a person reads a plan, and until the next hop begins. The core says what may be sent; the clock
is here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.types import Message, Send

from modegate.core.step.answer.stream_detection import is_stream
from modegate.core.step.effects import Finish, SendHead
from modegate.server.clock import Clock

KEEPALIVE_S = 8.0
"""Silence after which a client that waits is sent an event: clients and proxies bear 10 s."""

BUSY_S = 0.5
"""How soon to try again if nothing could be sent: the step was busy, or a frame was half sent."""

SEND_SLICE = 2**20
"""Bytes that are written to the client at a time."""


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


class Sending:
    """What the client has got."""

    def __init__(
        self, send: Send, clock: Clock, keepalive: Callable[[], bytes], after: float
    ) -> None:
        self._alive = KeepAlive(send, clock, keepalive, after)
        self.waiting = self._alive.waiting
        self.stop_waiting = self._alive.end
        self.head_sent = False
        self.ended = False
        """It has all of the answer, or is to get no more."""
        self.outcome: str | None = None
        """How the answer ended, once all of it was sent."""

    def passed_raw(self) -> None:
        """Go on behind a head that the client has got without us."""
        self.head_sent = True
        self._alive.begin()

    async def head(self, head: SendHead) -> None:
        self.head_sent = True
        start = {"type": "http.response.start", "status": head.status, "headers": head.headers}
        await self._alive(start)
        if is_stream(head.headers):
            self._alive.begin()

    async def body(self, data: bytes, *, more: bool) -> None:
        """Send a piece; what is long in several, as writing it whole would hold others up."""
        at = 0
        while len(data) - at > SEND_SLICE:
            await self._piece(data[at : at + SEND_SLICE], more=True)
            await asyncio.sleep(0)
            at += SEND_SLICE
        await self._piece(data[at:] if at else data, more=more)
        self.ended = self.ended or not more

    async def end(self, finish: Finish) -> None:
        """End the answer, unless its last piece has said that it is the last."""
        sent, self.ended, self.outcome = self.ended, True, finish.outcome
        if not sent and not finish.broken:
            await self._piece(b"", more=False)

    async def _piece(self, data: bytes, *, more: bool) -> None:
        await self._alive({"type": "http.response.body", "body": data, "more_body": more})

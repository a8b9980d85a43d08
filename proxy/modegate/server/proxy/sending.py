"""One step's answer on its way to the client: its head, its body, its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.types import Send

from modegate.core.step.answer.stream_detection import is_stream
from modegate.core.step.effects import Finish, SendHead
from modegate.server.clock import Clock
from modegate.server.proxy.keep_alive import KeepAlive

SEND_SLICE = 2**20
"""Bytes that are written to the client at a time."""


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

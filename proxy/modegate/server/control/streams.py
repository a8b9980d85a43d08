"""The control API's streams of server-sent events, kept alive in a silence; an error is their last event."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from modegate.core.errors import ModegateError
from modegate.core.wire.sse import write_comment, write_event
from modegate.server.clock import Clock
from modegate.server.control.http import error_of
from modegate.server.proxy.sending import KEEPALIVE_S

SSE_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}

STILL_HERE = write_comment("still here")
"""A comment, which keeps a stream alive and means nothing."""


def wants_stream(request: Request) -> bool:
    """Return whether server-sent events are asked for."""
    return "text/event-stream" in request.headers.get("accept", "")


def event(body: object, *, name: str = "", id: int | None = None) -> bytes:  # noqa: A002
    """Return a frame with a JSON body."""
    return write_event(msgspec.json.encode(body), name, number=id)


class EventStreams:
    """All streams of one process, which end together at its shutdown."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._closing = False

    def close(self) -> None:
        """End each stream after its next batch."""
        self._closing = True

    def response(self, batches: AsyncGenerator[Sequence[bytes]]) -> Response:
        """Return an answer that sends batches of frames; an empty batch now and then keeps it alive."""
        frames = self._frames(batches)
        return StreamingResponse(frames, media_type="text/event-stream", headers=SSE_HEADERS)

    async def _frames(self, batches: AsyncGenerator[Sequence[bytes]]) -> AsyncIterator[bytes]:
        sent_at = self._clock.monotonic()
        try:
            async with aclosing(batches):
                async for batch in batches:
                    silent = self._clock.monotonic() - sent_at >= KEEPALIVE_S
                    for frame in batch or ([STILL_HERE] if silent else []):
                        yield frame
                        sent_at = self._clock.monotonic()
                    if self._closing:
                        return
        except ModegateError as error:
            yield event({"error": error_of(error)}, name="error")

"""What a client has been told so far: one request's ASGI `send`.

An object of its own, so that what is on the way to the client refers to this, and not back to the step.
"""

from __future__ import annotations

from starlette.types import Message, Send

from modegate.core.step.answer.stream_detection import is_plain_stream
from modegate.server.proxy.step_log import StepLog

_EVENT_ENDS = (b"\n\n", b"\r\r", b"\r\n\r\n")


class Telling:
    """The answer to one request, as it goes out."""

    def __init__(self, send: Send, report: StepLog) -> None:
        """Begin with nothing told."""
        self._send = send
        self._report = report
        self.began = False
        self._events = False
        self._last = b""

    @property
    def between_events(self) -> bool:
        """Whether what goes out is a plain event stream, of which no event is cut short so far."""
        return self._events and (not self._last or self._last.endswith(_EVENT_ENDS))

    async def __call__(self, message: Message) -> None:
        """Tell the client a piece of it."""
        self.began = True
        if message["type"] == "http.response.start":
            self._report.told(message["status"])
            self._events = is_plain_stream(message["headers"])
        elif message.get("body"):
            self._last = (
                message["body"] if len(message["body"]) >= 4 else self._last + message["body"]
            )
        await self._send(message)

"""What a client has been told so far: one request's ASGI `send`.

An object of its own, so that what is on the way to the client refers to this, and not back to the step.
"""

from __future__ import annotations

from starlette.types import Message, Send

from modegate.server.report import Report


class Telling:
    """The answer to one request, as it goes out."""

    def __init__(self, send: Send, report: Report) -> None:
        """Begin with nothing told."""
        self._send = send
        self._report = report
        self.began = False

    async def __call__(self, message: Message) -> None:
        """Tell the client a piece of it."""
        self.began = True
        if message["type"] == "http.response.start":
            self._report.told(message["status"])
        await self._send(message)

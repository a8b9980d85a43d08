"""The upstream `scripted:FILE`: a model that answers from a script, for trying a policy without a model.

It speaks chat completions, Responses and Messages, streamed and whole, counts tokens and lists one model.
What it was sent is kept, so that a demonstration or a test can look at what the model was offered.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Protocol

from modegate.core.errors import BadRequest, UpstreamFailed
from modegate.core.wire.headers import Headers
from modegate.scripted.chat import CHAT
from modegate.scripted.file import parse
from modegate.scripted.messages import MESSAGES, count
from modegate.scripted.model import Rendered, Script, ScriptDialect, choose, failed, fixed, render
from modegate.scripted.responses import RESPONSES

DIALECTS: Mapping[bytes, ScriptDialect] = {
    b"/chat/completions": CHAT,
    b"/responses": RESPONSES,
    b"/messages": MESSAGES,
}
"""By the end of the path."""

COUNT_TOKENS = b"/messages/count_tokens"

KEPT_REQUESTS = 100

Sleep = Callable[[float], Awaitable[None]]


class Request(Protocol):
    """What this model looks at of a request."""

    @property
    def method(self) -> str:
        """In capital letters."""

    @property
    def target(self) -> bytes:
        """Path and query."""

    @property
    def body(self) -> bytes | AsyncIterator[bytes]:
        """Whole, or as it comes."""


class ScriptedUpstream:
    def __init__(self, script: Script, *, sleep: Sleep = asyncio.sleep) -> None:
        """Take a script, and how to wait between frames (seconds)."""
        self.requests: deque[bytes] = deque(maxlen=KEPT_REQUESTS)
        """Bodies of the last requests for an answer, the newest at the end."""
        self._script = script
        self._given = [0] * len(script.answers)
        self._sleep = sleep

    @classmethod
    def from_file(cls, path: Path) -> ScriptedUpstream:
        """Read a script.

        Raises:
            OSError: the file cannot be read.
            PolicyProblems: with everything that is wrong with it.
        """
        return cls(parse(path.read_bytes(), path.name))

    async def send(self, request: Request) -> ScriptedAnswer:
        """Return the answer that the script has for a request, or an error that says why there is none."""
        path = request.target.partition(b"?")[0]
        return ScriptedAnswer(await self._answered(request, path), self._sleep)

    async def _answered(self, request: Request, path: bytes) -> Rendered:
        if request.method == "GET" and path.endswith(b"/models"):
            return _models()
        if request.method == "POST" and path.endswith(COUNT_TOKENS):
            return _counted(await _whole(request.body))
        for ending, dialect in DIALECTS.items():
            if request.method == "POST" and path.endswith(ending):
                body = await _whole(request.body)
                self.requests.append(body)
                return self._answer(body, dialect)
        what = f"{request.method} {path.decode(errors='replace')}"
        known = ", ".join(ending.decode() for ending in (*DIALECTS, COUNT_TOKENS))
        message = f"the scripted model does not know {what}, only POST {known} and GET /models"
        return failed(404, message, CHAT.name)

    async def close(self) -> None:
        """Do nothing: there is no connection."""

    def _answer(self, body: bytes, dialect: ScriptDialect) -> Rendered:
        try:
            asked = dialect.read(body)
        except BadRequest as error:
            return failed(400, str(error), dialect.name)
        place = choose(self._script, asked, self._given)
        if place is None:
            message = f"script {self._script.name} has no answer to this request: {asked}"
            return failed(400, message, dialect.name)
        self._given[place] += 1
        return render(self._script.answers[place], asked, dialect)


class ScriptedAnswer:
    """An answer in pieces, at its pace."""

    def __init__(self, rendered: Rendered, sleep: Sleep) -> None:
        self.status = rendered.status
        self.headers: Headers = rendered.headers
        self._rendered = rendered
        self._sleep = sleep
        self._closed = False

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the pieces.

        Raises:
            UpstreamFailed: the script has it cut.
        """
        for number, piece in enumerate(self._rendered.pieces):
            if number and self._rendered.pace_ms:
                await self._sleep(self._rendered.pace_ms / 1000)
            if self._closed:
                return
            yield piece
        if self._rendered.cut:
            raise UpstreamFailed("the script has this answer cut")

    async def close(self) -> None:
        self._closed = True


async def _whole(body: bytes | AsyncIterator[bytes]) -> bytes:
    if isinstance(body, bytes):
        return body
    return b"".join([piece async for piece in body])


def _models() -> Rendered:
    model = {"id": "scripted", "object": "model", "created": 0, "owned_by": "modegate"}
    return fixed(200, {"object": "list", "data": [model]})


def _counted(body: bytes) -> Rendered:
    try:
        return fixed(200, count(MESSAGES.read(body)))
    except BadRequest as error:
        return failed(400, str(error), MESSAGES.name)

"""The default mode's path: bytes both ways as they come (L1), until a person sets a mode (L8)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

from starlette.types import Send

from modegate.core.errors import Overloaded, UpstreamFailed
from modegate.core.policy.in_force import ModesInForce
from modegate.core.step.answer.relayed import Passed
from modegate.server.proxy.memory import Share
from modegate.server.proxy.step_log import StepLog
from modegate.server.proxy.watchers import SessionWatch
from modegate.server.upstream.pool import ChosenUpstream
from modegate.server.upstream.protocol import UpstreamAnswer, UpstreamRequest


@dataclass(slots=True)
class UnderWayAnswer:
    """An answer of which nothing more passes unread."""

    answer: UpstreamAnswer
    chunks: AsyncIterator[bytes]
    """What the client has not got."""
    passed: Passed | None
    """What it has; None if not even the head."""


Overtake = Callable[[UnderWayAnswer, ModesInForce], Awaitable[str]]
"""Goes on with an answer under a mode, and gives the outcome."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A step on the raw path that looks out for a person."""

    watch: SessionWatch
    overtake: Overtake
    share: Share

    def keep(self, passed: Passed, chunk: bytes) -> None:
        """Keep what passes, as long as there is room."""
        passed.add(chunk)
        try:
            self.share.answer(passed.size)
        except Overloaded:
            passed.forget()
            self.share.answer(0)


async def pass_through(
    upstream: ChosenUpstream,
    request: UpstreamRequest,
    send: Send,
    report: StepLog,
    watched: Watched | None = None,
) -> str:
    """Forward a request and its answer, chunk by chunk; give the outcome.

    An answer that breaks off is cut towards the client too: the connection is closed without the end
    that HTTP wants, so that the client notices. One that is `watched` is overtaken once a person has set a
    mode; any other is harmless in every mode.

    Raises:
        UpstreamFailed: there was no answer at all.
    """
    report.sent()
    with report.elsewhere():
        answer = await upstream.send(request)
    report.answered()
    try:
        chunks = answer.chunks()
        if watched is not None and (now := await watched.watch.tightened()) is not None:
            return await watched.overtake(UnderWayAnswer(answer, chunks, None), now)
        await send(
            {"type": "http.response.start", "status": answer.status, "headers": answer.headers}
        )
        return await _copy(answer, chunks, send, watched)
    finally:
        await answer.close()


async def _copy(
    answer: UpstreamAnswer, chunks: AsyncIterator[bytes], send: Send, watched: Watched | None
) -> str:
    passed = Passed()
    try:
        async for chunk in chunks:
            if watched is not None:
                changed = watched.watch.mark.changed
                if changed and (now := await watched.watch.tightened()) is not None:
                    async with aclosing(_before(chunk, chunks)) as rest:
                        return await watched.overtake(UnderWayAnswer(answer, rest, passed), now)
                watched.keep(passed, chunk)
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    except UpstreamFailed:
        return "cut"
    await send({"type": "http.response.body", "body": b"", "more_body": False})
    return "passed"


async def _before(chunk: bytes, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    yield chunk
    async for one in chunks:
        yield one

"""Performs what an exchange asks for and tells it what came of it; decides nothing."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, assert_never

from starlette.types import Send

from modegate.core.errors import ModegateError, UpstreamFailed
from modegate.core.ids import SessionKey
from modegate.core.policy.in_force import ModesInForce
from modegate.core.step.effects import (
    AskPerson,
    CallUpstream,
    Count,
    Effect,
    Finish,
    ReadBlobs,
    ReadState,
    Records,
    SendBytes,
    SendHead,
    StopUpstream,
)
from modegate.core.step.exchange import Exchange
from modegate.server.proxy.executor import Given
from modegate.server.proxy.memory import Share
from modegate.server.proxy.passthrough import UnderWayAnswer
from modegate.server.proxy.recording import Recording
from modegate.server.proxy.sending import Sending
from modegate.server.proxy.services import StepServices
from modegate.server.proxy.step_log import StepLog
from modegate.server.proxy.watchers import SessionWatch
from modegate.server.upstream.pool import ChosenUpstream
from modegate.server.upstream.protocol import UpstreamAnswer, UpstreamRequest

SLICE = 16 * 1024
"""Bytes of an answer that are read before what they bring is sent."""

DENSE_SLICE = 1024
MAX_LINES = 512
"""Line ends that a slice may hold: each can end an event, which costs more than its bytes."""

TURN_S = 0.002
"""Seconds for which slices are read before others have their turn."""


@dataclass(frozen=True, slots=True)
class DriveContext:
    """What one step's drive works with."""

    services: StepServices
    key: SessionKey
    target: bytes
    method: str
    send: Send
    upstream: ChosenUpstream
    report: StepLog
    watch: SessionWatch
    """Reads strictly what the session stands under now."""
    share: Share
    """What the step may hold in memory."""


class Drive:
    """One step on its way."""

    def __init__(self, exchange: Exchange, outside: DriveContext) -> None:
        self._exchange = exchange
        self._out = outside
        self._services = services = outside.services
        self._answer: UpstreamAnswer | None = None
        self._chunks: AsyncIterator[bytes] | None = None
        self._client = Sending(outside.send, services.clock, exchange.keepalive, services.keepalive)
        self._notes = Recording(
            services, outside.key, outside.report, outside.upstream, exchange.knows
        )

    async def run(self, in_force: ModesInForce) -> str:
        """Live through the step; give how it ended."""
        return await self._live(self._decide(self._exchange.begin, in_force))

    async def overtake(
        self, under_way: UnderWayAnswer, before: ModesInForce, now: ModesInForce
    ) -> str:
        """Go on with a step whose answer passed raw until a person set a mode; give how it ended."""
        self._answer, self._chunks = under_way.answer, under_way.chunks
        passed, size = under_way.passed, self._exchange.size
        if passed is not None:
            self._client.passed_raw()
            size += passed.size
        status, headers = under_way.answer.status, under_way.answer.headers
        begin = self._exchange.overtake
        return await self._live(
            self._services.executor(size, begin, before, now, status, headers, passed)
        )

    async def _live(self, begin: Coroutine[Any, Any, list[Effect]]) -> str:
        try:
            await self._perform(await begin)
            while not self._client.ended:
                await self._next()
        except ModegateError as error:
            await self.fail(error)
        finally:
            self._client.stop_waiting()
            self._exchange.let_go()
            try:
                await self._stop()
            finally:
                if self._notes.asked:
                    await asyncio.shield(self._notes.leave())
        return self._client.outcome or ("sent" if self._client.ended else "failed")

    @property
    def over(self) -> str | None:
        """How the answer ended, once all of it was sent."""
        return self._client.outcome

    async def fail(self, error: ModegateError) -> None:
        """End the step with an error of our own, unless its client has the end."""
        if not self._client.ended:
            head_sent = self._client.head_sent
            await self._perform(self._exchange.failed(error, head_sent=head_sent))

    async def _next(self) -> None:
        """Take more of the answer that the exchange waits for."""
        chunks = self._chunks
        if chunks is None:
            raise RuntimeError("a step waits for an answer, and none is under way")
        try:
            with self._waiting():
                chunk = await anext(chunks)
        except StopAsyncIteration:
            return await self._perform(await self._decide(self._exchange.upstream_end))
        except UpstreamFailed as error:
            return await self._perform(self._exchange.upstream_end(error))
        # What a large read brought leaves piece by piece, so that its beginning does not wait for its end.
        turn = self._services.clock.monotonic()
        for piece in _slices(chunk):
            await self._look()
            if self._chunks is not chunks or self._client.ended:
                break
            await self._read(piece)
            if self._services.clock.monotonic() - turn > TURN_S:
                await asyncio.sleep(0)
                turn = self._services.clock.monotonic()
        return None

    async def _read(self, piece: bytes) -> None:
        exchange, out = self._exchange, self._out
        size = exchange.unread + len(piece)
        await self._perform(await self._services.executor(size, exchange.upstream_data, piece))
        out.report.holding(now=exchange.holding)
        out.share.answer(exchange.kept)

    async def _decide(
        self, decide: Callable[[*Given], list[Effect]], *given: *Given
    ) -> list[Effect]:
        """Ask the exchange what may make it read its request, or its answer, from end to end."""
        return await self._services.executor(self._exchange.size, decide, *given)

    async def _look(self) -> None:
        """See whether a person has set a mode, where not all is read since none in force wanted it."""
        watch = self._out.watch
        if not (watch.mark.changed and self._exchange.passes_unread):
            return
        if (now := await watch.tightened()) is not None:
            await self._perform(await self._decide(self._exchange.tightened, now))

    async def _perform(self, effects: Iterable[Effect]) -> None:
        """Perform effects in order; those that a report brings come after all others."""
        pending = deque(effects)
        while pending:
            effect = pending.popleft()
            if isinstance(effect, Records):
                await self._notes.note(effect)
                continue
            match effect:
                case SendHead():
                    await self._client.head(effect)
                case SendBytes():
                    last = pending and all(_is_end(one) for one in pending)
                    await self._client.body(effect.data, more=not last)
                case Finish():
                    await self._client.end(effect)
                case StopUpstream():
                    await self._stop()
                case ReadBlobs() | ReadState() | AskPerson() | CallUpstream():
                    pending.extend(await self._report(effect))
                case _:
                    assert_never(effect)

    async def _report(
        self, effect: ReadBlobs | ReadState | AskPerson | CallUpstream
    ) -> list[Effect]:
        match effect:
            case ReadBlobs():
                found = await self._services.log.get_blobs(self._out.key, effect.refs)
                return await self._decide(self._exchange.blobs, found)
            case ReadState():
                return await self._decide(self._exchange.state, await self._out.watch.read())
            case AskPerson():
                return await self._ask(effect)
            case CallUpstream():
                return await self._call(effect)
            case _:
                assert_never(effect)

    async def _call(self, effect: CallUpstream) -> list[Effect]:
        await self._stop()
        out = self._out
        self._services.metrics.hops.inc()
        out.report.sent()
        request = UpstreamRequest(out.method, out.target, effect.headers, effect.body)
        try:
            with self._waiting():
                self._answer = await out.upstream.send(request)
        except UpstreamFailed as error:
            return self._exchange.upstream_end(error)
        out.report.answered()
        self._chunks = self._answer.chunks()
        await self._look()
        if self._client.ended:
            return []
        return self._exchange.upstream_head(self._answer.status, self._answer.headers)

    async def _ask(self, effect: AskPerson) -> list[Effect]:
        approval = await self._notes.ask(effect, self._waiting)
        now = await self._out.watch.read()
        return await self._decide(self._exchange.approval, approval, now)

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """Let the client be kept alive meanwhile: what is waited for is not ours."""
        with self._out.report.elsewhere(), self._client.waiting():
            yield

    async def _stop(self) -> None:
        if self._answer is not None:
            answer, self._answer, self._chunks = self._answer, None, None
            await answer.close()


def _slices(chunk: bytes) -> Iterator[bytes]:
    for at in range(0, len(chunk), SLICE):
        piece = chunk[at : at + SLICE]
        if piece.count(b"\n") + piece.count(b"\r") <= MAX_LINES:
            yield piece
            continue
        for part in range(0, len(piece), DENSE_SLICE):
            yield piece[part : part + DENSE_SLICE]


def _is_end(effect: Effect) -> bool:
    """Return whether nothing but the end follows, so that the last piece can say so."""
    if isinstance(effect, Finish):
        return not effect.broken
    return isinstance(effect, StopUpstream | Count)

"""Performs what an exchange asks for and tells it what came of it; decides nothing."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, assert_never

from starlette.types import Send

from modegate.core.errors import ModegateError, UpstreamFailed
from modegate.core.ids import SessionKey, StepId
from modegate.core.log.approvals import Approval, Status
from modegate.core.log.events import CallJudged, Event
from modegate.core.log.records import Entry
from modegate.core.policy.in_force import ModesInForce
from modegate.core.policy.model import EXPIRES_MS
from modegate.core.step.answer.stream_detection import is_stream
from modegate.core.step.effects import (
    Abandon,
    Append,
    AskPerson,
    CallUpstream,
    Count,
    Counted,
    Effect,
    Finish,
    KeepOpen,
    Learned,
    ReadBlobs,
    ReadState,
    SendBytes,
    SendHead,
    StopUpstream,
    StoreBlobs,
)
from modegate.core.step.exchange import Exchange
from modegate.server.proxy.executor import Given
from modegate.server.proxy.keep_alive import KeepAlive
from modegate.server.proxy.memory import Share
from modegate.server.proxy.passthrough import UnderWayAnswer
from modegate.server.proxy.services import StepServices
from modegate.server.proxy.step_log import StepLog
from modegate.server.proxy.watchers import SessionWatch
from modegate.server.upstream.pool import ChosenUpstream
from modegate.server.upstream.protocol import UpstreamAnswer, UpstreamRequest

logger = logging.getLogger(__name__)

KEEP_BLOBS_MS = 30 * 24 * 60 * 60 * 1000
"""How long withheld exchanges can be put back: a month, longer than agents resume a session."""

SLICE = 16 * 1024
"""Bytes of an answer that are read before what they bring is sent."""

DENSE_SLICE = 1024
MAX_LINES = 512
"""Line ends that a slice may hold: each can end an event, which costs more than its bytes."""

SEND_SLICE = 2**20
"""Bytes that are written to the client at a time."""

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
        """Take an exchange that has not begun."""
        self._exchange = exchange
        self._out = outside
        self._services = services = outside.services
        self._answer: UpstreamAnswer | None = None
        self._chunks: AsyncIterator[bytes] | None = None
        self._head_sent = False
        """The client has the head of its answer."""
        self._alive = KeepAlive(
            outside.send, services.clock, exchange.keepalive, services.keepalive
        )
        self._asked = False
        """It has asked a person, or keeps what another step has asked."""
        self._kept: tuple[str, ...] = ()
        """Questions that it keeps open, as its request may come to them again."""
        self._outcome: str | None = None

    async def run(self, in_force: ModesInForce) -> str:
        """Live through the step; give how it ended."""
        return await self._live(self._decide(self._exchange.begin, in_force))

    async def overtake(
        self, under_way: UnderWayAnswer, before: ModesInForce, now: ModesInForce
    ) -> str:
        """Go on with a step whose answer passed raw until a person set a mode; give how it ended."""
        self._answer, self._chunks = under_way.answer, under_way.chunks
        self._head_sent = under_way.passed is not None
        if self._head_sent:
            self._alive.begin()
        status, headers = under_way.answer.status, under_way.answer.headers
        passed = under_way.passed
        size = self._exchange.size + (passed.size if passed is not None else 0)
        begin = self._exchange.overtake
        return await self._live(
            self._services.executor(size, begin, before, now, status, headers, passed)
        )

    async def _live(self, begin: Coroutine[Any, Any, list[Effect]]) -> str:
        try:
            await self._perform(await begin)
            while self._outcome is None:
                await self._next()
        except ModegateError as error:
            await self.fail(error)
        finally:
            self._alive.end()
            self._exchange.let_go()
            try:
                await self._stop()
            finally:
                if self._asked:
                    await asyncio.shield(self._leave())
        return self._outcome or "failed"

    @property
    def over(self) -> str | None:
        """How the answer ended, once all of it was sent."""
        return None if self._outcome == "sent" else self._outcome

    async def _leave(self) -> None:
        out = self._out
        try:
            await self._services.approvals.leave(out.key, StepId(out.report.step), self._kept)
        except ModegateError as error:
            logger.warning(
                "step %s still counts as waiting for a person: %s", out.report.step, error
            )

    async def fail(self, error: ModegateError) -> None:
        """End the step with an error of our own."""
        if self._outcome is None:
            await self._perform(self._exchange.failed(error, head_sent=self._head_sent))

    async def _next(self) -> None:
        if self._chunks is None:
            raise AssertionError("the exchange waits for nothing and is not over")
        chunks = self._chunks
        try:
            with self._out.report.elsewhere(), self._alive.waiting():
                chunk = await anext(chunks)
        except StopAsyncIteration:
            return await self._perform(await self._decide(self._exchange.upstream_end))
        except UpstreamFailed as error:
            return await self._perform(self._exchange.upstream_end(error))
        # What a large read brought leaves piece by piece, so that its beginning does not wait for its end.
        turn = self._services.clock.monotonic()
        for piece in _slices(chunk):
            await self._look()
            if self._chunks is not chunks or self._outcome is not None:
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
        pending = deque(effects)
        while pending:
            effect = pending.popleft()
            match effect:
                case SendBytes():
                    last = pending and all(_is_end(one) for one in pending)
                    await self._send(effect.data, more=not last)
                case Finish():
                    await self._end(effect)
                case Count():
                    self._count(effect.what)
                case _:
                    pending.extend(await self._do(effect))

    async def _do(self, effect: Effect) -> list[Effect]:
        """Perform one effect and give those that its report brings; they come after all others."""
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
                await self._just_do(effect)
        return []

    async def _just_do(self, effect: Effect) -> None:
        """Perform an effect that brings no report."""
        match effect:
            case Append():
                await self._append(effect)
            case StoreBlobs():
                for ref, body in effect.blobs.items():
                    await self._services.log.put_blob(self._out.key, ref, body, KEEP_BLOBS_MS)
            case Abandon():
                await self._services.approvals.moved_on(self._out.key, effect.ids)
            case KeepOpen():
                self._asked, self._kept = True, effect.ids
                step = StepId(self._out.report.step)
                await self._services.approvals.keep(self._out.key, step, effect.ids)
            case StopUpstream():
                await self._stop()
            case SendHead():
                head = {"status": effect.status, "headers": effect.headers}
                self._head_sent = True
                await self._alive({"type": "http.response.start", **head})
                if is_stream(effect.headers):
                    self._alive.begin()
            case Learned():
                self._out.upstream.learn(effect.model, effect.manner)
            case _:
                raise AssertionError(f"{effect} is performed by _perform")

    async def _append(self, effect: Append) -> None:
        entries = [
            Entry(self._services.clock.now_ms(), _by(event), event) for event in effect.events
        ]
        for event in effect.events:
            if isinstance(event, CallJudged):
                known = self._exchange.knows(event.tool)
                self._out.report.judged(event, declared=known)
        if effect.durable:
            with self._services.metrics.append.time():
                await self._services.folds.append(self._out.key, entries)
        else:
            self._services.batch_writer.record(self._out.key, entries)

    async def _call(self, effect: CallUpstream) -> list[Effect]:
        await self._stop()
        self._services.metrics.hops.inc()
        self._out.report.sent()
        out = self._out
        try:
            with out.report.elsewhere(), self._alive.waiting():
                self._answer = await out.upstream.send(
                    UpstreamRequest(out.method, out.target, effect.headers, effect.body)
                )
        except UpstreamFailed as error:
            return self._exchange.upstream_end(error)
        self._out.report.answered()
        self._chunks = self._answer.chunks()
        await self._look()
        if self._outcome is not None:
            return []
        return self._exchange.upstream_head(self._answer.status, self._answer.headers)

    async def _ask(self, effect: AskPerson) -> list[Effect]:
        """Ask a person and wait; whatever ends the wait, `leave` follows."""
        out = self._out
        asked = replace(effect.asked, expires=self._services.clock.now_ms() + EXPIRES_MS)
        self._asked = True
        approval = await self._services.approvals.ask(out.key, asked, mode_seq=effect.mode_seq)
        if approval.waited_for:
            with out.report.elsewhere(), self._alive.waiting():
                approval = await self._services.approvals.wait(
                    out.key,
                    approval,
                    step=asked.step,
                    streamed=effect.streamed,
                    draining=self._services.draining,
                )
        self._services.metrics.approvals.labels(_outcome(approval)).inc()
        return await self._decide(self._exchange.approval, approval, await out.watch.read())

    async def _stop(self) -> None:
        if self._answer is not None:
            answer, self._answer, self._chunks = self._answer, None, None
            await answer.close()

    async def _send(self, data: bytes, *, more: bool) -> None:
        """Send; what is long in pieces, as writing it whole would hold others up."""
        at = 0
        while len(data) - at > SEND_SLICE:
            piece = data[at : at + SEND_SLICE]
            await self._alive({"type": "http.response.body", "body": piece, "more_body": True})
            await asyncio.sleep(0)
            at += SEND_SLICE
        rest = data[at:] if at else data
        await self._alive({"type": "http.response.body", "body": rest, "more_body": more})
        if not more:
            self._outcome = self._outcome or "sent"

    async def _end(self, effect: Finish) -> None:
        sent = self._outcome == "sent"
        self._outcome = effect.outcome
        if not sent and not effect.broken:
            await self._alive({"type": "http.response.body", "body": b"", "more_body": False})

    def _count(self, what: Counted) -> None:
        metrics = self._services.metrics
        match what:
            case Counted.UNREADABLE:
                metrics.unparsable.labels("answer").inc()
            case Counted.NO_TOOLS:
                metrics.ungated.labels("no_tools").inc()
            case Counted.READ_ON:
                metrics.tightened.labels("read").inc()
            case Counted.CUT_OFF:
                metrics.tightened.labels("cut").inc()
            case Counted.UPSTREAM_CUT:
                metrics.upstream_cut.inc()
            case Counted.RESENT:
                metrics.resent.inc()
            case _:
                assert_never(what)


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


def _outcome(approval: Approval) -> str:
    """Return what came of a question: `approved`, `rejected`, or why nobody answered it in time."""
    if approval.status is Status.ANSWERED:
        return "approved" if approval.approved else "rejected"
    return approval.why or approval.status.value


def _by(event: Event) -> str:
    return "gate" if isinstance(event, CallJudged) else "agent"

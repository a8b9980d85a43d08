"""What a step notes on its way: in the log, of questions, for the operator."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import assert_never

from modegate.core.errors import ModegateError
from modegate.core.ids import SessionKey, StepId
from modegate.core.log.approvals import Approval, Status
from modegate.core.log.events import CallJudged, Event
from modegate.core.log.records import Entry
from modegate.core.policy.model import EXPIRES_MS
from modegate.core.step.effects import (
    Abandon,
    Append,
    AskPerson,
    Count,
    Counted,
    KeepOpen,
    Learned,
    Records,
    StoreBlobs,
)
from modegate.server.metrics import Metrics
from modegate.server.proxy.services import StepServices
from modegate.server.proxy.step_log import StepLog
from modegate.server.upstream.pool import ChosenUpstream

logger = logging.getLogger(__name__)

KEEP_BLOBS_MS = 30 * 24 * 60 * 60 * 1000
"""How long withheld exchanges can be put back: a month, longer than agents resume a session."""


@dataclass(slots=True)
class Recording:
    """One step's notes."""

    services: StepServices
    key: SessionKey
    report: StepLog
    upstream: ChosenUpstream
    knows: Callable[[str], bool]
    """Tells whether the agent has a tool."""
    asked: bool = False
    """The step has asked a person, or keeps what another step has asked."""
    kept: tuple[str, ...] = ()
    """Questions that it keeps open, as its request may come to them again."""

    @property
    def _step(self) -> StepId:
        return StepId(self.report.step)

    async def note(self, effect: Records) -> None:
        match effect:
            case Append():
                await self._append(effect)
            case StoreBlobs():
                for ref, body in effect.blobs.items():
                    await self.services.log.put_blob(self.key, ref, body, KEEP_BLOBS_MS)
            case Abandon():
                await self.services.approvals.moved_on(self.key, effect.ids)
            case KeepOpen():
                self.asked, self.kept = True, effect.ids
                await self.services.approvals.keep(self.key, self._step, effect.ids)
            case Learned():
                self.upstream.learn(effect.model, effect.manner)
            case Count():
                _count(self.services.metrics, effect.what)
            case _:
                assert_never(effect)

    async def _append(self, effect: Append) -> None:
        now = self.services.clock.now_ms()
        entries = [Entry(now, _by(event), event) for event in effect.events]
        for event in effect.events:
            if isinstance(event, CallJudged):
                self.report.judged(event, declared=self.knows(event.tool))
        if effect.durable:
            with self.services.metrics.append_seconds.time():
                await self.services.folds.append(self.key, entries)
        else:
            self.services.batch_writer.record(self.key, entries)

    async def ask(
        self, effect: AskPerson, waiting: Callable[[], AbstractContextManager[None]]
    ) -> Approval:
        """Put a question and wait for what comes of it; whatever ends the wait, `leave` follows."""
        services, asked = self.services, effect.asked
        asked = replace(asked, expires=services.clock.now_ms() + EXPIRES_MS)
        self.asked = True
        approval = await services.approvals.ask(self.key, asked, mode_seq=effect.mode_seq)
        if approval.waited_for:
            with waiting():
                approval = await services.approvals.wait(
                    self.key,
                    approval,
                    step=asked.step,
                    streamed=effect.streamed,
                    draining=services.draining,
                )
        services.metrics.approvals.labels(_outcome(approval)).inc()
        return approval

    async def leave(self) -> None:
        """Note that the step waits for no person any more, if it has."""
        if not self.asked:
            return
        try:
            await self.services.approvals.leave(self.key, self._step, self.kept)
        except ModegateError as error:
            logger.warning("step %s still counts as waiting for a person: %s", self._step, error)


def _count(metrics: Metrics, what: Counted) -> None:
    match what:
        case Counted.UNREADABLE:
            metrics.unparsable.labels("answer").inc()
        case Counted.NO_TOOLS:
            metrics.ungated_steps.labels("no_tools").inc()
        case Counted.READ_ON:
            metrics.tightened_answers.labels("read").inc()
        case Counted.CUT_OFF:
            metrics.tightened_answers.labels("cut").inc()
        case Counted.UPSTREAM_CUT:
            metrics.upstream_cut_answers.inc()
        case Counted.RESENT:
            metrics.resent_requests.inc()
        case _:
            assert_never(what)


def _outcome(approval: Approval) -> str:
    """Return what came of a question: `approved`, `rejected`, or why nobody answered it in time."""
    if approval.status is Status.ANSWERED:
        return "approved" if approval.approved else "rejected"
    return approval.why or approval.status.value


def _by(event: Event) -> str:
    return "gate" if isinstance(event, CallJudged) else "agent"

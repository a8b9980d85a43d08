"""Questions to people, as a step sees them: asked, waited for, kept and given up; the core decides.

A step that waits is woken by what others append to its session. Nothing is read meanwhile, whatever else the
feed brings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from modegate.core.errors import LogUnavailable, ModegateError
from modegate.core.ids import Seq, SessionKey, StepId
from modegate.core.log import approvals as core
from modegate.core.log import open_questions
from modegate.core.log.approval_events import (
    ApprovalAsked,
    ApprovalClosed,
    ApprovalDetached,
    ApprovalJoined,
)
from modegate.core.log.approvals import Approval, Status
from modegate.core.log.events import Event
from modegate.core.log.fold import State
from modegate.core.policy import waiting
from modegate.core.policy.model import WAITS, Waits
from modegate.server.clock import Clock
from modegate.server.log.folds import Folds
from modegate.server.log.protocol import EventLog
from modegate.server.proxy.questions import Questions
from modegate.server.proxy.watchers import Watchers

LOOK_S = 5.0
"""How often a waiting step looks though no news has come: the feed may be late, but not be lost."""

T = TypeVar("T")


class _Wait:
    """One step's wait for an answer; in seconds of the clock."""

    def __init__(self, step: StepId, streamed: bool, draining: asyncio.Event, now: float) -> None:
        self.step = step
        self.streamed = streamed
        self.draining = draining
        self.now = self._began = self._alone = now

    def goes_on(self, known: Approval, now: float) -> float:
        """Take what is known now; return the time."""
        self.now = now
        self._alone = now if known.shown else self._alone
        return now

    @property
    def waited(self) -> tuple[float, float]:
        """For how long it waits, and for how long nobody has shown the question."""
        return self.now - self._began, self.now - self._alone


class Approvals(Questions):
    """What steps do with questions, too; one instance a process."""

    def __init__(
        self,
        folds: Folds,
        log: EventLog,
        clock: Clock,
        *,
        waits: Callable[[], Waits] = lambda: WAITS,
        look: float = LOOK_S,
        watchers: Watchers | None = None,
    ) -> None:
        """`look` (seconds) is for tests. Without `watchers`, those who wait look for themselves."""
        super().__init__(folds, log, clock)
        self._watchers = watchers or Watchers(log)
        self._waits = waits
        self._look_s = look
        self._away: dict[SessionKey, int] = {}
        """When the next question of a session is over for which nobody came back, as far as known here."""
        self._went = asyncio.Event()

    async def ask(
        self, key: SessionKey, asked: ApprovalAsked, *, mode_seq: Seq | None = None
    ) -> Approval:
        """Ask a person, or join the open question that asks the same; return the question as it stands.

        With `mode_seq`, the question is about the mode that was set there. If another one has been set
        meanwhile, nothing is asked, and the approval comes back closed. A caller that is cancelled goes on
        only when the append has ended: `leave` must find the question, as nobody else would take it back.

        Raises:
            LogUnavailable, SessionUnreadable: nobody can be asked now.
        """

        def decide(state: State) -> Sequence[Event]:
            joins = open_questions.joinable(state.approvals, asked, self._clock.now_ms())
            if joins is not None:
                return [ApprovalJoined(joins, asked.step)]
            stale = mode_seq is not None and state.mode_seq != mode_seq
            return () if stale else [*open_questions.replaced(state.approvals, asked), asked]

        decided = await _to_its_end(self._folds.decide(key, "gate", decide))
        match decided.events:
            case [ApprovalJoined() as joined]:
                return core.step(decided.before.approvals[joined.id], joined, "gate")
            case []:
                return Approval(asked, Status.CLOSED, why="superseded")
            case _:
                return core.opened(asked, self._clock.now_ms())

    async def wait(
        self,
        key: SessionKey,
        known: Approval,
        *,
        step: StepId,
        streamed: bool,
        draining: asyncio.Event,
    ) -> Approval:
        """Wait until a question is settled or its step must go on; return it as the log then has it.

        `known` is the question as `ask` returned it: it is in the log, even if that cannot be read now.
        The question is detached if nobody is there, in time, or at a shutdown (`draining`). If other steps
        wait for it, it is detached from this one alone. An answer that was in the log first wins. A caller
        that is cancelled calls `leave`.

        Raises:
            LogUnavailable: the log was still gone when the wait was over.
        """
        with self._watchers.wake(key) as woken:
            wait = _Wait(step, streamed, draining, self._clock.monotonic())
            name = known.asked.id
            # While the log is gone nothing can be answered: it is asked again until the wait is over.
            with suppress(LogUnavailable):
                known = await self.look(key, name)
            while known.waited_for:
                now = wait.goes_on(known, self._clock.monotonic())
                over = self._over(known, wait)
                if over is not None:
                    # Whatever the news: nothing ends that has just been shown, or answered.
                    known = await self.look(key, name)
                    wait.goes_on(known, now)
                    if not known.waited_for or (over := self._over(known, wait)) is None:
                        continue
                    return await self._give_up(key, over, step)
                await self._pause(known, wait, woken)
                with suppress(LogUnavailable):
                    known = await self.look(key, name)
            return known

    def _over(self, approval: Approval, wait: _Wait) -> ApprovalClosed | ApprovalDetached | None:
        if self._clock.now_ms() >= approval.ends:
            return ApprovalClosed(approval.asked.id, "expired")
        why = waiting.due(
            approval,
            *wait.waited,
            streamed=wait.streamed,
            draining=wait.draining.is_set(),
            waits=self._waits(),
        )
        return None if why is None else ApprovalDetached(approval.asked.id, why)

    async def _give_up(
        self, key: SessionKey, over: ApprovalClosed | ApprovalDetached, step: StepId
    ) -> Approval:
        """End a question whose time is over, or, where others wait for it too, this step's part in it."""

        def decide(state: State) -> Sequence[Event]:
            one = state.approvals.get(over.id)
            if one is None or not one.waited_for:
                return ()
            alone = not set(one.waiting) - {step} or isinstance(over, ApprovalClosed)
            return [over] if alone else open_questions.dropped({over.id: one}, step, (), one.ends)

        decided = await self._folds.decide(key, "gate", decide)
        known = decided.before.approvals.get(over.id)
        return core.step(known, over, "gate") if known else await self.look(key, over.id)

    async def _pause(self, known: Approval, wait: _Wait, woken: asyncio.Event) -> None:
        """Wait for news, but not for longer than until something is due."""
        due = waiting.next_due(known, *wait.waited, streamed=wait.streamed, waits=self._waits())
        expires = (known.ends - self._clock.now_ms()) / 1000
        with suppress(TimeoutError):
            async with asyncio.timeout(min(self._look_s, due, expires)):
                await woken.wait()
        woken.clear()

    async def leave(self, key: SessionKey, step: StepId, kept: Collection[str] = ()) -> None:
        """Let a step wait for nothing any more: its client is gone, or it is over.

        What nobody else waits for is over after a short while, unless the same request comes back; so are
        questions that the step `kept` and did not come to.
        """
        until = self._clock.now_ms() + int(1000 * self._waits().back)

        def decide(state: State) -> Sequence[Event]:
            return open_questions.dropped(state.approvals, step, kept, until)

        if (await self._folds.decide(key, "gate", decide)).events:
            self._away[key] = min(until, self._away.get(key, until))
            self._went.set()

    async def keep(self, key: SessionKey, step: StepId, ids: Collection[str]) -> None:
        """Keep questions open while a step is under way whose request is the one that they came of."""
        now = self._clock.now_ms()

        def decide(state: State) -> Sequence[Event]:
            until = now + int(1000 * self._waits().longest)
            return open_questions.kept(state.approvals, step, ids, now, until)

        await _to_its_end(self._folds.decide(key, "gate", decide))

    async def run(self) -> None:
        """Close what nobody came back for when its time is over: people's dialogs are then withdrawn.

        If this process is gone by then, nobody closes it, but it cannot be answered any more either.
        """

        def not_back(state: State) -> Sequence[Event]:
            return open_questions.over(state.approvals, self._clock.now_ms())

        while True:
            self._went.clear()
            due = min(self._away.values(), default=None)
            left = None if due is None else max(0.0, (due - self._clock.now_ms()) / 1000)
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._went.wait()
            now = self._clock.now_ms()
            for key in [key for key, until in self._away.items() if until <= now]:
                del self._away[key]
                with suppress(ModegateError):
                    decided = await self._folds.decide(key, "gate", not_back)
                    later = open_questions.next_over(decided.before.approvals, now)
                    if later is not None:
                        self._away[key] = later

    async def moved_on(self, key: SessionKey, ids: Collection[str]) -> None:
        """Close those of some questions that nobody waits for: the agent's user has said something else."""

        def decide(state: State) -> Sequence[Event]:
            return waiting.abandoned(state.approvals, ids, self._clock.now_ms(), self._waits())

        await self._folds.decide(key, "gate", decide)


async def _to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Do work that is not cancelled half-way, but only when it is done."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise

"""Questions to people, as people see them: which are open, what becomes of them, who is shown them.

A question lives in its session's log and nowhere else. It can be answered at any replica, and the first
answer in the log wins. The core decides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from modegate.core.errors import NotOpen, SessionUnreadable
from modegate.core.ids import ModeId, SessionKey, Tenant
from modegate.core.log import approvals as core
from modegate.core.log import open_questions
from modegate.core.log.approval_events import ClientLeft
from modegate.core.log.approvals import Approval
from modegate.core.log.events import Event
from modegate.core.log.fold import State
from modegate.server.clock import Clock
from modegate.server.log.folds import Folds
from modegate.server.log.protocol import EventLog


@dataclass(frozen=True, slots=True)
class Pending:
    """A question and the session that it stands in."""

    key: SessionKey
    approval: Approval


class Questions:
    """All questions of all sessions; it holds no state of its own."""

    def __init__(self, folds: Folds, log: EventLog, clock: Clock) -> None:
        self._folds = folds
        self._log = log
        self._clock = clock

    async def find(self, tenant: Tenant, approval_id: str) -> SessionKey | None:
        """Return the session of a question, from the index; None if the tenant never asked it."""
        return await self._log.asked_in(tenant, approval_id)

    async def sessions(self, tenant: Tenant) -> list[SessionKey]:
        """Return the sessions whose questions are not yet expired, settled or not."""
        rows = await self._log.questions(tenant, self._clock.now_ms())
        return list(dict.fromkeys(row.key for row in rows))

    async def look(self, key: SessionKey, approval_id: str) -> Approval:
        """Return a question as the log has it now.

        Raises:
            NotOpen: there is no such question, or it was settled long ago.
        """
        found = (await self._readable(key)).approvals.get(approval_id)
        if found is None:
            raise NotOpen(f"there is no approval {approval_id[:80]!r} in this session")
        return found

    async def of(self, key: SessionKey) -> list[Pending]:
        """Return what is open in one session, the oldest first; nothing of one that cannot be read."""
        try:
            state = await self._readable(key)
        except SessionUnreadable:
            return []
        now = self._clock.now_ms()
        return [
            Pending(key, one)
            for one in sorted(state.approvals.values(), key=lambda one: one.asked_at)
            if one.open and now < one.ends
        ]

    async def open_ones(self, tenant: Tenant) -> list[Pending]:
        """Return all that a tenant's people can still answer, the oldest first.

        The index gives the sessions that asked in the last day (the 1,000 latest questions), the fold says
        what is open in them; sessions in memory cost a few microseconds each.
        """
        found = [one for key in await self.sessions(tenant) for one in await self.of(key)]
        return sorted(found, key=lambda one: one.approval.asked_at)

    async def settled_ones(self, tenant: Tenant) -> list[Pending]:
        """Return what was settled of a tenant's questions of the last day, as far as it is remembered."""
        found: list[Pending] = []
        for key in await self.sessions(tenant):
            with suppress(SessionUnreadable):
                state = await self._readable(key)
                found += [Pending(key, one) for one in state.approvals.values() if not one.open]
        return sorted(found, key=lambda one: one.approval.asked_at)

    async def _readable(self, key: SessionKey) -> State:
        state = await self._folds.state(key)
        if state.unreadable:
            raise SessionUnreadable(state.unreadable)
        return state

    async def answer(
        self,
        key: SessionKey,
        approval_id: str,
        option: str,
        *,
        comment: str = "",
        by: str,
        modes: Collection[ModeId],
    ) -> Approval:
        """Append a person's answer and the mode that it sets; `by` is `person:` and the way it came.

        Raises:
            NotOpen: there is no such question, or it is settled; says how.
            BadOption, UnknownMode: the option was not offered, or leads to a mode that is gone.
            LogUnavailable: it may be in the log nevertheless; the next try shows that.
        """

        def decide(state: State) -> Sequence[Event]:
            now = self._clock.now_ms()
            return open_questions.answer(
                state.approvals, approval_id, option, comment=comment, now_ms=now, modes=modes
            )

        try:
            decided = await self._folds.decide(key, by, decide)
        except NotOpen:
            # An earlier try may have landed without being told to the feed.
            await self._folds.append(key, ())
            raise
        return core.step(decided.before.approvals[approval_id], decided.events[0], by)

    async def delivered(
        self, key: SessionKey, approval_id: str, via: str, client: str = ""
    ) -> Approval:
        """Note, once, that a client shows the question to its person: its step then waits for them.

        Raises:
            NotOpen: there is no such question.
        """

        def decide(state: State) -> Sequence[Event]:
            return open_questions.delivered(state.approvals, approval_id, via, client)

        decided = await self._folds.decide(key, "gate", decide)
        return decided.after.approvals[approval_id]

    async def left(
        self,
        key: SessionKey,
        approval_id: str,
        client: str,
        *,
        by: str = "gate",
        reject: Callable[[], bool] = lambda: False,
    ) -> None:
        """Note that a client shows the question no longer; `reject` tells if its person (`by`) dismissed it.

        It is asked for each state that the events may follow: of two who dismiss a question at once, each
        would else leave it to the other. Nothing happens if the question is over, or nobody waits for its
        answer.
        """

        def decide(state: State) -> Sequence[Event]:
            return open_questions.left(state.approvals, approval_id, client, reject=reject())

        def author(event: Event) -> str:
            return "gate" if isinstance(event, ClientLeft) and event.why == "gone" else by

        await self._folds.decide(key, author, decide)

    async def all_left(self, tenant: Tenant, client: str) -> None:
        """Note that a client shows none of a tenant's questions any longer."""
        for one in await self.open_ones(tenant):
            if client in one.approval.shown:
                await self.left(one.key, one.approval.asked.id, client)

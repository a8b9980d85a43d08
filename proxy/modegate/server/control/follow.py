"""A tenant's questions as they come and are settled: what `watch` and other pages live on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import suppress
from dataclasses import replace

from modegate.core.errors import NotOpen, SessionUnreadable
from modegate.core.ids import SessionKey, Tenant
from modegate.core.log.approvals import Approval, Status
from modegate.server.clock import Clock
from modegate.server.log.feed import Changed, FeedFollower
from modegate.server.log.protocol import EventLog
from modegate.server.proxy.questions import Pending, Questions


class QuestionFollower:
    """One look at a tenant's questions that goes on."""

    def __init__(self, approvals: Questions, log: EventLog, clock: Clock, tenant: Tenant) -> None:
        self._approvals = approvals
        self._log = log
        self._clock = clock
        self._tenant = tenant
        self._shown: dict[SessionKey, dict[str, Approval]] = {}

    async def follow(self) -> AsyncGenerator[list[Pending], None]:
        """Yield all that is open, then what changes; an empty list after 1 s in which nothing did.

        A question that is given is new, or has changed; when it is no longer open it is given once more.
        """
        async for changed in FeedFollower(self._log):
            yield await self._news(await self._to_look_at(changed))

    async def _to_look_at(self, changed: Changed) -> dict[SessionKey, None]:
        now = self._clock.now_ms()
        some = changed.every or changed.keys
        asking = await self._approvals.sessions(self._tenant) if some else []
        keys = [key for key in (*asking, *self._shown) if key in changed]
        expired = (
            key
            for key, ones in self._shown.items()
            if any(now >= one.ends for one in ones.values())
        )
        return dict.fromkeys((*keys, *expired))

    async def _news(self, keys: Iterable[SessionKey]) -> list[Pending]:
        news: list[Pending] = []
        for key in keys:
            now_open = {
                one.approval.asked.id: one.approval for one in await self._approvals.of(key)
            }
            before = self._shown.pop(key, {})
            if now_open:
                self._shown[key] = now_open
            for name, one in before.items():
                if name not in now_open:
                    news.append(Pending(key, await self._end(key, one)))
            news += [Pending(key, one) for name, one in now_open.items() if before.get(name) != one]
        return news

    async def _end(self, key: SessionKey, last: Approval) -> Approval:
        """Return a question as it ended."""
        with suppress(NotOpen, SessionUnreadable):
            found = await self._approvals.look(key, last.asked.id)
            if not found.open:
                return found
        gone = "abandoned" if last.until else "expired"
        why = gone if self._clock.now_ms() >= last.ends else "unreadable"
        return replace(last, status=Status.CLOSED, why=why)

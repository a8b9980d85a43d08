"""The feed on its way to followers: gaps, a log that is gone, failures, and when nobody is there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from modegate.core.errors import LogUnavailable, SessionUnreadable
from modegate.core.ids import LOCAL, ModeId, Seq, SessionId, SessionKey
from modegate.core.log.fold import State
from modegate.core.policy.model import Policy
from modegate.server.extension import Services
from modegate.server.log.protocol import Change, Changes
from modegate_acp.following.catch_up import Snapshot
from modegate_acp.following.session_feed import SessionFeed
from support.waiting import PATIENCE

A, B = SessionKey(LOCAL, SessionId("a")), SessionKey(LOCAL, SessionId("b"))


@dataclass
class Log:
    """A feed that a test writes."""

    feed: asyncio.Queue[Changes | Exception] = field(default_factory=asyncio.Queue)
    asked: list[str | None] = field(default_factory=list)

    async def changes(self, position: str | None, *, wait: float = 0.0) -> Changes:
        self.asked.append(position)
        if position is None:
            return Changes("0", ())
        found = await self.feed.get()
        if isinstance(found, Exception):
            raise found
        return found

    def changed(self, *keys: SessionKey, gap: bool = False) -> None:
        self.feed.put_nowait(Changes("1", tuple(Change(key, Seq(1)) for key in keys), gap))


@dataclass
class Folds:
    """States, or the error that reading one gives."""

    states: dict[SessionKey, State | Exception] = field(default_factory=dict)
    reads: list[SessionKey] = field(default_factory=list)

    async def state(self, key: SessionKey) -> State:
        self.reads.append(key)
        found = self.states.get(key, State(Seq(1), ModeId("plan"), Seq(1)))
        if isinstance(found, Exception):
            raise found
        return found


class Follower:
    """One that keeps what it is offered."""

    def __init__(self, expired: bool = False) -> None:
        self.offered: asyncio.Queue[Snapshot] = asyncio.Queue()
        self.has_expired = expired

    def offer(self, snapshot: Snapshot) -> None:
        self.offered.put_nowait(snapshot)

    def expired(self, now_ms: int) -> list[SessionId]:
        return [SessionId("a")] if self.has_expired else []

    def may_answer(self, session: SessionId, name: str) -> bool:
        return False

    async def next(self) -> SessionId:
        return (await self.offered.get()).session


@dataclass
class Outside:
    """All that a feed is given, and the feed."""

    log: Log = field(default_factory=Log)
    folds: Folds = field(default_factory=Folds)
    policies: Any = None
    clock: Any = None

    def now_ms(self) -> int:
        return 0

    @property
    def current(self) -> Policy:
        return Policy("p", {})

    @asynccontextmanager
    async def running(self) -> AsyncIterator[SessionFeed]:
        self.policies = self.clock = self
        feed = SessionFeed(cast(Services, self), lambda: None)
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            running = group.create_task(feed.run())
            await asyncio.sleep(0)
            yield feed
            feed.stop()
            await running


def follow(feed: SessionFeed, key: SessionKey, *, expired: bool = False) -> Follower:
    follower = Follower(expired)
    feed.attach(key, follower)
    return follower


async def test_followers_hear_of_their_session_only() -> None:
    outside = Outside()
    async with outside.running() as feed:
        one, two = follow(feed, A), follow(feed, B)
        # What may have happened before they came is read once.
        assert (await one.next(), await two.next()) == ("a", "b")
        outside.folds.reads.clear()
        outside.log.changed(B, SessionKey(LOCAL, SessionId("nobody's")))
        assert await two.next() == "b"
        assert one.offered.empty()
        assert outside.folds.reads == [B]


async def test_one_read_serves_all_followers() -> None:
    outside = Outside()
    async with outside.running() as feed:
        one, two = follow(feed, A), follow(feed, A)
        first, second = await one.offered.get(), await two.offered.get()
        assert first is second
        assert outside.folds.reads == [A]


async def test_a_gap_shows_everything_anew() -> None:
    outside = Outside()
    async with outside.running() as feed:
        one, two = follow(feed, A), follow(feed, B)
        await asyncio.gather(one.next(), two.next())
        outside.log.changed(gap=True)
        assert (await one.next(), await two.next()) == ("a", "b")


async def test_a_log_that_is_gone_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modegate.server.log.feed.AGAIN_S", 0.0)
    outside = Outside()
    async with outside.running() as feed:
        one = follow(feed, A)
        await one.next()
        outside.log.feed.put_nowait(LogUnavailable("gone"))
        outside.folds.states[A] = LogUnavailable("gone")
        outside.log.changed(A)
        outside.log.feed.put_nowait(LogUnavailable("still gone"))
        while len(outside.folds.reads) < 2:  # noqa: ASYNC110 -- the feed runs meanwhile
            await asyncio.sleep(0)
        outside.folds.states[A] = State(Seq(2))
        outside.log.changed()
        # Of what could not be read then, nothing is forgotten.
        assert (await one.offered.get()).state.seq == 2


async def test_a_session_that_cannot_be_read_keeps_nobody_else_waiting() -> None:
    outside = Outside()
    outside.folds.states[A] = SessionUnreadable("new event")
    async with outside.running() as feed:
        one, two = follow(feed, A), follow(feed, B)
        assert await two.next() == "b"
        assert one.offered.empty()


async def test_a_question_that_expires_is_looked_at() -> None:
    outside = Outside()
    async with outside.running() as feed:
        one = follow(feed, A, expired=True)
        await one.next()
        outside.log.changed()
        assert await one.next() == "a"


async def test_a_new_policy_shows_everything_anew() -> None:
    outside = Outside()
    async with outside.running() as feed:
        one = follow(feed, A)
        await one.next()
        feed.refresh_all()
        outside.log.changed()
        assert await one.next() == "a"


async def test_the_log_is_left_alone_while_nobody_is_there() -> None:
    outside = Outside()
    async with outside.running() as feed:
        for _ in range(10):
            await asyncio.sleep(0)
        assert outside.log.asked == []
        one = follow(feed, A)
        await one.next()
        feed.detach(A, one)
        feed.detach(A, one)
        outside.log.changed(A)
        for _ in range(10):
            await asyncio.sleep(0)
        assert one.offered.empty()
        asked = len(outside.log.asked)
        again = follow(feed, A)
        await again.next()
        # The position is taken anew, since what happened in between was not followed.
        assert outside.log.asked[asked:][0] is None


async def test_what_fails_beside_is_logged_and_ends_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail() -> None:
        raise KeyError("bug")

    outside = Outside()
    async with outside.running() as feed:
        await feed.spawn(fail())
        one = follow(feed, A)
        await one.next()
    assert "a task of /acp failed" in caplog.text


async def test_nothing_is_begun_after_the_end() -> None:
    async def work() -> None:
        return

    outside = Outside()
    async with outside.running() as feed:
        pass
    with pytest.raises(RuntimeError):
        _ = feed.spawn(work())

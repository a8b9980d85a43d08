"""Following a tenant's questions, on both stores: each change once, and nothing is missed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from modegate.core.ids import LOCAL, ModeId, SessionKey, Tenant
from modegate.core.log.approval_events import (
    ApprovalAnswered,
    ApprovalClosed,
    ApprovalDelivered,
    ApprovalDetached,
    ApprovalDropped,
)
from modegate.core.log.approvals import Status
from modegate.core.log.events import ModeSet
from modegate.core.log.records import NAMES
from modegate.server.clock import SystemClock
from modegate.server.control.follow import QuestionFollower
from modegate.server.log.folds import Folds
from modegate.server.log.protocol import Changes, EventLog
from modegate.server.proxy.approvals import Approvals
from modegate.server.proxy.questions import Pending
from support.approver import plan
from support.stores import Store, entry, key_of, mode_set

S, T = key_of("s"), key_of("t")


class Time(SystemClock):
    """A clock that the test sets."""

    now = 1_000

    def now_ms(self) -> int:
        return self.now


@pytest.fixture
def log(store: Store) -> EventLog:
    return store.open()


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modegate.server.log.feed.FOLLOW_S", 0.01)


@pytest.fixture
def follower(store: Store, clock: Time) -> QuestionFollower:
    """Follow at another replica than the one that appends."""
    other = store.open()
    return QuestionFollower(Approvals(Folds(other, clock), other, clock), other, clock, LOCAL)


@asynccontextmanager
async def following(
    follower: QuestionFollower,
) -> AsyncIterator[AsyncGenerator[list[Pending], None]]:
    async with aclosing(follower.follow()) as changes:
        yield changes


async def news(changes: AsyncGenerator[list[Pending], None]) -> list[tuple[str, str, str]]:
    """Return the next changes, as id, status and why."""
    async for found in changes:
        if found:
            return [(p.approval.asked.id, p.approval.status, p.approval.why) for p in found]
    raise AssertionError("the follower ended")


async def test_begins_with_what_is_open(log: EventLog, follower: QuestionFollower) -> None:
    await log.append(S, [mode_set("plan"), entry(plan("a")), entry(plan("b"))])
    await log.append(S, [entry(ApprovalClosed("a", "superseded"))])
    await log.append(T, [entry(plan("c"))])
    async with following(follower) as changes:
        found = await anext(changes)
        assert {(p.key, p.approval.asked.id) for p in found} == {(S, "b"), (T, "c")}
        assert await anext(changes) == []


@pytest.mark.parametrize(
    ("event", "status", "why"),
    [
        (ApprovalDelivered("a", "cli"), Status.DELIVERED, ""),
        (ApprovalDetached("a", "timeout"), Status.DETACHED, "timeout"),
        (ApprovalAnswered("a", "reject"), Status.ANSWERED, ""),
        (ApprovalClosed("a", "abandoned"), Status.CLOSED, "abandoned"),
        (ModeSet(ModeId("review")), Status.CLOSED, "superseded"),
    ],
)
async def test_each_change_is_told_once(
    log: EventLog, follower: QuestionFollower, event: Any, status: Status, why: str
) -> None:
    await log.append(S, [mode_set("plan"), entry(plan("a"))])
    async with following(follower) as changes:
        assert await news(changes) == [("a", Status.ASKED, "")]
        await log.append(T, [mode_set("plan")])
        await log.append(S, [entry(event)])
        assert await news(changes) == [("a", status, why)]
        await log.append(S, [entry(plan("b", text="v2"))])
        assert await news(changes) == [("b", Status.ASKED, "")]


async def test_an_expiry_is_told_without_an_event(
    log: EventLog, follower: QuestionFollower, clock: Time
) -> None:
    await log.append(S, [mode_set("plan"), entry(plan("a", expires=2_000))])
    async with following(follower) as changes:
        assert await news(changes) == [("a", Status.ASKED, "")]
        clock.now = 2_000
        assert await news(changes) == [("a", Status.CLOSED, "expired")]
        assert await anext(changes) == []


async def test_r1_that_nobody_came_back_for_it_is_told_without_an_event(
    log: EventLog, follower: QuestionFollower, clock: Time
) -> None:
    """The process that the client left is gone too, so that nobody closes it."""
    await log.append(S, [mode_set("plan"), entry(plan("a"))])
    async with following(follower) as changes:
        assert await news(changes) == [("a", Status.ASKED, "")]
        await log.append(S, [entry(ApprovalDropped("a", plan("a").step, 2_000))])
        assert await news(changes) == [("a", Status.ASKED, "")]
        clock.now = 2_000
        assert await news(changes) == [("a", Status.CLOSED, "abandoned")]


async def test_an_unreadable_session_has_nothing_open_any_more(
    monkeypatch: pytest.MonkeyPatch, log: EventLog, follower: QuestionFollower
) -> None:
    await log.append(S, [mode_set("plan"), entry(plan("a"))])
    async with following(follower) as changes:
        assert await news(changes) == [("a", Status.ASKED, "")]
        with monkeypatch.context() as patch:
            patch.setitem(NAMES, ModeSet, "mode/later")
            await log.append(S, [mode_set("x")])
        assert await news(changes) == [("a", Status.CLOSED, "unreadable")]


async def test_after_a_gap_everything_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, store: Store, log: EventLog, clock: Time
) -> None:
    other = store.open()
    follower = QuestionFollower(Approvals(Folds(log, clock), log, clock), other, clock, LOCAL)
    await log.append(S, [mode_set("plan"), entry(plan("a"))])
    changes_of = other.changes

    async def gap(position: str | None, *, wait: float = 0.0) -> Changes:
        found = await changes_of(position, wait=0.0)
        return Changes(found.position, (), gap=True)

    async with following(follower) as changes:
        assert await news(changes) == [("a", Status.ASKED, "")]
        monkeypatch.setattr(other, "changes", gap)
        await log.append(S, [entry(ApprovalAnswered("a", "reject"))])
        await log.append(T, [entry(plan("b"))])
        assert set(await news(changes)) == {("b", Status.ASKED, ""), ("a", Status.ANSWERED, "")}


async def test_another_tenant_is_another_matter(log: EventLog, follower: QuestionFollower) -> None:
    foreign = SessionKey(Tenant("other"), S.session)
    async with following(follower) as changes:
        assert await anext(changes) == []
        await log.append(foreign, [entry(plan("a"))])
        await log.append(S, [entry(plan("b"))])
        assert await news(changes) == [("b", Status.ASKED, "")]

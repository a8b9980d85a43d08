"""Following the feed: what it says first, after a gap, and after a log that did not answer."""

from __future__ import annotations

import logging

import pytest

from modegate.core.errors import LogUnavailable
from modegate.core.ids import Seq
from modegate.server.log.feed import Changed, FeedFollower
from modegate.server.log.protocol import Change, Changes, EventLog
from support.stores import Store, key_of, mode_set

S, T = key_of("s"), key_of("t")


async def test_first_every_session_may_have_changed_then_those_that_did(store: Store) -> None:
    log = store.open()
    follower = FeedFollower(log)
    first = await anext(follower)
    assert first.every
    assert S in first
    await store.open().append(S, [mode_set("plan")])
    second = await anext(follower)
    assert second == Changed(frozenset({S}), every=False)
    assert T not in second


async def test_who_begins_again_may_have_missed_something(store: Store) -> None:
    log = store.open()
    follower = FeedFollower(log)
    await anext(follower)
    follower.restart()
    assert (await anext(follower)).every


async def test_without_a_change_it_says_so_after_a_while(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modegate.server.log.feed.FOLLOW_S", 0.01)
    follower = FeedFollower(store.open())
    await anext(follower)
    assert await anext(follower) == Changed(frozenset(), every=False)


async def test_a_gap_is_every_session(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    follower = FeedFollower(log)
    await anext(follower)

    async def gap(position: str | None, *, wait: float = 0.0) -> Changes:
        return Changes("1", (Change(S, Seq(1)),), gap=True)

    monkeypatch.setattr(log, "changes", gap)
    assert T in await anext(follower)


async def test_a_log_that_fails_is_followed_from_where_it_was_and_told_of_once(
    log: EventLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("modegate.server.log.feed.AGAIN_S", 0.0)
    follower = FeedFollower(log)
    await anext(follower)
    await log.append(S, [mode_set("plan")])

    async def gone(*_: object, **__: object) -> Changes:
        raise LogUnavailable("gone")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(log, "changes", gone)
        for _ in range(3):
            with pytest.raises(LogUnavailable) as raised:
                await anext(follower)
            await follower.pause(raised.value, "nobody is told")
    assert [record.message for record in caplog.records] == ["nobody is told: gone"]
    assert await anext(follower) == Changed(frozenset({S}), every=False)


@pytest.fixture
def log(store: Store) -> EventLog:
    return store.open()

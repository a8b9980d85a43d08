"""Messages on their way out: their order, news that are rendered late, other readers, and the limit."""

from __future__ import annotations

import asyncio

from modegate.core.ids import SessionId
from modegate_acp.following.catch_up import Out
from modegate_acp.following.send_queue import MAX_WAITING, Outbox

S, T = SessionId("s"), SessionId("t")
READER = object()


class Box:
    """An outbox whose news are one message each."""

    def __init__(self, *, split: bool) -> None:
        self.refreshed: list[SessionId] = []
        self.outbox = Outbox(self.refresh, split=split)
        self.outbox.main.reader = READER

    def refresh(self, session: SessionId) -> None:
        self.refreshed.append(session)
        self.put(session, "news")

    def put(self, session: SessionId | None, name: str) -> None:
        self.outbox.put(session, Out({"name": name}))

    async def take(self) -> str | None:
        taken = await self.outbox.take(self.outbox.main, READER)
        return taken and str(taken[1].message["name"])


async def test_what_waits_goes_in_order_and_news_behind_it() -> None:
    box = Box(split=False)
    box.outbox.mark(S)
    box.outbox.mark(S)
    box.put(S, "a")
    box.put(None, "b")
    assert [await box.take() for _ in range(2)] == ["a", "b"]
    assert box.refreshed == []
    assert await box.take() == "news"
    assert box.refreshed == [S]


async def test_a_reader_waits_for_what_comes() -> None:
    box = Box(split=False)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(box.take())
        await asyncio.sleep(0)
        box.put(None, "a")
        assert await waiting == "a"
        waiting = group.create_task(box.take())
        await asyncio.sleep(0)
        box.outbox.mark(S)
        assert await waiting == "news"
        waiting = group.create_task(box.take())
        await asyncio.sleep(0)
        box.outbox.close()
        assert await waiting is None


async def test_another_reader_takes_over() -> None:
    box = Box(split=False)
    assert box.outbox.hold(box.outbox.main, READER) is False
    other = object()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(box.take())
        await asyncio.sleep(0)
        assert box.outbox.hold(box.outbox.main, other) is True
        assert await waiting is None
        box.put(None, "a")
        assert await box.take() is None
        taken = await box.outbox.take(box.outbox.main, other)
        assert taken is not None


async def test_a_session_has_a_lane_of_its_own_once_it_is_opened() -> None:
    box = Box(split=True)
    box.put(S, "before")
    lane = box.outbox.open(S)
    assert box.outbox.open(S) is lane
    box.put(S, "own")
    box.put(T, "common")
    assert [await box.take() for _ in range(2)] == ["before", "common"]
    assert [out.message for _, out in lane.queue] == [{"name": "own"}]


async def test_what_waits_in_a_lane_that_is_given_up_goes_the_common_way() -> None:
    box = Box(split=True)
    lane = box.outbox.open(S)
    box.put(S, "a")
    box.outbox.mark(S)
    lane.reader = object()
    box.outbox.release(S)
    assert box.outbox.lane(S) is lane
    lane.reader = None
    box.outbox.release(S)
    box.outbox.release(S)
    assert [await box.take() for _ in range(2)] == ["a", "news"]


async def test_too_many_that_wait_close_it() -> None:
    box = Box(split=True)
    box.outbox.open(S)
    for number in range(MAX_WAITING):
        box.put(S if number % 2 else None, "x")
    assert not box.outbox.closed
    box.put(None, "one too many")
    assert box.outbox.closed
    assert box.outbox.overflowed
    box.put(None, "after the end")
    assert await box.take() is None


async def test_what_was_taken_waits_no_more() -> None:
    box = Box(split=False)
    for _ in range(3 * MAX_WAITING):
        box.put(None, "x")
        await box.take()
    assert not box.outbox.closed

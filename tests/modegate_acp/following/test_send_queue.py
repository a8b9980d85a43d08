"""Messages on their way out: their order, news that are rendered late, other readers, and the limit."""

from __future__ import annotations

import asyncio

from modegate.core.ids import SessionId
from modegate_acp.following.catch_up import Outgoing
from modegate_acp.following.send_queue import MAX_WAITING, SendQueue

S, T = SessionId("s"), SessionId("t")
READER = object()


class Box:
    """A queue whose news are one message each."""

    def __init__(self, *, split: bool) -> None:
        self.refreshed: list[SessionId] = []
        self.queue = SendQueue(self.refresh, split=split)
        self.queue.main.reader = READER

    def refresh(self, session: SessionId) -> None:
        self.refreshed.append(session)
        self.put(session, "news")

    def put(self, session: SessionId | None, name: str) -> None:
        self.queue.put(session, Outgoing({"name": name}))

    async def take(self) -> str | None:
        taken = await self.queue.take(self.queue.main, READER)
        return taken and str(taken[1].message["name"])


async def test_what_waits_goes_in_order_and_news_behind_it() -> None:
    box = Box(split=False)
    box.queue.mark(S)
    box.queue.mark(S)
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
        box.queue.mark(S)
        assert await waiting == "news"
        waiting = group.create_task(box.take())
        await asyncio.sleep(0)
        box.queue.close()
        assert await waiting is None


async def test_another_reader_takes_over() -> None:
    box = Box(split=False)
    assert box.queue.hold(box.queue.main, READER) is False
    other = object()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(box.take())
        await asyncio.sleep(0)
        assert box.queue.hold(box.queue.main, other) is True
        assert await waiting is None
        box.put(None, "a")
        assert await box.take() is None
        taken = await box.queue.take(box.queue.main, other)
        assert taken is not None


async def test_a_session_has_a_stream_of_its_own_once_it_is_opened() -> None:
    box = Box(split=True)
    box.put(S, "before")
    stream = box.queue.open(S)
    assert box.queue.open(S) is stream
    box.put(S, "own")
    box.put(T, "common")
    assert [await box.take() for _ in range(2)] == ["before", "common"]
    assert [out.message for _, out in stream.queue] == [{"name": "own"}]


async def test_what_waits_in_a_stream_that_is_given_up_goes_the_common_way() -> None:
    box = Box(split=True)
    stream = box.queue.open(S)
    box.put(S, "a")
    box.queue.mark(S)
    stream.reader = object()
    box.queue.release(S)
    assert box.queue.stream(S) is stream
    stream.reader = None
    box.queue.release(S)
    box.queue.release(S)
    assert [await box.take() for _ in range(2)] == ["a", "news"]


async def test_too_many_that_wait_close_it() -> None:
    box = Box(split=True)
    box.queue.open(S)
    for number in range(MAX_WAITING):
        box.put(S if number % 2 else None, "x")
    assert not box.queue.closed
    box.put(None, "one too many")
    assert box.queue.closed
    assert box.queue.overflowed
    box.put(None, "after the end")
    assert await box.take() is None


async def test_what_was_taken_waits_no_more() -> None:
    box = Box(split=False)
    for _ in range(3 * MAX_WAITING):
        box.put(None, "x")
        await box.take()
    assert not box.queue.closed

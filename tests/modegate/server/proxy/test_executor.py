"""What is much to read is read in a thread; one who waits for it lets all others go on (H23)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from modegate.server.proxy.executor import HUGE, LARGE, Executor
from support.waiting import PATIENCE


@pytest.fixture
async def executor() -> AsyncIterator[Executor]:
    made = Executor()
    yield made
    made.close()


class Reader:
    """Reads until it is told to end."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.may_end = threading.Event()
        self.ended = False

    def __call__(self) -> str:
        self.began.set()
        assert self.may_end.wait(PATIENCE)
        self.ended = True
        return threading.current_thread().name


async def until(event: threading.Event) -> None:
    """Let the loop run until a thread has got there."""
    async with asyncio.timeout(PATIENCE):
        while not event.is_set():  # noqa: ASYNC110 -- it is a thread that sets it
            await asyncio.sleep(0)


async def test_what_is_little_is_read_at_once(executor: Executor) -> None:
    assert await executor(LARGE - 1, threading.get_ident) == threading.get_ident()


async def test_h23_the_loop_goes_on_while_much_is_read(executor: Executor) -> None:
    reader = Reader()
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        reading = group.create_task(executor(LARGE, reader))
        await until(reader.began)
        reader.may_end.set()
        assert (await reading).startswith("modegate-large")


async def test_h23_what_is_huge_is_in_nobodys_way(executor: Executor) -> None:
    """It waits in a line of its own."""
    reader = Reader()
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        reading = group.create_task(executor(HUGE, reader))
        await until(reader.began)
        assert await executor(LARGE, len, "four") == 4
        reader.may_end.set()
        assert (await reading).startswith("modegate-huge")


async def test_h23_one_who_is_cancelled_waits_for_what_is_read(executor: Executor) -> None:
    reader = Reader()
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        reading = group.create_task(executor(LARGE, reader))
        await until(reader.began)
        reading.cancel()
        await asyncio.sleep(0)
        assert not reading.done()
        reader.may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert reader.ended


async def test_h23_one_who_is_cancelled_in_the_line_leaves_it(executor: Executor) -> None:
    first, second = Reader(), Reader()
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        reading = group.create_task(executor(LARGE, first))
        await until(first.began)
        waiting = group.create_task(executor(LARGE, second))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        first.may_end.set()
        await reading
        assert await executor(LARGE, len, "") == 0
        assert not second.began.is_set()


async def test_what_is_raised_comes_out(executor: Executor) -> None:
    for size in (0, LARGE):
        with pytest.raises(ValueError, match="invalid literal"):
            await executor(size, int, "x")

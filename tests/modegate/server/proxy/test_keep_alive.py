"""What goes to a client that waits, when, and in which order with what the step sends itself."""

from __future__ import annotations

import asyncio

from starlette.types import Message

from modegate.server.clock import SystemClock
from modegate.server.proxy.sending import KeepAlive
from support.waiting import PATIENCE


class Client:
    """Takes what is sent, and can be slow."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.more = asyncio.Event()
        self.takes = asyncio.Event()
        self.takes.set()

    async def __call__(self, message: Message) -> None:
        await self.takes.wait()
        self.got.append(message["body"])
        self.more.set()

    async def next(self) -> bytes:
        """Wait for something more."""
        self.more.clear()
        async with asyncio.timeout(PATIENCE):
            await self.more.wait()
        return self.got[-1]


def piece(body: bytes) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": True}


def alive(client: Client, give: bytes = b"alive", after: float = 0.001) -> KeepAlive:
    return KeepAlive(client, SystemClock(), lambda: give, after)


async def turns() -> None:
    """Let whatever is due be done."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_while_the_step_waits_something_goes_again_and_again() -> None:
    client = Client()
    one = alive(client)
    one.begin()
    one.begin()
    with one.waiting():
        assert [await client.next(), await client.next()] == [b"alive", b"alive"]
    one.end()


async def test_nothing_goes_before_it_began_nor_while_the_step_is_busy_nor_at_its_end() -> None:
    client = Client()
    one = alive(client, after=0.0)
    with one.waiting():
        await turns()
    one.begin()
    await turns()
    one.end()
    with one.waiting():
        await turns()
    assert client.got == []


async def test_what_cannot_be_said_is_asked_for_again_later() -> None:
    client = Client()
    asked: list[int] = []
    again = asyncio.Event()

    def give() -> bytes:
        asked.append(1)
        if len(asked) == 3:
            again.set()
        return b""

    one = KeepAlive(client, SystemClock(), give, 0.001)
    one.begin()
    with one.waiting():
        async with asyncio.timeout(PATIENCE):
            await again.wait()
    one.end()
    assert client.got == []


async def test_the_order_is_that_in_which_it_was_made() -> None:
    """A client that takes nothing for a while gets what was made first first."""
    client = Client()
    made = asyncio.Event()

    def give() -> bytes:
        made.set()
        return b"1"

    one = KeepAlive(client, SystemClock(), give, 0.001)
    client.takes.clear()
    one.begin()
    with one.waiting():
        async with asyncio.timeout(PATIENCE):
            await made.wait()
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        group.create_task(one(piece(b"2")))
        await asyncio.sleep(0)
        client.takes.set()
    one.end()
    assert client.got == [b"1", b"2"]

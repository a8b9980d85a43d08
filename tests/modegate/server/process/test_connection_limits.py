"""How many connections there are, and who goes where there are too many (H24)."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from modegate.server.process.connection_limits import (
    BODY_S,
    FOR_PEOPLE,
    FULL,
    HEAD_S,
    MOST,
    OWN_FILES,
    SILENT_S,
    ConnectionLimits,
    room_for_agents,
)
from support.served import echo, served
from support.waiting import PATIENCE


@dataclass(eq=False)
class Connection:
    """A connection as the limits sees it."""

    limits: ConnectionLimits
    is_idle: bool = True
    out: bool = False
    late: bool = False

    def evict(self) -> None:
        self.out = True

    def is_overdue(self, now: float) -> bool:
        return self.late and now > 0

    def time_out(self) -> None:
        self.out = True
        self.limits.forget(self)


def entered(limits: ConnectionLimits, count: int) -> list[Connection]:
    connections = [Connection(limits) for _ in range(count)]
    assert all(limits.admit(one) for one in connections)
    return connections


def test_h24_the_one_that_was_idle_longest_makes_room() -> None:
    limits = ConnectionLimits(2)
    first, second, *_ = entered(limits, 2 + FOR_PEOPLE)
    first.is_idle = False
    assert limits.admit(Connection(limits))
    assert (first.out, second.out) == (False, True)


def test_h24_one_that_was_just_answered_is_not_the_longest_idle() -> None:
    limits = ConnectionLimits(1)
    first, second, *_ = entered(limits, 1 + FOR_PEOPLE)
    assert limits.serve_agent(first)
    limits.served(first)
    assert limits.admit(Connection(limits))
    assert (first.out, second.out) == (False, True)


def test_h24_agents_have_so_many_and_people_some_more() -> None:
    limits = ConnectionLimits(2)
    first, second, third, *more = entered(limits, 2 + FOR_PEOPLE)
    assert [limits.serve_agent(one) for one in (first, second, third, first)] == [1, 1, 0, 1]
    limits.forget(first)
    assert limits.serve_agent(third)
    for one in (second, third, *more):
        one.is_idle = False
    assert limits.admit(Connection(limits, is_idle=False))
    assert not limits.admit(Connection(limits))


def test_h24_who_is_overdue_goes() -> None:
    limits = ConnectionLimits(2)
    connections = entered(limits, 3)
    connections[1].late = True
    limits.sweep(1.0)
    assert [one.out for one in connections] == [False, True, False]


@pytest.fixture
def files() -> Iterator[None]:
    """Set the limit of open files back at the end."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("files")
def test_h24_there_is_a_descriptor_for_each() -> None:
    """As far as the hard limit goes; the soft one is raised only as far as it needs to be."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    found = room_for_agents(500)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 2 * found + FOR_PEOPLE + OWN_FILES <= soft
    assert found == min(500, (hard - OWN_FILES - FOR_PEOPLE) // 2)
    assert room_for_agents() <= MOST


TOP = b"POST /v1/x HTTP/1.1\r\nHost: localhost\r\n"
HALVES: dict[str, tuple[bytes, float, bool]] = {
    "nothing": (b"", HEAD_S, False),
    "half a head": (TOP, HEAD_S, True),
    "a line end and nothing more": (b"\r\n", HEAD_S, True),
    "half a body": (TOP + b"Content-Length: 9\r\n\r\nhalf", SILENT_S, False),
    "a head alone": (TOP + b"Content-Length: 9\r\n\r\n", SILENT_S, True),
    "half a body in chunks": (TOP + b"Transfer-Encoding: chunked\r\n\r\n9\r\nhalf", SILENT_S, True),
    "a second request by half": (
        TOP + b"Content-Length: 2\r\n\r\nhi" + TOP,
        HEAD_S,
        True,
    ),
}


@pytest.mark.parametrize("name", HALVES)
async def test_h24_a_request_that_does_not_arrive_is_not_waited_for(name: str) -> None:
    """In time it is left alone; then it ends, and is told so where it had begun to speak."""
    sent, seconds, _told = HALVES[name]
    async with asyncio.timeout(PATIENCE), served(echo) as (port, server):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        if name == "a second request by half":
            await reader.readuntil(b"/v1/x 2")
        elif sent:
            writer.write(b"")
            await asyncio.sleep(0)
        now = await waited_for(port, server.connection_limits)
        server.connection_limits.sweep(now + seconds - 5)
        assert not reader.at_eof()
        server.connection_limits.sweep(now + seconds + 1)
        rest = await reader.read()
        assert rest == b"" or rest.startswith(b"HTTP/1.1 408 ")
        writer.close()


async def waited_for(port: int, _limits: ConnectionLimits) -> float:
    """Return the time by which all that was sent before has been read."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /v1/y HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    await reader.read()
    writer.close()
    return asyncio.get_running_loop().time()


async def test_h24_a_slow_body_that_goes_on_passes() -> None:
    """Piece by piece, each within the time of silence, up to a time for the whole."""
    async with asyncio.timeout(PATIENCE), served(echo) as (port, server):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(TOP + b"Content-Length: 4\r\n\r\n")
        for piece in (b"a", b"b", b"c"):
            writer.write(piece)
            now = await waited_for(port, server.connection_limits)
            server.connection_limits.sweep(now + SILENT_S - 5)
        assert not reader.at_eof()
        writer.write(b"d")
        assert (await reader.readuntil(b"/v1/x 4")).startswith(b"HTTP/1.1 200 ")
        # Answered: the connection is kept, whatever time passes.
        server.connection_limits.sweep(asyncio.get_running_loop().time() + BODY_S + 1)
        writer.write(TOP + b"Content-Length: 1\r\n\r\nx")
        await reader.readuntil(b"/v1/x 1")
        writer.close()


@pytest.mark.parametrize(
    "behind", [b"", b"\r\n", TOP], ids=["nothing", "a line end", "half a head"]
)
async def test_h24_an_answer_under_way_is_not_waited_for(behind: bytes) -> None:
    """A model may think as long as it likes, whatever follows its request already."""
    go_on = asyncio.Event()

    async def thinks(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await go_on.wait()
        await PlainTextResponse("thought")(scope, receive, send)

    async with asyncio.timeout(PATIENCE), served(thinks) as (port, server):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(TOP + b"Content-Length: 2\r\n\r\nhi" + behind)
        while not server.server_state.tasks:  # noqa: ASYNC110 -- uvicorn tells nobody
            await asyncio.sleep(0)
        now = asyncio.get_running_loop().time() + BODY_S + 1
        server.connection_limits.sweep(now)
        go_on.set()
        await reader.readuntil(b"thought")
        # From here on what has begun is waited for.
        server.connection_limits.sweep(now + HEAD_S - 5)
        assert not reader.at_eof()
        if behind == TOP:
            server.connection_limits.sweep(now + HEAD_S + 5)
            await reader.read()
        writer.close()


async def test_h24_an_agent_too_many_is_told_and_people_are_served() -> None:
    """The app learns of it by the request's scope, and answers in the client's format."""

    async def tells(scope: Scope, receive: Receive, send: Send) -> None:
        full = FULL in scope
        await receive()
        if not full and scope["path"] == "/v1/x":
            while (await receive())["type"] != "http.disconnect":
                pass
            return
        await PlainTextResponse("full" if full else "served")(scope, receive, send)

    async with asyncio.timeout(PATIENCE), served(tells, connections=1) as (port, _server):
        _, first = await asyncio.open_connection("127.0.0.1", port)
        first.write(TOP + b"Content-Length: 2\r\n\r\nhi")
        while True:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST /v1/y HTTP/1.1\r\nHost: a.b\r\nContent-Length: 2\r\n\r\nhi")
            answer = await reader.read(1000)
            writer.close()
            if b"full" in answer:
                assert b"connection: close" in answer.lower()
                break
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /control/v1/x HTTP/1.1\r\nHost: a.b\r\n\r\n")
        assert b"served" in await reader.read(1000)
        writer.close()
        first.close()


async def test_h24_who_does_not_read_makes_room_for_people() -> None:
    """What needs no token is answered to anyone, who could then leave the answer unread for ever."""
    stuck = 0

    async def talks(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal stuck
        if scope["path"] != "/metrics":
            await PlainTextResponse("served")(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * 2**24, "more_body": True})
        stuck += 1
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async with asyncio.timeout(PATIENCE), served(talks, connections=1) as (port, _server):
        crowd = [
            await asyncio.open_connection("127.0.0.1", port, limit=1) for _ in range(1 + FOR_PEOPLE)
        ]
        for _, writer in crowd:
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: a.b\r\n\r\n")
        while stuck < len(crowd):  # noqa: ASYNC110 -- nobody tells
            await asyncio.sleep(0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /control/v1/x HTTP/1.1\r\nHost: a.b\r\n\r\n")
        answer = await reader.read(1000)
        for _, one in (*crowd, (reader, writer)):
            one.transport.abort()
        assert b"served" in answer

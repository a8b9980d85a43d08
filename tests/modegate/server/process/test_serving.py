"""The process around the app: binding, draining, signals, and tasks that must not die."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from modegate.server.jobs import Job, StartFailed, TaskDied
from modegate.server.process.serving import (
    COLLECT_EVERY,
    Server,
    bind,
    calm_collector,
    serve_with,
    tune_malloc,
)
from support.running import exchange
from support.served import echo, served


async def refused(port: int) -> None:
    """Wait until the port is closed."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionError:
            return
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def test_a_taken_port_is_told() -> None:
    with bind("127.0.0.1", 0) as taken, pytest.raises(StartFailed) as caught:
        bind("127.0.0.1", taken.getsockname()[1])
    assert "is in use" in caught.value.lines[0]
    assert caught.value.exit_code == 1


def test_a_foreign_address_is_told() -> None:
    with pytest.raises(StartFailed, match=r"cannot listen on 203\.0\.113\.1:0"):
        bind("203.0.113.1", 0)


def test_malloc_is_tuned_or_left_alone() -> None:
    tune_malloc()


async def test_running_requests_are_drained_and_new_ones_refused() -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        async def body() -> AsyncIterator[str]:
            yield "first "
            started.set()
            await go_on.wait()
            yield "last"

        await StreamingResponse(body())(scope, receive, send)

    async with served(slow) as (port, server), asyncio.TaskGroup() as group:
        request = b"GET /v1/x HTTP/1.1\r\nHost: localhost\r\n\r\n"
        running = group.create_task(exchange(port, request))
        await started.wait()
        server.should_exit = True
        await refused(port)
        go_on.set()
        assert b"last" in await running


async def test_a_request_that_outlasts_the_drain_is_cut_off() -> None:
    started, cut = asyncio.Event(), asyncio.Event()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cut.set()

    listener = bind("127.0.0.1", 0)
    drained = asyncio.Event()
    server = Server(endless, drain=0.01, on_drain=drained.set)
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(serve_with(server, [listener], []))
        request = b"GET /v1/x HTTP/1.1\r\nHost: localhost\r\n\r\n"
        group.create_task(exchange(listener.getsockname()[1], request))
        await started.wait()
        server.should_exit = True
        await serving
        assert drained.is_set()
        assert cut.is_set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_server_and_nothing_else(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    running, stopped = asyncio.Event(), asyncio.Event()

    async def job() -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    ready = asyncio.Event()

    async def tell() -> None:
        ready.set()

    server = Server(echo, drain=1, on_drain=lambda: None, on_start=tell)
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(serve_with(server, [bind("127.0.0.1", 0)], [Job("job", job)]))
        await running.wait()
        await ready.wait()
        os.kill(os.getpid(), number)
        await serving
    assert stopped.is_set()
    assert signal.getsignal(number) is before


async def answers() -> None:
    return


async def fails() -> None:
    raise RuntimeError("it broke")


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        pytest.param(fails, "it broke", id="fails"),
        pytest.param(answers, "it returned", id="returns"),
    ],
)
async def test_the_server_ends_when_a_job_does(
    job: Callable[[], Awaitable[None]], reason: str
) -> None:
    server = Server(echo, drain=1, on_drain=lambda: None)
    with pytest.raises(TaskDied, match=f"the recorder ended: {reason}"):
        await serve_with(server, [bind("127.0.0.1", 0)], [Job("the recorder", job)])


@pytest.mark.parametrize(
    ("host", "family"),
    [("::1", socket.AF_INET6), ("127.0.0.1", socket.AF_INET), ("localhost", socket.AF_INET)],
)
def test_the_family_follows_the_address(
    monkeypatch: pytest.MonkeyPatch, host: str, family: socket.AddressFamily
) -> None:
    asked: list[tuple[object, object]] = []
    monkeypatch.setattr(
        socket, "create_server", lambda address, *, family, backlog: asked.append((address, family))
    )
    bind(host, 1)
    assert asked == [((host, 1), family)]


async def test_h23_the_collector_looks_through_everything_once_a_minute_alone() -> None:
    before = gc.get_threshold()
    try:
        calm_collector()
        assert gc.get_threshold()[2] > 2**29
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
    passes: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2:
            passes.append(1)

    async with served(echo) as (_, server):
        gc.callbacks.append(note)
        gc.disable()
        try:
            for tick in range(2 * COLLECT_EVERY):
                await server.on_tick(tick)
        finally:
            gc.enable()
            gc.callbacks.remove(note)
    assert len(passes) == 2

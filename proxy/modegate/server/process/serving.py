"""Runs the app on uvicorn: sockets, signals, shutdown, and the tasks beside the server.

If a task ends, so does the process, with a non-zero exit: a proxy that lost its policy watcher or its
recorder only looks alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import gc
import logging
import math
import selectors
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from modegate.server.jobs import Job, StartFailed, TaskDied
from modegate.server.process.connection_limits import MOST, ConnectionLimits
from modegate.server.process.http11 import Http11Protocol

logger = logging.getLogger(__name__)

BACKLOG = 2048

IDLE_CONNECTION_S = 75
"""Seconds that an idle connection is kept: longer than common clients keep one (openai 5 s, Node 4 to 60
s). So the client closes first, and no request meets a connection that is being closed."""

MAX_FRAME = 4 * 1024 * 1024
"""Bytes of a WebSocket message."""

CLEANUP_S = 5.0
"""Seconds for requests that were cut off at the end of the drain to clean up."""

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3  # malloc.h of glibc


def bind(host: str, port: int, option: str = "--port") -> socket.socket:
    """Open a listening socket; `option` is how another port is chosen.

    Raises:
        StartFailed: the address is taken or not of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        where = f"{host}:{port}"
        if error.errno == errno.EADDRINUSE:
            why = f"{where} is in use; stop what listens there or choose another with {option}"
        else:
            why = f"cannot listen on {where}: {error.strerror or error}"
        raise StartFailed(f"Error: {why}") from error


def tune_malloc() -> None:
    """Let glibc keep large blocks instead of giving each back to the kernel; elsewhere nothing happens.

    Bodies of some 100 KB are copied a few times each; with the default thresholds every copy is mapped
    and zeroed anew, which was measured to double the time they cost.
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in (
            (_M_MMAP_THRESHOLD, 256 * 2**20),
            (_M_TRIM_THRESHOLD, 256 * 2**20),
            (_M_TOP_PAD, 16 * 2**20),
        ):
            mallopt(option, value)


def calm_collector() -> None:
    """Keep the cyclic collector from scanning all objects in the middle of the work.

    That holds the whole process up for as long as it takes, some 100 ms where a million objects live, and
    finds next to nothing, as steps leave no cycles. `Server` has it look once a minute instead.
    """
    gc.collect()
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _NEVER)


_NEVER = 2**30
COLLECT_EVERY = 600
"""Ticks of the server, a tenth of a second each."""


def new_event_loop() -> asyncio.AbstractEventLoop:
    if sys.platform == "win32":
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()


def on_hangup(call: Callable[[], object]) -> dict[int, Any]:
    """Call this at each SIGHUP instead of ending; return the handler that was set before."""
    if not hasattr(signal, "SIGHUP") or threading.current_thread() is not threading.main_thread():
        return {}
    return {signal.SIGHUP: signal.signal(signal.SIGHUP, lambda *_: call())}


class Server(uvicorn.Server):
    """uvicorn, but a signal only begins the shutdown: the caller cleans up and chooses the exit code."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        drain: float,
        on_drain: Callable[[], None],
        on_start: Callable[[], Awaitable[None]] | None = None,
        on_hangup: Callable[[], None] | None = None,
        connections: int = MOST,
    ) -> None:
        """Configure for the proxy.

        Args:
            app: what is served.
            drain: seconds that running requests get at shutdown.
            on_drain: called when the drain begins, to end what would last as long as its client.
            on_start: called when requests and signals are taken.
            on_hangup: called on the event loop at each SIGHUP, which ends nothing.
            connections: how many may have a request of an agent at one time; people have some more.
        """
        self.connection_limits = ConnectionLimits(connections)
        super().__init__(
            uvicorn.Config(
                app,
                http=type(
                    "Protocol", (Http11Protocol,), {"connection_limits": self.connection_limits}
                ),
                ws="websockets-sansio",
                ws_max_size=MAX_FRAME,
                ws_per_message_deflate=False,  # it costs some 100 KB a connection
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=False,
                backlog=BACKLOG,
                timeout_keep_alive=IDLE_CONNECTION_S,
                timeout_graceful_shutdown=math.ceil(drain),
            )
        )
        self._on_drain = on_drain
        self._on_start = on_start
        self._on_hangup = on_hangup or (lambda: None)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take SIGINT, SIGTERM and SIGHUP; uvicorn's own would raise them again before the log is closed."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        taken = (signal.SIGINT, signal.SIGTERM)
        before: dict[int, Any] = {n: signal.signal(n, self.handle_exit) for n in taken}
        loop = asyncio.get_running_loop()
        before |= on_hangup(lambda: loop.call_soon_threadsafe(self._on_hangup))
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._on_start:
            await self._on_start()

    async def on_tick(self, counter: int) -> bool:
        """Close overdue connections once a second, and collect cycles once a minute."""
        if counter % COLLECT_EVERY == COLLECT_EVERY - 1:
            gc.collect()
        if counter % 10 == 0:
            self.connection_limits.sweep(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain, then cut off what still runs."""
        self._on_drain()
        await _take_queued(sockets or ())
        await super().shutdown(sockets)
        if cut_off := self.server_state.tasks:
            await asyncio.wait(set(cut_off), timeout=CLEANUP_S)
        if left := list(self.server_state.connections):
            for connection in left:
                connection.transport.abort()
            # Told of it at the next turn of the loop.
            await asyncio.sleep(0)


async def _take_queued(sockets: Sequence[socket.socket]) -> None:
    """Let the loop accept the connections that wait in the kernel: closing the sockets would reset them."""
    with selectors.DefaultSelector() as selector:
        for one in sockets:
            selector.register(one, selectors.EVENT_READ)
        empty = False
        for _ in range(BACKLOG):
            before, empty = empty, not selector.select(0)
            if before and empty:
                # Nothing waited twice in a row, so whatever was accepted has become a connection.
                return
            await asyncio.sleep(0)


async def serve_with(
    server: Server, listeners: Sequence[socket.socket], jobs: Sequence[Job]
) -> None:
    """Serve until a signal comes; the jobs are ended after the last request.

    Raises:
        TaskDied: a job ended before; the server was drained first.
    """
    died: list[tuple[str, Exception | None]] = []
    ending = False

    async def watched(job: Job) -> None:
        error: Exception | None = None
        try:
            await job.run()
        except Exception as caught:  # noqa: BLE001 -- it is the cause of TaskDied
            error = caught
        if error or not ending:
            died.append((job.name, error))
            server.should_exit = True

    async with asyncio.TaskGroup() as group:
        tasks = [(job, group.create_task(watched(job), name=job.name)) for job in jobs]
        await server.serve(sockets=list(listeners))
        ending = True
        for job, task in tasks:
            job.stop() if job.stop else task.cancel()
    if died:
        name, error = died[0]
        raise TaskDied(f"{name} ended: {error or 'it returned'}") from error

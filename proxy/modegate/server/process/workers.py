"""Several processes on the same sockets: started, watched, restarted if they die, and ended together.

Each is a whole proxy; what they must agree on is in the event log. Their metrics are added up by
prometheus_client's multiprocess mode, in files of a folder that lives as long as they do.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any

from modegate.server.jobs import StartFailed
from modegate.server.logs import say
from modegate.server.process.serving import on_hangup

WORKER = "MODEGATE_WORKER"
"""Environment variable with a worker's number, from 1; set here alone."""

METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"

YOUNG_S = 5.0
"""A worker that fails before this age could not start, so another could not either."""

SLACK_S = 10.0
"""Seconds beyond the drain after which a worker is killed."""

logger = logging.getLogger(__name__)


def supervise(
    work: Callable[..., None],
    arguments: tuple[Any, ...],
    count: int,
    *,
    drain: float,
    on_end: Callable[[], None],
) -> None:
    """Keep `count` workers running until SIGTERM or SIGINT, then end them.

    Args:
        work: what each of them does, with `arguments`.
        arguments: sent to the new process, so sockets may be among them.
        count: how many there are.
        drain: seconds that they get to end in.
        on_end: called when no more are started, to close this process's own copies of the sockets; as long
            as one is open the kernel takes connections that nobody serves.

    Raises:
        StartFailed: a worker ended while it was young, which has said why by itself.
    """
    with tempfile.TemporaryDirectory(prefix="modegate-metrics-") as folder:
        os.environ[METRICS_FOLDER] = folder
        _Workers(work, arguments, drain, on_end).run(count)


class _Workers:
    def __init__(
        self,
        work: Callable[..., None],
        arguments: tuple[Any, ...],
        drain: float,
        on_end: Callable[[], None],
    ) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._work = work
        self._arguments = arguments
        self._drain = drain
        self._on_end = on_end
        self._running: dict[int, tuple[BaseProcess, float]] = {}
        self._ending = False
        self._woken, self._wake = socket.socketpair()
        self._wake.setblocking(False)

    def run(self, count: int) -> None:
        with self._signals():
            for number in range(1, count + 1):
                self._start(number)
            try:
                while self._running:
                    self._watch()
            finally:
                self._end()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        def end(number: int, _frame: FrameType | None) -> None:
            # A second signal cuts off what still drains, as in a process of its own.
            self._ending = True
            with suppress(BlockingIOError):
                self._wake.send(b"!")
            self._tell(number)

        taken = (signal.SIGINT, signal.SIGTERM)
        before: dict[int, Any] = {number: signal.signal(number, end) for number in taken}
        before |= on_hangup(lambda: self._tell(signal.SIGHUP))
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _tell(self, number: int) -> None:
        for process, _ in self._running.values():
            if process.pid is not None:
                with suppress(ProcessLookupError):  # it has just ended
                    os.kill(process.pid, number)

    def _start(self, number: int) -> None:
        os.environ[WORKER] = str(number)
        process = self._context.Process(
            target=_run, args=(self._work, self._arguments), name=f"modegate worker {number}"
        )
        with _hangups_blocked():
            process.start()
        self._running[number] = (process, time.monotonic())
        if self._ending:  # since the signal came while it was being started
            process.terminate()

    def _watch(self) -> None:
        """Wait until a worker ends; start another in its place unless all are to end."""
        wait([self._woken, *(process.sentinel for process, _ in self._running.values())])
        if self._ending:
            self._on_end()
            # From here on only workers can end.
            wait([process.sentinel for process, _ in self._running.values()])
        for number, (process, began) in list(self._running.items()):
            if process.exitcode is None:
                continue
            del self._running[number]
            if self._ending:
                continue
            # One that was killed, or told to end, had started well enough.
            if process.exitcode > 0 and time.monotonic() - began < YOUNG_S:
                raise StartFailed(
                    f"Error: worker {number} ended at once, with exit code {process.exitcode}"
                )
            logger.error(
                "worker %d ended with exit code %s; starting another", number, process.exitcode
            )
            self._start(number)

    def _end(self) -> None:
        until = time.monotonic() + self._drain + SLACK_S
        for process, _ in self._running.values():
            process.terminate()
        for process, _ in self._running.values():
            process.join(max(0.0, until - time.monotonic()))
            if process.exitcode is None:
                process.kill()
                process.join()


@contextmanager
def _hangups_blocked() -> Iterator[None]:
    """Start children with SIGHUP blocked, until they have set a handler for it."""
    if not hasattr(signal, "SIGHUP"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run(work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    """Be a worker; print why it could not start."""
    if hasattr(os, "setpgid"):
        # ^C at a terminal goes to a whole group: the first process tells it, and twice would cut off.
        os.setpgid(0, 0)
    if hasattr(signal, "SIGHUP"):
        on_hangup(lambda: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        work(*arguments)
    except StartFailed as error:
        say(*error.lines)
        raise SystemExit(error.exit_code) from error


def _end_with_parent() -> None:
    """Drain and end once the first process is gone: nobody else would end this one."""
    if parent := multiprocessing.parent_process():
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

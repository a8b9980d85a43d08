"""Both stores of the event log, for suites that run against each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import modegate
from modegate.core.ids import LOCAL, ModeId, SessionId, SessionKey
from modegate.core.log.events import Event, ModeSet
from modegate.core.log.records import Entry
from modegate.server.log.open import open_log
from modegate.server.log.protocol import EventLog

ROOTS = (Path(modegate.__file__).parents[1], Path(__file__).parents[1])


class Store:
    """One store, opened as often as a test wants, as if by several processes."""

    def __init__(self, url: str) -> None:
        """Name it by its URL."""
        self.url = url
        self._opened: list[EventLog] = []

    def open(self) -> EventLog:
        """Open it once more."""
        log = open_log(self.url)
        self._opened.append(log)
        return log

    async def close(self) -> None:
        """Close all that was opened."""
        for log in self._opened:
            await log.close()


class Writer:
    """Another process on the same store; see `support.log_writer` and `support.approver`."""

    def __init__(self, module: str, *arguments: str) -> None:
        """Start it."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, ROOTS))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdout=subprocess.PIPE,
            stdin=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def go(self) -> None:
        """Wait until it is ready, then let it begin."""
        assert self.line() == "ready"
        assert self._process.stdin
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def line(self) -> str:
        """Return the next line that it writes; empty when it has ended."""
        assert self._process.stdout
        return self._process.stdout.readline().strip()

    def wait(self) -> int:
        """Wait for its end."""
        return self._process.wait()

    def kill(self) -> None:
        """End it as kill -9 does."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """End it if it still runs, and let go of its pipes."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe
            pipe.close()


@contextmanager
def writer(url: str, session: str, name: str, count: int) -> Iterator[Writer]:
    """Run a writer for the time of a with block."""
    with replica("support.log_writer", url, session, name, str(count)) as process:
        yield process


@contextmanager
def replica(module: str, *arguments: str) -> Iterator[Writer]:
    """Run another process for the time of a with block."""
    process = Writer(module, *arguments)
    try:
        yield process
    finally:
        process.close()


def key_of(session: str) -> SessionKey:
    """Return the key of a session of the tenant `local`."""
    return SessionKey(LOCAL, SessionId(session))


def entry(event: Event, at: int = 1_000, by: str = "gate") -> Entry:
    """Make an event ready to be appended."""
    return Entry(at, by, event)


def mode_set(mode: str, at: int = 1_000, by: str = "person:cli") -> Entry:
    """Make a `mode/set` ready to be appended."""
    return Entry(at, by, ModeSet(ModeId(mode)))

"""What is broken while agents work: each a coroutine that breaks one thing, waits, and mends it."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from support.redis_server import RedisServer
from support.replicas import Replica
from support.sentinel import Cluster, ask

DOWN_S = 2.0
FULL_S = 3.0
IN_STEP_S = 10.0
UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)

Break = tuple[str, Callable[[], Awaitable[None]]]
"""What is said of it, and what does it."""


def redis_killed(redis: RedisServer) -> Break:
    """Kill -9, and start again on what it had written."""

    async def work() -> None:
        redis.kill()
        await asyncio.sleep(DOWN_S)
        await asyncio.to_thread(redis.start)

    return "Redis is killed", work


def redis_paused(redis: RedisServer) -> Break:
    """Connections stay, and nothing is answered."""

    async def work() -> None:
        redis.pause()
        await asyncio.sleep(DOWN_S)
        redis.resume()

    return "Redis is paused", work


def redis_full(redis: RedisServer) -> Break:
    """It refuses what needs memory, and reads go on."""

    async def work() -> None:
        await asyncio.to_thread(ask, redis.port, "CONFIG", "SET", "maxmemory", "1")
        await asyncio.sleep(FULL_S)
        await asyncio.to_thread(ask, redis.port, "CONFIG", "SET", "maxmemory", "0")

    return "Redis is full", work


def failed_over(cluster: Cluster) -> Break:
    """Move to the replica as an operator does: writes stop, the replica has all, then the master goes."""

    def work() -> None:
        ask(cluster.master.port, "CLIENT", "PAUSE", "20000", "WRITE")
        deadline = time.monotonic() + IN_STEP_S
        while not _in_step(ask(cluster.master.port, "INFO", "replication")):
            assert time.monotonic() < deadline, "the replica does not catch up"
            time.sleep(0.02)
        cluster.fail_over()

    return "Redis fails over", lambda: asyncio.to_thread(work)


def _in_step(replication: bytes) -> bool:
    """Return whether the only replica has all that its master wrote."""
    ours = re.search(rb"^master_repl_offset:(\d+)", replication, re.MULTILINE)
    theirs = re.search(rb"^slave0:.*offset=(\d+)", replication, re.MULTILINE)
    return ours is not None and theirs is not None and ours[1] == theirs[1]


def replica_killed(replica: Replica) -> Break:
    """Kill -9 a whole replica, its workers included, and start it again."""

    async def work() -> None:
        # The first process goes first: it would start the workers again.
        for pid in (_pid(replica), *workers_of(replica)):
            os.kill(pid, signal.SIGKILL)
        assert replica.process
        await asyncio.to_thread(replica.process.wait)
        await asyncio.sleep(DOWN_S)
        await asyncio.to_thread(replica.start)

    return f"replica {replica.folder.name} is killed", work


def worker_killed(replica: Replica) -> Break:
    """Kill -9 one worker; the first process starts another."""

    async def work() -> None:
        os.kill(workers_of(replica)[0], signal.SIGKILL)
        await asyncio.sleep(DOWN_S)

    return f"a worker of {replica.folder.name} is killed", work


def replica_paused(replica: Replica) -> Break:
    """It stands still, connections and all, and goes on as if nothing had been."""

    async def work() -> None:
        pids = (_pid(replica), *workers_of(replica))
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(DOWN_S)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)

    return f"replica {replica.folder.name} is paused", work


def disk_full(replicas: list[Replica]) -> Break:
    """No file of theirs takes another byte, as on a full disk."""

    async def work() -> None:
        pids = [pid for one in replicas for pid in (_pid(one), *workers_of(one))]
        with _limited(pids):
            await asyncio.sleep(FULL_S)

    return "the disk is full", work


@contextmanager
def _limited(pids: list[int]) -> Iterator[None]:
    for pid in pids:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        for pid in pids:
            # One that ended is missed at the end of the run.
            with suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, UNLIMITED)


def _pid(replica: Replica) -> int:
    assert replica.process
    return replica.process.pid


def workers_of(replica: Replica) -> list[int]:
    """Return the processes that a replica started; none if it works by itself."""
    tasks = Path("/proc") / str(_pid(replica)) / "task"
    found = [one.read_text() for one in tasks.glob("*/children")]
    pids = [int(pid) for text in found for pid in text.split()]
    return [pid for pid in pids if b"spawn_main" in _command(pid)]


def _command(pid: int) -> bytes:
    return (Path("/proc") / str(pid) / "cmdline").read_bytes()

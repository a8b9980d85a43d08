"""How much a process holds, and whether that grew."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import httpx

from support.replicas import Replica

MORE_MB = 32.0
"""Growth of memory after the warm-up that is no leak yet: states of sessions, and the allocator."""
MORE_FDS = 8
"""Kept connections come and go."""
MORE_TASKS = 2


@dataclass(frozen=True)
class Weight:
    """What one process holds while nobody asks it anything."""

    mb: float
    fds: int
    tasks: int

    def __str__(self) -> str:
        """Return a cell of the table."""
        return f"{self.mb:6.1f} MB {self.fds:4d} fds {self.tasks:4d} tasks"

    def grew(self, since: Weight) -> list[str]:
        """Say what has clearly grown."""
        found = []
        if self.mb > since.mb + MORE_MB:
            found.append(f"memory grew by {self.mb - since.mb:.1f} MB")
        if self.fds > since.fds + MORE_FDS:
            found.append(f"{self.fds - since.fds} file descriptors more")
        if self.tasks > since.tasks + MORE_TASKS:
            found.append(f"{self.tasks - since.tasks} tasks more")
        return found


async def weigh(replica: Replica, http: httpx.AsyncClient) -> Weight:
    """Weigh a process."""
    assert replica.process
    folder = Path("/proc") / str(replica.process.pid)
    resident = re.search(r"^VmRSS:\s+(\d+) kB", (folder / "status").read_text(), re.MULTILINE)
    assert resident
    url = f"http://127.0.0.1:{replica.control_port}/metrics"
    page = (await http.get(url, headers={"connection": "close"})).text
    tasks = re.search(r"^modegate_tasks (\S+)$", page, re.MULTILINE)
    assert tasks
    fds = len(list((folder / "fd").iterdir()))
    return Weight(int(resident[1]) / 1024, fds, int(float(tasks[1])))


async def counted(replica: Replica, http: httpx.AsyncClient) -> dict[str, float]:
    """Return the counters of a process, added up over their labels but for the first."""
    url = f"http://127.0.0.1:{replica.control_port}/metrics"
    page = (await http.get(url, headers={"connection": "close"})).text
    found: dict[str, float] = {}
    for name, label, value in re.findall(
        r'^modegate_(\w+_total)(?:\{.*?(?:outcome|verdict|what|why)="([^"]*)".*\})? (\S+)$',
        page,
        re.MULTILINE,
    ):
        key = f"{name.removesuffix('_total')} {label}".strip()
        found[key] = found.get(key, 0) + float(value)
    return found

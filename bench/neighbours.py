"""Measure what the worst body within the limits costs others: how long a neighbour's small request takes.

One client sends small requests in the default mode, one after the other, while another client, in plan mode,
sends the worst requests or gets the worst answers that the limits let through. A turn of the loop that is
held up is a small request that takes that much longer.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import targets
from report import table
from targets import BenchError, Cores, Server
from worst import ANSWERS, REQUESTS

GOAL_MS = 100
QUIET_S = 2.0
PATIENCE_S = 300
SMALL = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
ASKED = (
    b'{"model":"m","stream":%s,"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function",'
    b'"function":{"name":"read"}}]}'
)
PATHS = {
    "small": "/s/bench-default/v1/chat/completions",
    "worst": "/s/bench-plan/v1/chat/completions",
}


@dataclass(frozen=True, slots=True)
class Row:
    """What one body did to the neighbour; milliseconds."""

    name: str
    seconds: float
    status: int
    p50: float
    worst: float
    count: int


class Neighbour(threading.Thread):
    """Sends small requests until it is told to stop."""

    def __init__(self, port: int) -> None:
        """Connect at the first request."""
        super().__init__(daemon=True)
        self._port = port
        self.over = threading.Event()
        self.took: list[float] = []
        self.failed = ""

    def run(self) -> None:
        """Send one after the other."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)
        try:
            while not self.over.is_set():
                began = time.perf_counter()
                connection.request("POST", PATHS["small"], SMALL)
                answer = connection.getresponse()
                answer.read()
                self.took.append((time.perf_counter() - began) * 1000)
                if answer.status != 200:
                    self.failed = f"the neighbour got {answer.status}"
        except OSError as error:
            self.failed = f"the neighbour's connection broke: {error}"
        finally:
            connection.close()


@contextmanager
def neighbour(port: int) -> Iterator[Neighbour]:
    """Run a neighbour beside what is measured.

    Raises:
        BenchError: it got an error.
    """
    one = Neighbour(port)
    one.start()
    try:
        yield one
    finally:
        one.over.set()
        one.join(PATIENCE_S)
    if one.failed:
        raise BenchError(one.failed)


def measure(port: int, name: str, body: bytes, worst: str) -> Row:
    """Send one body, or get one answer, and give what the neighbour felt."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    head = {"x-worst": worst} if worst else {}
    if name.startswith("a gzip"):
        import gzip

        body, head = gzip.compress(body, 1), {"content-encoding": "gzip"}
    with neighbour(port) as one:
        time.sleep(0.2)
        one.took.clear()
        began = time.perf_counter()
        connection.request("POST", PATHS["worst"], body, head)
        answer = connection.getresponse()
        answer.read()
        seconds = time.perf_counter() - began
        time.sleep(0.2)
    connection.close()
    return Row(name, seconds, answer.status, median(one.took), max(one.took), len(one.took))


def quiet(port: int) -> Row:
    """Return what the neighbour feels of nothing."""
    with neighbour(port) as one:
        time.sleep(QUIET_S)
    return Row("nothing", QUIET_S, 200, median(one.took), max(one.took), len(one.took))


def all_rows(server: Server, upstream: int, only: str) -> Iterator[Row]:
    """Measure everything whose name holds `only`."""
    yield quiet(server.port)
    for name, make in REQUESTS.items():
        if only in name:
            yield measure(server.port, name, make(), "")
    for name, answer in ANSWERS.items():
        if only in name:
            # Made before, so that the model is not what holds others up.
            targets.call("GET", f"http://127.0.0.1:{upstream}/", headers={"x-worst": name})
            flag = b"true" if answer.kind == "text/event-stream" else b"false"
            yield measure(server.port, name, ASKED % flag, name)


@contextmanager
def hostile(folder: Path, core: int) -> Iterator[int]:
    """Run the model of hostile.py; give its port."""
    port, log = targets.free_port(), folder / "hostile.log"
    command = [sys.executable, str(targets.HERE / "hostile.py"), str(port)]
    with targets.process(command, core, log) as child:
        url = f"http://127.0.0.1:{port}/"
        targets.wait_ready(child, log, lambda: targets.call("GET", url), 10)
        yield port


def run(folder: Path, command: Path, policies: Path, only: str, *, as_json: bool) -> str:
    """Run the benchmark and give its report.

    Raises:
        BenchError: a server does not start, or the neighbour got an error.
    """
    cores = Cores.choose()
    files = {"command": command, "policies": policies}
    rows: list[Row] = []
    with (
        hostile(folder, cores.rest) as upstream,
        targets.modegate(folder, cores.proxy, upstream, **files) as server,
    ):
        for row in all_rows(server, upstream, only):
            print(f"bench: {row.name}: {row.worst:.0f} ms", file=sys.stderr, flush=True)
            rows.append(row)
    if as_json:
        fields = ("name", "seconds", "status", "p50", "worst", "count")
        return json.dumps(
            [{field: getattr(row, field) for field in fields} for row in rows], indent=2
        )
    return _text(rows)


def _text(rows: list[Row]) -> str:
    first, *rest = rows
    worst = max(rest, key=lambda row: row.worst, default=first)
    cells = [
        [row.name, str(row.status), f"{row.seconds:.2f}", f"{row.p50:.2f}", f"{row.worst:.0f}",
         f"{row.worst / first.p50:.0f}"]
        for row in rows
    ]  # fmt: skip
    head = ["while this is read", "status", "it takes s", "p50 ms", "worst ms", "ratio"]
    said = (
        f"Worst body within limits: {worst.name}, which delayed a small request to {worst.worst:.0f} ms "
        f"({worst.worst / first.p50:.0f} times what it takes alone; goal: {GOAL_MS} ms)."
    )
    return table("A neighbour's small request in default mode", head, cells) + said

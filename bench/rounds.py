"""The rounds of a benchmark run: which requests are made, through what, and what makes them void."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import proc
import report
import targets
from bodies import request_body
from targets import BenchError, Cores, Server

FEW, MANY = 1, 16


@dataclass(frozen=True, slots=True)
class Workload:
    """One kind of request: what the mock is told, the size of the body, who serves it."""

    name: str
    spec: str
    size: int
    targets: tuple[str, ...] = ("direct", "nginx", "default", "plan")

    @property
    def streamed(self) -> bool:
        """Whether the answer is a stream."""
        return not self.spec.startswith("json")

    @property
    def paced(self) -> bool:
        """Whether the mock sets the pace, so that requests per second say nothing of the proxy."""
        return self.streamed and self.spec.split()[2] != "0"


WORKLOADS = (
    Workload("json 2 KB", "json", 2_048),
    Workload("json 60 KB", "json", 60_000),
    Workload("stream burst", "text 200 0", 60_000),
    Workload("stream burst, read call", "call 180 0 read", 60_000, ("direct", "nginx", "plan")),
    Workload("stream paced", "text 200 5000", 60_000, ("nginx", "default", "plan")),
    Workload("stream paced, read call", "call 180 5000 read", 60_000, ("nginx", "plan")),
)
SHORTER = Workload("shorter stream", "text 50000 0", 60_000)
LONG = Workload("long stream", "text 200000 0", 60_000)
GROWTH = 1 / 6
"""What may stay in memory of the bytes by which LONG exceeds SHORTER: their bare text is an eighth."""
PATHS = {
    "direct": "/v1/chat/completions",
    "nginx": "/v1/chat/completions",
    "default": "/s/bench-default/v1/chat/completions",
    "plan": "/s/bench-plan/v1/chat/completions",
}


@dataclass(slots=True)
class Bench:
    """One run: its servers by target, its settings and what it has found so far."""

    args: argparse.Namespace
    folder: Path
    cores: Cores
    servers: dict[str, Server]
    results: report.Results

    def load(
        self, target: str, workload: Workload, *more: str, seconds: float = 0.0
    ) -> dict[str, Any]:
        """Run the load generator once; `more` are its further flags."""
        body = self.folder / f"{workload.size}-{workload.streamed}.json"
        if not body.exists():
            body.write_bytes(request_body(workload.size, stream=workload.streamed))
        server, path = self.servers[target], PATHS[target]
        return targets.load(
            self.cores.rest,
            server,
            path,
            body,
            workload.spec,
            *more,
            seconds=seconds or self.args.seconds,
        )

    def check(self, workload: Workload) -> None:
        """Compare the answers of each target with the mock's own, and warm the target up.

        Raises:
            BenchError: a target answers with errors.
        """
        flags = ("--requests", "2", "--checksum")
        direct = self.load("direct", workload, *flags)
        for target in self._served(workload):
            seen = self.load(target, workload, *flags)
            if seen["errors"]:
                raise BenchError(f"{target} fails on {workload.name}: {seen['error']}")
            facts = ("bytes_min", "bytes_max", "checksum")
            self.results.same_bytes[workload.name, target] = all(
                seen[f] == direct[f] for f in facts
            )
            if target == "plan" and seen["bytes_min"] < direct["bytes_min"]:
                self.void(
                    f"{workload.name}: plan mode dropped part of an answer that it should release"
                )
            if target == "default" and not self.results.same_bytes[workload.name, target]:
                self.void(f"{workload.name}: default mode changed the answer's bytes")
            if not workload.paced:
                self.load(target, workload, "--connections", str(MANY), seconds=0.2)

    def measure(self, workload: Workload, number: int) -> None:
        """Measure each target with few connections and with many, in an order that alternates."""
        served = self._served(workload)
        for connections in (FEW, MANY):
            for target in reversed(served) if number % 2 else served:
                flags = ["--connections", str(connections)]
                if workload.paced:
                    flags += ["--requests", str(connections)]
                self._keep(workload, target, connections, self.load(target, workload, *flags))

    def _keep(
        self, workload: Workload, target: str, connections: int, seen: dict[str, Any]
    ) -> None:
        self.results.add(workload.name, target, connections, seen)
        if seen["errors"]:
            self.void(f"{workload.name}: {seen['errors']} errors through {target}: {seen['error']}")
        if seen["bytes_min"] != seen["bytes_max"] and target == "default":
            self.void(f"{workload.name}: answers through default differ in size")

    def _served(self, workload: Workload) -> list[str]:
        return [target for target in workload.targets if target in self.servers]

    def check_gate(self) -> None:
        """Make sure that plan mode is in force: a refused call comes through in default mode only.

        Raises:
            BenchError: figures of "plan" would be figures of something else.
        """
        body = request_body(2_048, stream=True)
        for target in ("default", "plan"):
            if target not in self.servers:
                continue
            url = f"http://127.0.0.1:{self.servers[target].port}{PATHS[target]}"
            head = {
                "x-mock": "call 2 0 write",
                "Content-Type": "application/json",
                "Authorization": "Bearer sk-bench",
            }
            came = b'"name":"write"' in targets.call("POST", url, body, head)
            if came != (target == "default"):
                raise BenchError(
                    f"a refused call {'came' if came else 'did not come'} through in {target} mode"
                )

    def check_mock(self) -> None:
        """Void workloads in which the mock and the load generator may have been the limit, not modegate."""
        for workload in self.workloads():
            direct = self.results.values(workload.name, "direct", MANY, "rps")
            for target in ("default", "plan"):
                rps = self.results.values(workload.name, target, MANY, "rps")
                if direct and rps and median(direct) < self.args.headroom * median(rps):
                    times = median(direct) / median(rps)
                    self.void(
                        f"{workload.name}: the mock is only {times:.1f} times as fast as {target}"
                    )

    def long_stream(self, target: str) -> None:
        """Send one long stream after shorter ones; void the run if the proxy holds more for it.

        The shorter ones bring the process to the size that it needs for a stream of theirs, so what is added
        by the long one is what grows with the length.
        """
        server = self.servers[target]
        shorter = self.load(target, SHORTER, "--requests", "2", seconds=60)
        proc.reset_peak(server.pid)
        before = proc.memory_kib(server.pid, "VmRSS")
        seen = self.load(target, LONG, "--requests", "1", seconds=60)
        growth = proc.memory_kib(server.pid, "VmHWM") - before
        longer = (seen["bytes_max"] - shorter["bytes_max"]) // 1024
        if seen["errors"]:
            self.void(f"long stream: an error through {target}: {seen['error']}")
        if growth > longer * GROWTH:
            self.void(
                f"long stream: memory of {target} grew by {growth:,} KiB over {longer:,} KiB more stream"
            )
        self.results.streams.append(
            {
                "target": target,
                "events": seen["events"],
                "bytes": seen["bytes_max"],
                "events_per_second": seen["events"] * 1e6 / seen["p50"],
                "cpu_us_per_event": seen["cpu_us"] / seen["events"],
                "rss_before_kib": before,
                "rss_after_kib": proc.memory_kib(server.pid, "VmRSS"),
                "growth_kib": growth,
            }
        )

    def keep_memory(self, at_start: dict[str, int]) -> None:
        """Note what each proxy holds at the end."""
        for server in {s.name: s for s in self.servers.values() if s.name != "direct"}.values():
            facts = {"start_kib": at_start[server.name], "ready_seconds": server.ready_seconds}
            rss, pss = (proc.memory_kib(server.pid, field) for field in ("Rss", "Pss"))
            self.results.memory.append(
                {"target": server.name, **facts, "rss_kib": rss, "pss_kib": pss}
            )

    def workloads(self) -> list[Workload]:
        """Return the workloads that were asked for."""
        return [w for w in WORKLOADS if self.args.only in w.name]

    def void(self, reason: str) -> None:
        """Note once why the figures are not to be trusted."""
        if reason not in self.results.void:
            self.results.void.append(reason)

    def run(self) -> None:
        """Check, measure round by round, then send the long streams."""
        at_start = {s.name: proc.memory_kib(s.pid, "Rss") for s in self.servers.values()}
        self.check_gate()
        for workload in self.workloads():
            self.check(workload)
        for number in range(self.args.rounds):
            say(f"round {number + 1} of {self.args.rounds}")
            for workload in self.workloads():
                self.measure(workload, number)
        self.check_mock()
        for target in (t for t in self.servers if t != "direct" and self.args.only in LONG.name):
            self.long_stream(target)
        self.keep_memory(at_start)


def say(text: str) -> None:
    """Tell the person who waits; results alone go to stdout."""
    print(f"bench: {text}", file=sys.stderr, flush=True)

"""The figures of a benchmark run: ratios of one round, their median and spread, and the tables of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

YARDSTICK = "nginx"
ENOUGH = 10  # requests of a round whose median says something
Runs = dict[tuple[str, str, int], list[dict[str, Any]]]


@dataclass(slots=True)
class Results:
    """What was measured: one report of the load generator per workload, target, connections and round."""

    runs: Runs = field(default_factory=dict)
    same_bytes: dict[tuple[str, str], bool] = field(default_factory=dict)
    streams: list[dict[str, Any]] = field(default_factory=list)
    memory: list[dict[str, Any]] = field(default_factory=list)
    void: list[str] = field(default_factory=list)

    def add(self, workload: str, target: str, connections: int, report: dict[str, Any]) -> None:
        """Keep one report."""
        self.runs.setdefault((workload, target, connections), []).append(report)

    def values(self, workload: str, target: str, connections: int, metric: str) -> list[float]:
        """Return one figure, round by round; empty where it was not measured."""
        return [float(run[metric]) for run in self.runs.get((workload, target, connections), [])]

    def ratios(self, workload: str, target: str, connections: int, metric: str) -> list[float]:
        """Return one figure over the yardstick's of the same round."""
        over = self.values(workload, YARDSTICK, connections, metric)  # empty without the yardstick
        return [
            a / b
            for a, b in zip(self.values(workload, target, connections, metric), over, strict=False)
            if b
        ]

    def as_json(self) -> dict[str, Any]:
        """Return everything in plain lists and objects."""
        runs = [
            {"workload": workload, "target": target, "connections": connections, "rounds": rounds}
            for (workload, target, connections), rounds in self.runs.items()
        ]
        same = [
            {"workload": w, "target": t, "same": same} for (w, t), same in self.same_bytes.items()
        ]
        return {
            "runs": runs,
            "bytes_equal_direct": same,
            "long_streams": self.streams,
            "memory": self.memory,
            "void": self.void,
        }


def spread(values: Sequence[float]) -> str:
    """Return `median (min-max)`, one figure where all are alike, or a dash where there is nothing."""
    if not values:
        return "-"
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{median(values):.2f} ({low}-{high})"


def figure(values: Sequence[float], digits: int = 0) -> str:
    """Return the median, or a dash where there is nothing."""
    return f"{median(values):,.{digits}f}" if values else "-"


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out rows in columns: the first two to the left, the others to the right."""
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    lines.insert(1, ["-" * width for width in widths])
    text = [
        "  ".join(
            cell.ljust(w) if i < 2 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
    return "\n".join([title, "", *(line.rstrip() for line in text), ""])


def _rows(
    results: Results, connections: int, cells: Callable[[str, str], list[str]]
) -> list[list[str]]:
    """Return a row per workload and target, the workload named in the first row only."""
    rows: list[list[str]] = []
    last = ""
    for workload, target, measured in results.runs:
        if measured == connections:
            rows.append(["" if workload == last else workload, target, *cells(workload, target)])
            last = workload
    return rows


def latency_table(results: Results, connections: int) -> str:
    """Return what one connection sees: time to the last byte, to the first, and from event to event."""

    def cells(workload: str, target: str) -> list[str]:
        p50 = results.values(workload, target, connections, "p50")
        direct = results.values(workload, "direct", connections, "p50")
        added = [a - b for a, b in zip(p50, direct, strict=False)] if target != "direct" else []
        yard = results.values(workload, YARDSTICK, connections, "p50")
        yard_added = [a - b for a, b in zip(yard, direct, strict=False)]
        delays = results.values(workload, target, connections, "delay")
        if min(results.values(workload, target, connections, "requests")) < ENOUGH:
            whole = ["-"] * 5  # a paced stream lasts as long as its pace, and a round has one
        else:
            whole = [
                figure(p50),
                spread(results.ratios(workload, target, connections, "p50")),
                figure(added),
                spread([a / b for a, b in zip(added, yard_added, strict=False) if b > 0]),
                spread(results.ratios(workload, target, connections, "ttfb")),
            ]
        event = [figure(delays), spread(results.ratios(workload, target, connections, "delay"))]
        return [*whole, *event]

    head = [
        "workload",
        "target",
        "p50 us",
        "/nginx",
        "added us",
        "/nginx",
        "first byte /nginx",
        "event us",
        "/nginx",
    ]
    return table(f"Latency, {connections} connection", head, _rows(results, connections, cells))


def throughput_table(results: Results, connections: int) -> str:
    """Return what many connections see, and what a request costs."""

    def cells(workload: str, target: str) -> list[str]:
        cpu = [] if target == "direct" else results.values(workload, target, connections, "cpu_us")
        same = results.same_bytes.get((workload, target))
        return [
            figure(results.values(workload, target, connections, "rps")),
            spread(results.ratios(workload, target, connections, "rps")),
            figure(cpu),
            spread(results.ratios(workload, target, connections, "cpu_us") if cpu else []),
            spread(results.ratios(workload, target, connections, "delay")),
            "" if same is None else "same" if same else "DIFFER",
        ]

    head = [
        "workload",
        "target",
        "req/s",
        "/nginx",
        "CPU us/req",
        "/nginx",
        "event delay /nginx",
        "bytes",
    ]
    return table(f"Throughput, {connections} connections", head, _rows(results, connections, cells))


def stream_table(results: Results) -> str:
    """Return the speed of one long stream, and the memory that it took."""
    yard = next((s["events_per_second"] for s in results.streams if s["target"] == YARDSTICK), 0)
    rows = [
        [
            f"{s['events']:,} events, {s['bytes'] / 1e6:.1f} MB",
            s["target"],
            f"{s['events_per_second']:,.0f}",
            f"{s['events_per_second'] / yard:.2f}" if yard else "-",
            f"{s['cpu_us_per_event']:.1f}",
            f"{s['rss_before_kib'] / 1024:.1f}",
            f"{s['rss_after_kib'] / 1024:.1f}",
            f"{s['growth_kib'] / 1024:+.1f}",
        ]
        for s in results.streams
    ]
    head = [
        "stream",
        "target",
        "events/s",
        "/nginx",
        "CPU us/event",
        "RSS MB before",
        "after",
        "peak growth",
    ]
    return table("One long stream", head, rows)


def memory_table(results: Results) -> str:
    """Return what each server holds when ready and after the run."""
    rows = [
        [
            m["target"],
            "",
            *(f"{m[kib] / 1024:.1f}" for kib in ("start_kib", "rss_kib", "pss_kib")),
            f"{m['ready_seconds']:.2f}",
        ]
        for m in results.memory
    ]
    head = ["server", "", "RSS MB ready", "RSS MB after", "PSS MB after", "ready after s"]
    return table("Memory", head, rows)

"""What is counted, and the page on which Prometheus reads it.

Each `Metrics` has a registry of its own, so two proxies in one process (in tests) count apart. Labels come
from small fixed sets or from the policy. Labels from requests are bounded, so no client can make the page
grow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

MAX_TOOLS = 200
"""Names of tools with a label of their own; the rest are `other`."""

UNDECLARED = "undeclared"
"""Stands for all names that the agent has not declared: a model can make up any number."""

FAST = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0)
SLOW = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 600.0)
"""Buckets in seconds: for our own work, and for what a model or a person takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """Values that other parts hold; each is asked for whenever the page is read."""

    lost: Callable[[], int]
    policy: Callable[[], str]
    generation: Callable[[], int]
    problems: Callable[[], int]
    tasks: Callable[[], int]
    held: Callable[[], int]


COUNTERS: dict[str, tuple[str, ...]] = {
    "steps": ("Steps (model requests of agents) by how they ended.", "outcome"),
    "hops": ("Upstream requests made for steps; more than steps where calls were refused.",),
    "resent_requests": (
        "Requests that an upstream refused and that were sent again in another form.",
    ),
    "upstream_cut_answers": ("Answers that the upstream did not end.",),
    "verdicts": (
        "Calls judged, by the mode in force, the tool and the verdict.",
        *("mode", "tool", "verdict"),
    ),
    "unparsable": ("What could not be read in a mode: `request`, `frame` or `answer`.", "what"),
    "ungated_steps": (
        "Steps that no gate read: in `default` mode, or in a mode without declaring tools (`no_tools`).",
        "why",
    ),
    "tightened_answers": (
        "Answers that passed raw when a person set a mode: `read` from there on, or `cut` off.",
        "how",
    ),
    "approvals": ("Questions to a person that a step waited for, by what came of them.", "outcome"),
    "policy_reload_failures": ("New contents of the policies file that were not put in force.",),
}
"""By attribute of `Metrics`: what it counts, and its labels. On the page, `modegate_` stands in front."""

DURATIONS: dict[str, tuple[str, tuple[float, ...]]] = {
    "added_seconds": ("What modegate itself took of the time to a step's first byte.", FAST),
    "hold_seconds": ("How long calls were held back until their verdict.", SLOW),
    "append_seconds": ("How long an append took until it was durable.", FAST),
}
"""The same: what it measures, and its buckets."""


class Metrics:
    """All counters; each part counts what it does itself."""

    steps: Counter
    hops: Counter
    resent_requests: Counter
    upstream_cut_answers: Counter
    verdicts: Counter
    unparsable: Counter
    ungated_steps: Counter
    tightened_answers: Counter
    approvals: Counter
    policy_reload_failures: Counter
    added_seconds: Histogram
    hold_seconds: Histogram
    append_seconds: Histogram

    def __init__(self, *, workers: bool = False) -> None:
        """Make all counters; with `workers`, the page adds up those of every worker.

        What describes this process alone (its memory, its policy) is then that of the worker that answers.
        """
        self.registry = CollectorRegistry()
        self._shared: CollectorRegistry | None = None
        self._tools: set[str] = set()
        registry: CollectorRegistry | None = self.registry
        if workers:
            # Counters keep their values in files that all workers have; none is in a registry of its own.
            self._shared = CollectorRegistry()
            collector: Any = MultiProcessCollector  # prometheus_client does not annotate it
            collector(self._shared)
            registry = None
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        for name, (text, *labels) in COUNTERS.items():
            setattr(self, name, Counter(f"modegate_{name}", text, labels, registry=registry))
        for name, (text, buckets) in DURATIONS.items():
            found = Histogram(f"modegate_{name}", text, buckets=buckets, registry=registry)
            setattr(self, name, found)

    def judged(self, mode: str, tool: str, verdict: str, *, declared: bool = True) -> None:
        """Count a call. Undeclared names share one label, and so do declared ones beyond `MAX_TOOLS`."""
        if not declared:
            tool = UNDECLARED
        elif tool not in self._tools:
            if len(self._tools) < MAX_TOOLS:
                self._tools.add(tool)
            else:
                tool = "other"
        self.verdicts.labels(mode, tool, verdict).inc()

    def watch(self, watched: Watched) -> None:
        """Ask for these values whenever the page is read."""
        self.registry.register(_WatchedCollector(watched))

    def page(self) -> tuple[bytes, str]:
        """Return the page and its content type; with several workers, the sum of their counters."""
        page = generate_latest(self.registry)
        if self._shared is not None:
            page += generate_latest(self._shared)
        return page, CONTENT_TYPE_PLAIN_0_0_4


class _WatchedCollector(Collector):
    def __init__(self, watched: Watched) -> None:
        self._watched = watched

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "modegate_recorder_lost",
            "Events that were not written to the log; no rule depends on any of them.",
            self._watched.lost(),
        )
        info = GaugeMetricFamily(
            "modegate_policy_info",
            "1, for the hash of the policy in force; processes that have the same file have the same.",
            labels=["hash"],
        )
        info.add_metric([self._watched.policy()], 1)
        yield info
        yield GaugeMetricFamily(
            "modegate_policy_generation",
            "How many policies have been in force since the start.",
            self._watched.generation(),
        )
        yield GaugeMetricFamily(
            "modegate_policy_problems",
            "Problems of the policies file as it is now; above 0 an older policy is in force.",
            self._watched.problems(),
        )
        yield GaugeMetricFamily(
            "modegate_tasks",
            "What the process is doing at once; a number that only grows is a leak.",
            self._watched.tasks(),
        )
        yield GaugeMetricFamily(
            "modegate_held_bytes",
            "Bytes of requests and answers that steps hold now; at `limits.memory` new ones are refused.",
            self._watched.held(),
        )

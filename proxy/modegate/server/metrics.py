"""What is counted, and the page on which Prometheus reads it.

A `Metrics` has a registry of its own and is passed in, so that two proxies in one process (tests) count
apart. Labels come from small fixed sets or from the policy, never from a request, so that no client can
make the page grow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import (
    CollectorRegistry,
    Counter,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector


class Metrics:
    """The counters; whoever does a thing counts it."""

    def __init__(self, *, workers: bool = False) -> None:
        """Make all counters; with `workers`, the page adds up those of every worker.

        What describes this process alone (its memory, its policy) is then that of the worker that answers.
        """
        self.registry = CollectorRegistry()
        self._shared: CollectorRegistry | None = None
        registry: CollectorRegistry | None = self.registry
        if workers:
            # Counters keep their values in files that all workers have; none is in a registry of its own.
            self._shared = CollectorRegistry()
            MultiProcessCollector(self._shared)
            registry = None
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self.steps = Counter(
            "modegate_steps",
            "Steps (model requests of agents) by how they ended.",
            ["outcome"],
            registry=registry,
        )
        self.hops = Counter(
            "modegate_hops",
            "Upstream requests made for steps; more than steps where calls were refused.",
            registry=registry,
        )
        self.verdicts = Counter(
            "modegate_verdicts",
            "Calls judged, by the mode in force and the verdict.",
            ["mode", "verdict"],
            registry=registry,
        )
        self.unparsable = Counter(
            "modegate_unparsable",
            "What could not be read in a mode: `request`, `frame` or `answer`.",
            ["what"],
            registry=registry,
        )

    def watch(
        self, *, lost: Callable[[], int], generation: Callable[[], int], problems: Callable[[], int]
    ) -> None:
        """Read what others count by themselves whenever the page is read."""
        self.registry.register(_Elsewhere(lost, generation, problems))

    def page(self) -> tuple[bytes, str]:
        """Give the page and its content type; of several workers what they all have counted."""
        page = generate_latest(self.registry)
        if self._shared is not None:
            page += generate_latest(self._shared)
        return page, CONTENT_TYPE_PLAIN_0_0_4


class _Elsewhere(Collector):
    def __init__(
        self, lost: Callable[[], int], generation: Callable[[], int], problems: Callable[[], int]
    ) -> None:
        self._lost = lost
        self._generation = generation
        self._problems = problems

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "modegate_recorder_lost",
            "Events that were not written to the log; no rule depends on any of them.",
            self._lost(),
        )
        yield GaugeMetricFamily(
            "modegate_policy_generation",
            "How many policies have been in force since the start.",
            self._generation(),
        )
        yield GaugeMetricFamily(
            "modegate_policy_problems",
            "Problems of the policies file as it is now; above 0 an older policy is in force.",
            self._problems(),
        )

"""What is counted, and the page on which Prometheus reads it.

A `Metrics` has a registry of its own and is passed in, so that two proxies in one process (tests) count
apart. Labels come from small fixed sets or from the policy, never from a request, so that no client can
make the page grow.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4


class Metrics:
    """The counters; whoever does a thing counts it."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """Make all counters in one registry."""
        self.registry = registry = registry or CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
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
        self.lost_batches = Counter(
            "modegate_recorder_lost_batches",
            "Batches of records that nothing depends on and that the log did not take.",
            registry=registry,
        )
        self.reload_failures = Counter(
            "modegate_policy_reload_failures",
            "Reloads of the policies file that kept the last good policy.",
            registry=registry,
        )
        self.policy_generation = Gauge(
            "modegate_policy_generation",
            "How many policies have been in force since the start.",
            registry=registry,
        )

    def watch_generation(self, generation: Callable[[], float]) -> None:
        """Read the policy's generation whenever the page is read."""
        self.policy_generation.set_function(generation)

    def page(self) -> tuple[bytes, str]:
        """Give the page and its content type."""
        return generate_latest(self.registry), CONTENT_TYPE_PLAIN_0_0_4

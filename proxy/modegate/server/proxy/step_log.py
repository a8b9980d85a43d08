"""What is recorded of a step when it is over: one structured log line, and the metrics.

Names and numbers only; never a body, an argument or a secret.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from modegate.core.ids import StepId
from modegate.core.log.events import CallJudged
from modegate.server.clock import Clock
from modegate.server.metrics import Metrics

logger = logging.getLogger("modegate.step")

GATED, RESTORED, PASSED = "gated", "restored", "passed"
"""How a step was treated: in a mode; in default mode after one; in default mode, raw."""


@dataclass(slots=True)
class StepLog:
    """One step, as far as it is known."""

    step: StepId
    clock: Clock
    metrics: Metrics
    session: str = ""
    mode: str = ""
    policy: str = ""
    endpoint: str = ""
    how: str = ""
    status: int = 0
    outcome: str = "failed"
    hops: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    held: float = 0.0
    """Seconds for which some call was held back."""
    _began: float = 0.0
    _has_answer: bool = False
    _left: float = 0.0
    _elsewhere: float = 0.0
    """Seconds until the first byte in which others were waited for."""
    _first: float = 0.0
    _holding_since: float = 0.0

    def __post_init__(self) -> None:
        self._began = self.clock.monotonic()

    def sent(self) -> None:
        self.hops += 1

    def answered(self) -> None:
        self._has_answer = True

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        """Count this time as others': the upstream, the client's body, or a person is waited for."""
        if self._first or self._left:
            yield
            return
        self._left = self.clock.monotonic()
        try:
            yield
        finally:
            self._back()

    def _back(self) -> None:
        if self._left:
            self._elsewhere += self.clock.monotonic() - self._left
            self._left = 0.0

    def head_sent(self, status: int) -> None:
        self.status = status
        if not self._first:
            self._back()
            self._first = self.clock.monotonic()

    def judged(self, event: CallJudged, *, declared: bool) -> None:
        """Count a verdict; `declared` says whether the agent has declared the tool."""
        self.verdicts[event.verdict] += 1
        self.metrics.judged(event.mode, event.tool, event.verdict, declared=declared)

    def holding(self, *, now: bool) -> None:
        if now and not self._holding_since:
            self._holding_since = self.clock.monotonic()
        elif not now and self._holding_since:
            passed = self.clock.monotonic() - self._holding_since
            self._holding_since = 0.0
            self.held += passed
            self.metrics.hold_seconds.observe(passed)

    def over(self, outcome: str) -> None:
        """Write the line and count the step."""
        self.outcome = outcome
        self.holding(now=False)
        self.metrics.steps.labels(outcome).inc()
        added = self._added()
        if added is not None:
            self.metrics.added_seconds.observe(added)
        if logger.isEnabledFor(logging.INFO):
            fields = self._fields(added)
            logger.info("%s", _console(fields), extra={"fields": fields})

    def _added(self) -> float | None:
        """Return the seconds that modegate itself took until the first byte; None without an answer."""
        if not (self._has_answer and self._first):
            return None
        return self._first - self._began - self._elsewhere

    def _fields(self, added: float | None) -> dict[str, object]:
        milliseconds = {
            "ms": self.clock.monotonic() - self._began,
            "added_ms": added,
            "held_ms": self.held or None,
        }
        fields: dict[str, object] = {
            "step": self.step,
            "session": self.session,
            "mode": self.mode,
            "policy": self.policy,
            "endpoint": self.endpoint,
            "how": self.how,
            "outcome": self.outcome,
            "status": self.status,
            "hops": self.hops,
            "verdicts": dict(self.verdicts),
        }
        fields |= {name: round(s * 1000, 2) for name, s in milliseconds.items() if s is not None}
        return {name: value for name, value in fields.items() if value not in ("", {}, 0)}


def _console(fields: dict[str, object]) -> str:
    """Return the fields as words for people: the step's id last, since it is the longest and least read."""
    shown = {name: value for name, value in fields.items() if name not in ("step", "policy")}
    verdicts = shown.pop("verdicts", {})
    if isinstance(verdicts, dict):
        shown |= verdicts
    words = [f"{name}={value}" for name, value in shown.items()]
    return " ".join([*words, f"step={fields['step']}"])

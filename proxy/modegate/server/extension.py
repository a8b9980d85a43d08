"""What endpoints for people are built on, and the interface of one that stands above the server (ACP).

The server imports no such endpoint: whoever composes the proxy passes its builder (`compose(acp=...)`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from starlette.types import ASGIApp

from modegate.server.access import Access, Sites
from modegate.server.clock import Clock
from modegate.server.control.mode_setter import ModeSetter
from modegate.server.jobs import Job
from modegate.server.log.batch_writer import BatchWriter
from modegate.server.log.folds import Folds
from modegate.server.log.protocol import EventLog
from modegate.server.metrics import Metrics
from modegate.server.policies import Policies
from modegate.server.proxy.questions import Questions


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What every endpoint for people uses: the control API, the probes, an extension."""

    log: EventLog
    folds: Folds
    policies: Policies
    approvals: Questions
    setter: ModeSetter
    access: Access
    sites: Sites
    """Under which names people reach this proxy."""
    clock: Clock
    metrics: Metrics
    batch_writer: BatchWriter
    """Writes the index of sessions in batches, or at once when asked to."""
    agents_port: int | None = None
    """The port on which agents are served, if it is another than that of people."""


class Extension(Protocol):
    """An endpoint below `/acp`, behind the guard."""

    @property
    def app(self) -> ASGIApp:
        """Serves guarded HTTP requests and WebSockets; the scope holds the grant."""

    @property
    def jobs(self) -> Sequence[Job]:
        """What must run beside the server."""

    def close(self) -> None:
        """End what would last as long as its client."""


Extend = Callable[[Services], Extension]

"""The parts of a proxy that its steps use: one set a process, built by `modegate.server.compose`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from modegate.core.dialects.registered import Dialects
from modegate.server.access import Access, Sites
from modegate.server.clock import Clock
from modegate.server.log.batch_writer import BatchWriter
from modegate.server.log.folds import Folds
from modegate.server.log.protocol import EventLog
from modegate.server.metrics import Metrics
from modegate.server.policies import Policies
from modegate.server.proxy.approvals import Approvals
from modegate.server.proxy.executor import Executor
from modegate.server.proxy.memory import Memory
from modegate.server.proxy.sending import KEEPALIVE_S
from modegate.server.proxy.sessions import Sessions
from modegate.server.proxy.watchers import Watchers
from modegate.server.upstream.pool import Upstreams


@dataclass(frozen=True, slots=True, kw_only=True)
class StepServices:
    """What every step uses."""

    log: EventLog
    folds: Folds
    """Through which events are appended, so that the state in memory needs no reading again."""
    batch_writer: BatchWriter
    sessions: Sessions
    watchers: Watchers
    approvals: Approvals
    policies: Policies
    upstreams: Upstreams
    access: Access
    """Whose tokens go to no upstream."""
    sites: Sites
    """Under which names requests are taken that get a credential of ours."""
    dialects: Dialects
    clock: Clock
    metrics: Metrics
    memory: Memory
    executor: Executor
    """Where the core decides."""
    draining: asyncio.Event
    """Set when the process is about to end: nobody is waited for any more."""
    keepalive: float = KEEPALIVE_S
    """Seconds of silence after which a client that waits is sent something."""

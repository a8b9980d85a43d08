"""The composition root: from settings to a running proxy.

Every part is built here, once, and handed to the parts that need it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from starlette.types import ASGIApp

from modegate.core.dialects.registered import DIALECTS, Dialects
from modegate.core.policy.model import Waits
from modegate.server.access import Access, Sites
from modegate.server.app import create_app
from modegate.server.clock import SystemClock
from modegate.server.control.mode_setter import ModeSetter
from modegate.server.control.routes import Control
from modegate.server.extension import Extend, Extension, Services
from modegate.server.jobs import Job
from modegate.server.log.batch_writer import BatchWriter
from modegate.server.log.folds import Folds
from modegate.server.metrics import Metrics, Watched
from modegate.server.policies import Policies
from modegate.server.proxy.approvals import Approvals
from modegate.server.proxy.asgi import Proxy
from modegate.server.proxy.executor import Executor
from modegate.server.proxy.memory import Memory
from modegate.server.proxy.sending import KEEPALIVE_S
from modegate.server.proxy.services import StepServices
from modegate.server.proxy.sessions import Sessions
from modegate.server.proxy.watchers import Watchers
from modegate.server.settings import Settings
from modegate.server.start import (
    adopt_upstreams,
    control_token,
    default_upstream,
    event_log,
    load_policies,
)
from modegate.server.upstream.pool import Upstreams


@dataclass(frozen=True, slots=True)
class Composed:
    """A proxy that is built and not yet served."""

    steps: StepServices
    services: Services
    control: Control
    jobs: tuple[Job, ...]
    """What must run beside the server."""
    acp: Extension | None = None

    def app(self, *, control_port: int | None = None) -> ASGIApp:
        acp = self.acp.app if self.acp is not None else None
        return create_app(
            self.services, Proxy(self.steps), self.control, acp, control_port=control_port
        )

    def drain(self) -> None:
        """End what would last as long as its client, or as a person thinks."""
        self.steps.draining.set()
        self.steps.watchers.wake_all()
        self.control.close()
        if self.acp is not None:
            self.acp.close()


@asynccontextmanager
async def compose(
    settings: Settings,
    *,
    dialects: Dialects = DIALECTS,
    acp: Extend | None = None,
    waits: Waits | None = None,
    keepalive: float = KEEPALIVE_S,
) -> AsyncIterator[Composed]:
    """Build everything, and close it at the end; `waits` and `keepalive` (seconds) are for tests.

    `acp` builds the endpoint at `/acp`. It stands above the server, so the caller names it.

    Raises:
        StartFailed: the policy, the script, the log or the state folder cannot be used.
    """
    async with AsyncExitStack() as stack:
        steps = _steps(settings, dialects, stack, waits, keepalive)
        services = _services(settings, steps)
        control = Control(services)
        extension = acp(services) if acp is not None else None
        jobs = (*_jobs(steps), *(extension.jobs if extension else ()))
        yield Composed(steps, services, control, jobs, extension)


def _steps(
    settings: Settings,
    dialects: Dialects,
    stack: AsyncExitStack,
    waits: Waits | None,
    keepalive: float,
) -> StepServices:
    clock, metrics, memory = SystemClock(), Metrics(workers=settings.workers > 1), Memory()
    policies = load_policies(settings, clock, dialects)
    access = _access(settings, policies, clock)
    log = event_log(settings, clock)
    stack.push_async_callback(log.close)
    upstreams = Upstreams(default_upstream(settings, dialects, stack), os.environ, dialects)
    stack.push_async_callback(upstreams.close)
    adopt_upstreams(settings, policies, upstreams)
    folds, watchers, executor = Folds(log, clock), Watchers(log), Executor()
    folds.on_append.append(watchers.changed)
    stack.callback(executor.close)
    batch_writer = BatchWriter(folds, clock)
    _observe(metrics, policies, batch_writer, memory)

    def waits_now() -> Waits:
        return waits or policies.current.approvals

    return StepServices(
        log=log,
        folds=folds,
        batch_writer=batch_writer,
        sessions=Sessions(log, folds, batch_writer, clock),
        watchers=watchers,
        approvals=Approvals(folds, log, clock, waits=waits_now, watchers=watchers),
        policies=policies,
        upstreams=upstreams,
        access=access,
        sites=Sites(hosts=settings.hosts, bound=settings.host),
        dialects=dialects,
        clock=clock,
        metrics=metrics,
        memory=memory,
        executor=executor,
        draining=asyncio.Event(),
        keepalive=keepalive,
    )


def _services(settings: Settings, steps: StepServices) -> Services:
    return Services(
        log=steps.log,
        folds=steps.folds,
        policies=steps.policies,
        approvals=steps.approvals,
        setter=ModeSetter(steps.log, steps.folds, steps.policies),
        access=steps.access,
        sites=Sites(hosts=settings.hosts, bound=settings.control_host or settings.host),
        clock=steps.clock,
        metrics=steps.metrics,
        batch_writer=steps.batch_writer,
        agents_port=None if settings.control_port is None else settings.port,
    )


def _jobs(steps: StepServices) -> tuple[Job, ...]:
    return (
        Job("the policy watcher", steps.policies.watch),
        Job("the watcher of answers under way", steps.watchers.run),
        Job("the questions that nobody comes back for", steps.approvals.run),
        Job("the recorder", steps.batch_writer.run, steps.batch_writer.stop),
        Job("the upstreams", steps.upstreams.tidy),
    )


def _observe(
    metrics: Metrics, policies: Policies, batch_writer: BatchWriter, memory: Memory
) -> None:
    policies.on_failure.append(lambda _: metrics.policy_reload_failures.inc())
    metrics.watch(
        Watched(
            lost=lambda: batch_writer.lost,
            generation=lambda: policies.status.generation,
            problems=lambda: len(policies.status.problems),
            tasks=lambda: len(asyncio.all_tasks()),
            held=lambda: memory.held,
            policy=lambda: policies.current.hash,
        )
    )


def _access(settings: Settings, policies: Policies, clock: SystemClock) -> Access:
    access = Access(control_token(settings), policies, os.environ, clock=clock)
    access.report()
    policies.on_change.append(lambda _: access.report())
    return access

"""The composition root: from settings to a running proxy.

Every part is built here, once, and handed to the parts that need it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from starlette.types import ASGIApp

from modegate.core.dialects.registered import DIALECTS, Dialects
from modegate.core.errors import LogUnavailable
from modegate.core.policy.model import Waits
from modegate.core.policy.problems import PolicyProblems, Problem
from modegate.scripted.upstream import ScriptedUpstream
from modegate.server.access import Access, Sites
from modegate.server.app import create_app
from modegate.server.clock import SystemClock
from modegate.server.control.mode_setter import ModeSetter
from modegate.server.control.routes import Control
from modegate.server.control.token_file import ensure_token, weakness
from modegate.server.extension import Extend, Extension, Services
from modegate.server.jobs import Job, StartFailed
from modegate.server.log.batch_writer import BatchWriter
from modegate.server.log.folds import Folds
from modegate.server.log.open import open_log
from modegate.server.log.protocol import EventLog
from modegate.server.log.trusted_store import IDENTITY_FILE, TrustedStore
from modegate.server.metrics import Metrics, Watched
from modegate.server.policies import Policies
from modegate.server.printable import problem_line
from modegate.server.proxy.approvals import Approvals
from modegate.server.proxy.asgi import Proxy
from modegate.server.proxy.executor import Executor
from modegate.server.proxy.keep_alive import KEEPALIVE_S
from modegate.server.proxy.memory import Memory
from modegate.server.proxy.services import StepServices
from modegate.server.proxy.sessions import Sessions
from modegate.server.proxy.watchers import Watchers
from modegate.server.settings import Settings
from modegate.server.upstream.http import HttpUpstream
from modegate.server.upstream.pool import Default, Upstreams
from modegate.server.upstream.protocol import Upstream


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
        """Return the ASGI callable; with `control_port`, what is for people is served there alone."""
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
        control = Control(
            log=services.log,
            folds=services.folds,
            policies=services.policies,
            approvals=services.approvals,
            clock=services.clock,
            access=services.access,
        )
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
    """Build what steps use; whatever must be closed goes onto the stack."""
    clock, metrics, memory = SystemClock(), Metrics(workers=settings.workers > 1), Memory()
    policies = _policies(settings.policies, clock, dialects)
    access = _access(settings, policies, clock)
    log = _log(settings, clock)
    stack.push_async_callback(log.close)
    upstreams = Upstreams(_default(settings.upstream, dialects, stack), os.environ, dialects)
    stack.push_async_callback(upstreams.close)
    _adopt(settings.policies, policies, upstreams)
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
    policies.on_failure.append(lambda _: metrics.reload_failures.inc())
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
    token = settings.control_token or _stored_token(settings.state_dir)
    access = Access(token, policies, os.environ, clock=clock)
    access.report()
    policies.on_change.append(lambda _: access.report())
    return access


def _log(settings: Settings, clock: SystemClock) -> EventLog:
    try:
        trusted = TrustedStore(settings.state_dir / IDENTITY_FILE, settings.log_id)
        return open_log(settings.log, clock, trusted)
    except (ValueError, LogUnavailable) as error:
        raise StartFailed(f"Error: {error}") from error


def _policies(path: Path, clock: SystemClock, dialects: Dialects) -> Policies:
    try:
        return Policies.load(path, clock, dialects.names)
    except PolicyProblems as error:
        raise StartFailed(*_lines(path, error.problems), exit_code=2) from error


def _lines(path: Path, problems: tuple[Problem, ...]) -> list[str]:
    return [problem_line(path, problem) for problem in problems]


def _stored_token(state_dir: Path) -> str:
    try:
        token = ensure_token(state_dir)
    except OSError as error:
        raise StartFailed(
            f"Error: no control token can be kept in {state_dir}: {error.strerror or error}; "
            "set MODEGATE_STATE_DIR or MODEGATE_CONTROL_TOKEN"
        ) from error
    if why := weakness(token):
        raise StartFailed(
            f"Error: the control token in {state_dir} {why}; without the file one is made",
            exit_code=2,
        )
    return token


def _adopt(path: Path, policies: Policies, upstreams: Upstreams) -> None:
    try:
        policies.adopted_by(upstreams.adopt)
    except PolicyProblems as error:
        raise StartFailed(*_lines(path, error.problems), exit_code=2) from error


def _default(setting: str | None, dialects: Dialects, stack: AsyncExitStack) -> Default:
    def http(url: str) -> Upstream:
        upstream = HttpUpstream(url)
        stack.push_async_callback(upstream.close)
        return upstream

    try:
        if setting is None:
            homes = {home: http(home) for home in {api.home for api in dialects.apis.all}}
            return lambda api: homes[api.home]
        if setting.startswith("scripted:"):
            only = _scripted(Path(setting.removeprefix("scripted:")).expanduser())
        else:
            only = http(setting)
    except ValueError as error:
        raise StartFailed(f"Error: upstream: {error}", exit_code=2) from error
    return lambda _api: only


def _scripted(path: Path) -> Upstream:
    try:
        return ScriptedUpstream.from_file(path)
    except OSError as error:
        raise StartFailed(f"Error: {path}: {error.strerror}", exit_code=2) from error
    except PolicyProblems as error:
        raise StartFailed(*_lines(path, error.problems), exit_code=2) from error


def check_start(settings: Settings) -> float:
    """Check what several workers would all find wrong; give the seconds that requests get at the end.

    Raises:
        StartFailed: the policy or the state folder cannot be used.
    """
    policies = _policies(settings.policies, SystemClock(), DIALECTS)
    if not settings.control_token:
        _stored_token(settings.state_dir)
    return policies.current.limits.drain

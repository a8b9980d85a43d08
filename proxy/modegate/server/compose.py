"""The composition root: from settings to a running proxy.

Every part is built here, once, and handed to the parts that need it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from modegate.core.dialects.chat.dialect import CHAT
from modegate.core.dialects.messages.dialect import MESSAGES
from modegate.core.dialects.responses.dialect import COMPACT, RESPONSES
from modegate.core.endpoints import Kind
from modegate.core.errors import LogUnavailable
from modegate.core.policy.model import Waits
from modegate.core.policy.problems import PolicyProblems, Problem
from modegate.scripted.upstream import ScriptedUpstream
from modegate.server.access import Access, Sites
from modegate.server.app import Parts
from modegate.server.clock import SystemClock
from modegate.server.control.mode_setter import ModeSetter
from modegate.server.control.routes import Control
from modegate.server.control.token_file import ensure_token, weakness
from modegate.server.extension import Extend, Extension, Services
from modegate.server.jobs import Job, StartFailed
from modegate.server.log.batch_writer import BatchWriter
from modegate.server.log.folds import Folds
from modegate.server.log.home import HOME_FILE, Home
from modegate.server.log.open import open_log
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
from modegate.server.upstream.pool import ANTHROPIC, OPENAI, Default, Upstreams
from modegate.server.upstream.protocol import Upstream

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Composed:
    """A proxy that is built and not yet served."""

    parts: Parts
    policies: Policies
    upstreams: Upstreams
    batch_writer: BatchWriter
    jobs: tuple[Job, ...]
    """What must run beside the server."""
    draining: asyncio.Event
    memory: Memory
    watchers: Watchers
    acp: Extension | None = None

    def drain(self) -> None:
        """End what would last as long as its client, or as a person thinks."""
        self.draining.set()
        self.watchers.wake_all()
        self.parts.control.close()
        if self.acp is not None:
            self.acp.close()


@asynccontextmanager
async def compose(
    settings: Settings,
    *,
    acp: Extend | None = None,
    waits: Waits | None = None,
    keepalive: float = KEEPALIVE_S,
) -> AsyncIterator[Composed]:
    """Build everything, and let go of it at the end; `waits` and `keepalive` (seconds) for tests.

    `acp` builds the endpoint at `/acp`; it stands above the server, so that the caller names it.

    Raises:
        StartFailed: the policy, the script, the log or the state folder cannot be used.
    """
    clock, metrics = SystemClock(), Metrics(workers=settings.workers > 1)
    policies = _policies(settings.policies, clock)
    token = settings.control_token or _stored_token(settings.state_dir)
    access = Access(token, policies, os.environ, clock=clock)
    access.report()
    policies.on_change.append(lambda _: access.report())
    async with AsyncExitStack() as stack:
        try:
            home = Home(settings.state_dir / HOME_FILE, settings.log_id)
            log = open_log(settings.log, clock, home)
        except (ValueError, LogUnavailable) as error:
            raise StartFailed(f"Error: {error}") from error
        stack.push_async_callback(log.close)
        upstreams = Upstreams(_default(settings.upstream, stack), os.environ)
        stack.push_async_callback(upstreams.close)
        _adopt(settings.policies, policies, upstreams)
        folds = Folds(log, clock)
        watchers = Watchers(log)
        folds.on_append.append(watchers.changed)
        batch_writer = BatchWriter(folds, clock)
        approvals = Approvals(
            folds,
            log,
            clock,
            waits=lambda: waits or policies.current.approvals,
            watchers=watchers,
        )
        draining, memory, executor = asyncio.Event(), Memory(), Executor()
        stack.callback(executor.close)
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
        sites = Sites(hosts=settings.hosts, bound=settings.host)
        people = Sites(hosts=settings.hosts, bound=settings.control_host or settings.host)
        reach = StepServices(
            log=log,
            folds=folds,
            sessions=Sessions(log, folds, batch_writer, clock),
            batch_writer=batch_writer,
            policies=policies,
            upstreams=upstreams,
            access=access,
            sites=sites,
            dialects={
                Kind.CHAT: CHAT,
                Kind.MESSAGES: MESSAGES,
                Kind.COUNT_TOKENS: MESSAGES,
                Kind.RESPONSES: RESPONSES,
                Kind.INPUT_TOKENS: RESPONSES,
                Kind.COMPACT: COMPACT,
            },
            clock=clock,
            metrics=metrics,
            memory=memory,
            executor=executor,
            approvals=approvals,
            draining=draining,
            watchers=watchers,
            keepalive=keepalive,
        )
        shared = Services(
            log=log,
            folds=folds,
            policies=policies,
            approvals=approvals,
            setter=ModeSetter(log, folds, policies),
            access=access,
            clock=clock,
            batch_writer=batch_writer,
            agents_port=None if settings.control_port is None else settings.port,
        )
        extension = acp(shared) if acp is not None else None
        parts = Parts(
            proxy=Proxy(reach),
            log=log,
            policies=policies,
            control=Control(
                log=log,
                folds=folds,
                policies=policies,
                approvals=approvals,
                clock=clock,
                access=access,
            ),
            metrics=metrics,
            access=access,
            sites=people,
            acp=extension.app if extension else None,
        )
        jobs = (
            Job("the policy watcher", policies.watch),
            Job("the watcher of answers under way", watchers.run),
            Job("the questions that nobody comes back for", approvals.run),
            Job("the recorder", batch_writer.run, batch_writer.stop),
            Job("the upstreams", upstreams.tidy),
            *(extension.jobs if extension else ()),
        )
        yield Composed(
            parts, policies, upstreams, batch_writer, jobs, draining, memory, watchers, extension
        )


def _policies(path: Path, clock: SystemClock) -> Policies:
    try:
        return Policies.load(path, clock)
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


def _default(setting: str | None, stack: AsyncExitStack) -> Default:
    def http(url: str) -> Upstream:
        upstream = HttpUpstream(url)
        stack.push_async_callback(upstream.close)
        return upstream

    try:
        if setting is None:
            openai, anthropic = http(OPENAI), http(ANTHROPIC)
            return lambda dialect: anthropic if dialect == "messages" else openai
        if setting.startswith("scripted:"):
            only = _scripted(Path(setting.removeprefix("scripted:")).expanduser())
        else:
            only = http(setting)
    except ValueError as error:
        raise StartFailed(f"Error: upstream: {error}", exit_code=2) from error
    return lambda _dialect: only


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
    policies = _policies(settings.policies, SystemClock())
    if not settings.control_token:
        _stored_token(settings.state_dir)
    return policies.current.limits.drain

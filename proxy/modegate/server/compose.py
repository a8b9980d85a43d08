"""The composition root: from settings to a running proxy.

Every part is built here, once, and handed to the parts that need it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from modegate import __version__
from modegate.core.approvals import WAITS, Waits
from modegate.core.dialects.chat.dialect import ChatDialect
from modegate.core.dialects.messages.dialect import MessagesDialect
from modegate.core.dialects.responses.dialect import ResponsesDialect
from modegate.core.endpoints import Kind
from modegate.core.errors import LogUnavailable
from modegate.core.problems import PolicyProblems, Problem
from modegate.server import logs
from modegate.server.access import WILDCARDS, Access, Sites
from modegate.server.app import Parts, create_app
from modegate.server.approvals import KEEPALIVE_S, Approvals
from modegate.server.clock import SystemClock
from modegate.server.control import Control
from modegate.server.eventlog_open import open_log
from modegate.server.extension import Extend, Extension, Shared
from modegate.server.folds import Folds
from modegate.server.metrics import Metrics
from modegate.server.mode_setter import ModeSetter
from modegate.server.policies import Policies
from modegate.server.printable import printable, problem_line
from modegate.server.proxy import Proxy
from modegate.server.recorder import Recorder
from modegate.server.serving import (
    Job,
    Server,
    StartFailed,
    bind,
    new_event_loop,
    serve_with,
    tune_malloc,
)
from modegate.server.sessions import Sessions
from modegate.server.settings import Settings
from modegate.server.step import Reach
from modegate.server.token_file import TOKEN_FILE, ensure_token
from modegate.server.upstream import Upstream
from modegate.server.upstream_http import HttpUpstream
from modegate.server.upstream_scripted import ScriptedUpstream
from modegate.server.upstreams import Default, Upstreams

logger = logging.getLogger(__name__)

OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com"


@dataclass(frozen=True, slots=True)
class Composed:
    """A proxy that is built and not yet served."""

    parts: Parts
    policies: Policies
    upstreams: Upstreams
    recorder: Recorder
    jobs: tuple[Job, ...]
    """What must run beside the server."""
    draining: asyncio.Event
    acp: Extension | None = None

    def drain(self) -> None:
        """End what would last as long as its client, or as a person thinks."""
        self.draining.set()
        self.parts.control.close()
        if self.acp is not None:
            self.acp.close()


@asynccontextmanager
async def compose(
    settings: Settings,
    *,
    acp: Extend | None = None,
    waits: Waits = WAITS,
    keepalive: float = KEEPALIVE_S,
) -> AsyncIterator[Composed]:
    """Build everything, and let go of it at the end; `waits` and `keepalive` (seconds) for tests.

    `acp` builds the endpoint at `/acp`; it stands above the server, so that the caller names it.

    Raises:
        StartFailed: the policy, the script, the log or the state folder cannot be used.
    """
    clock, metrics = SystemClock(), Metrics()
    policies = _policies(settings.policies, clock)
    token = settings.control_token or _stored_token(settings.state_dir)
    access = Access(token, policies, os.environ)
    access.report()
    policies.on_change.append(lambda _: access.report())
    async with AsyncExitStack() as stack:
        try:
            log = open_log(settings.log, clock)
        except (ValueError, LogUnavailable) as error:
            raise StartFailed(f"Error: {error}") from error
        stack.push_async_callback(log.close)
        upstreams = Upstreams(_default(settings.upstream, stack), os.environ)
        stack.push_async_callback(upstreams.close)
        _adopt(settings.policies, policies, upstreams)
        folds = Folds(log, clock)
        recorder = Recorder(folds, clock)
        approvals = Approvals(folds, log, clock, waits=waits, keepalive=keepalive)
        draining = asyncio.Event()
        messages, responses = MessagesDialect(), ResponsesDialect()
        metrics.watch(
            lost=lambda: recorder.lost,
            generation=lambda: policies.status.generation,
            problems=lambda: len(policies.status.problems),
        )
        sites = Sites(hosts=settings.hosts, bound=settings.host)
        reach = Reach(
            eventlog=log,
            folds=folds,
            sessions=Sessions(log, folds, recorder, clock),
            recorder=recorder,
            policies=policies,
            upstreams=upstreams,
            sites=sites,
            dialects={
                Kind.CHAT: ChatDialect(),
                Kind.MESSAGES: messages,
                Kind.COUNT_TOKENS: messages,
                Kind.RESPONSES: responses,
                Kind.INPUT_TOKENS: responses,
            },
            clock=clock,
            metrics=metrics,
            approvals=approvals,
            draining=draining,
        )
        shared = Shared(
            log=log,
            folds=folds,
            policies=policies,
            approvals=approvals,
            setter=ModeSetter(log, folds, policies),
            access=access,
            clock=clock,
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
            sites=sites,
            acp=extension.app if extension else None,
        )
        jobs = (
            Job("the policy watcher", policies.watch),
            Job("the recorder", recorder.run, recorder.stop),
            Job("the upstreams", upstreams.tidy),
            *(extension.jobs if extension else ()),
        )
        yield Composed(parts, policies, upstreams, recorder, jobs, draining, extension)


def _policies(path: Path, clock: SystemClock) -> Policies:
    try:
        return Policies.load(path, clock)
    except PolicyProblems as error:
        raise StartFailed(*_lines(path, error.problems), exit_code=2) from error


def _lines(path: Path, problems: tuple[Problem, ...]) -> list[str]:
    return [problem_line(path, problem) for problem in problems]


def _stored_token(state_dir: Path) -> str:
    try:
        return ensure_token(state_dir)
    except OSError as error:
        raise StartFailed(
            f"Error: no control token can be kept in {state_dir}: {error.strerror or error}; "
            "set MODEGATE_STATE_DIR or MODEGATE_CONTROL_TOKEN"
        ) from error


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


def run(settings: Settings, *, acp: Extend | None = None) -> None:
    """Serve until SIGTERM or SIGINT; `acp` as in `compose`.

    Raises:
        StartFailed: the process cannot start.
        TaskDied: it had to end.
    """
    logs.configure(settings.log_level, settings.log_format)
    tune_malloc()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(settings, acp))


async def _serve(settings: Settings, acp: Extend | None) -> None:
    async with compose(settings, acp=acp) as composed:
        with bind(settings.host, settings.port) as listener:
            port = listener.getsockname()[1]
            server = Server(
                create_app(composed.parts),
                drain=composed.policies.current.limits.drain,
                on_drain=composed.drain,
                on_start=lambda: _tell(settings, port, composed),
            )
            await serve_with(server, listener, composed.jobs)


async def _tell(settings: Settings, port: int, composed: Composed) -> None:
    sys.stderr.write(banner(settings, port, composed.policies))
    sys.stderr.flush()
    if settings.host in WILDCARDS:
        logger.warning("everyone who reaches port %d can send requests here", port)
    try:
        await composed.parts.log.ping()
    except LogUnavailable as error:
        logger.warning("the log does not answer yet, so no request is served: %s", error)


def banner(settings: Settings, port: int, policies: Policies) -> str:
    """Give what an operator needs to know at the start."""
    host = "localhost" if settings.host in WILDCARDS else settings.host
    base = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    modes = ", ".join(policies.current.modes) or "none"
    token = "MODEGATE_CONTROL_TOKEN" if settings.control_token else settings.state_dir / TOKEN_FILE
    rows = {
        "agents": f"{base}/s/SESSION/v1 (as base URL; Anthropic clients: {base}/s/SESSION)",
        "control": f"{base}/control/v1 (token in {token})",
        "policy": f"{settings.policies} ({policies.current.hash}; modes: {modes})",
        "log": _without_credentials(settings.log),
        "upstream": settings.upstream or "the OpenAI and Anthropic APIs, with clients' credentials",
    }
    lines = [f"modegate {__version__} on {base}"]
    lines += [printable(f"  {name:<9} {text}") for name, text in rows.items()]
    return "\n".join(lines) + "\n"


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl() if "@" in url else url

"""From settings to a process that serves: its addresses, its start message, its end."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from socket import socket
from urllib.parse import urlsplit

from modegate import __version__
from modegate.core.errors import LogUnavailable
from modegate.server import logs
from modegate.server.access import WILDCARDS
from modegate.server.compose import Composed, compose
from modegate.server.control.token_file import TOKEN_FILE
from modegate.server.extension import Extend
from modegate.server.jobs import StartFailed
from modegate.server.policies import Policies
from modegate.server.printable import printable
from modegate.server.process.connection_limits import room_for_agents
from modegate.server.process.serving import (
    Server,
    bind,
    calm_collector,
    new_event_loop,
    on_hangup,
    serve_with,
    tune_malloc,
)
from modegate.server.process.socket_activation import inherited_sockets
from modegate.server.process.workers import WORKER, supervise
from modegate.server.proxy.executor import share_turns
from modegate.server.settings import Settings
from modegate.server.start import check_start

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Addresses:
    """The sockets that are listened on."""

    agents: socket
    control: socket | None = None
    """None: what is for people is served to everyone who reaches the agents' address."""
    inherited: bool = False
    """Whether a parent has opened them."""

    @property
    def port(self) -> int:
        return int(self.agents.getsockname()[1])

    @property
    def control_port(self) -> int | None:
        """Where people are served, if at a port of their own."""
        return None if self.control is None else int(self.control.getsockname()[1])

    def applied_to(self, settings: Settings) -> Settings:
        """Return the settings with the addresses of sockets that a parent has chosen."""
        if not self.inherited:
            return settings
        host, port = self.agents.getsockname()[:2]
        people = self.control.getsockname()[:2] if self.control else (None, None)
        return replace(
            settings, host=host, port=port, control_host=people[0], control_port=people[1]
        )

    def close(self) -> None:
        for one in self.all():
            one.close()

    def all(self) -> list[socket]:
        return [self.agents, *([self.control] if self.control else ())]


@contextmanager
def listening(settings: Settings) -> Iterator[Addresses]:
    """Bind all addresses, unless a parent has done so, and let go of them at the end.

    Raises:
        StartFailed: one is taken, or not of this machine; or sockets were passed that cannot be used.
    """
    with ExitStack() as stack:
        if sockets := [
            stack.enter_context(one) for one in inherited_sockets(os.environ, os.getpid())
        ]:
            if len(sockets) == 1 and settings.control_port is not None:
                raise StartFailed(
                    "Error: one socket was passed, and control_port wants one for people too"
                )
            yield Addresses(sockets[0], sockets[-1] if sockets[1:] else None, inherited=True)
            return
        agents = stack.enter_context(bind(settings.host, settings.port))
        control = None
        if settings.control_port is not None:
            host = settings.control_host or settings.host
            control = stack.enter_context(bind(host, settings.control_port, "--control-port"))
        yield Addresses(agents, control)


def run(settings: Settings, *, acp: Extend | None = None) -> None:
    """Serve until SIGTERM or SIGINT; `acp` as in `compose`.

    Raises:
        StartFailed: the process cannot start.
        TaskDied: it had to end.
    """
    logs.configure(settings.log_level, settings.log_format)
    on_hangup(lambda: None)  # until there is a policy to be read again
    with listening(settings) as addresses:
        settings = addresses.applied_to(settings)
        if settings.workers == 1:
            work(settings, addresses, acp)
            return
        # What is wrong with the settings is reported once, and not by every worker.
        drain = check_start(settings)
        arguments = (settings, addresses, acp)
        supervise(work, arguments, settings.workers, drain=drain, on_end=addresses.close)


def work(settings: Settings, addresses: Addresses, acp: Extend | None) -> None:
    """Serve on sockets that are bound already: the whole process, or one of its workers."""
    logs.configure(settings.log_level, settings.log_format)
    tune_malloc()
    share_turns()
    calm_collector()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(settings, addresses, acp))


async def _serve(settings: Settings, addresses: Addresses, acp: Extend | None) -> None:
    async with compose(settings, acp=acp) as composed:
        server = Server(
            composed.app(control_port=addresses.control_port),
            drain=composed.services.policies.current.limits.drain,
            connections=room_for_agents(settings.connections),
            on_drain=composed.drain,
            on_start=lambda: _tell(settings, addresses, composed),
            on_hangup=composed.services.policies.reread,
        )
        await serve_with(server, addresses.all(), composed.jobs)


async def _tell(settings: Settings, addresses: Addresses, composed: Composed) -> None:
    if os.environ.get(WORKER, "1") == "1":
        ports = (addresses.port, addresses.control_port or addresses.port)
        told = facts(settings, ports, composed.services.policies)
        logs.say_fields(banner(told), {"event": "started", **told})
        if settings.host in WILDCARDS:
            logger.warning("everyone who reaches port %d can send requests here", addresses.port)
    try:
        await composed.services.log.ping()
        for warning in await composed.services.log.warnings():
            logger.warning("%s", warning)
    except LogUnavailable as error:
        logger.warning("the log is not ready, so that not every request is served: %s", error)


def facts(settings: Settings, ports: tuple[int, int], policies: Policies) -> dict[str, str]:
    """Return what an operator needs to know at the start; `ports` are those of agents and of control."""
    base = _base(settings.host, ports[0])
    control = _base(settings.control_host or settings.host, ports[1])
    modes = ", ".join(policies.current.modes) or "none"
    token = "MODEGATE_CONTROL_TOKEN" if settings.control_token else settings.state_dir / TOKEN_FILE
    rows = {
        "modegate": f"{__version__} on {base}",
        "agents": f"{base}/s/SESSION/v1 (as base URL; Anthropic clients: {base}/s/SESSION)",
        "control": f"{control}/control/v1 (token in {token})",
        "acp": f"{control}/acp (the same token; or start `modegate acp` from an editor)",
        "policy": f"{settings.policies} ({policies.current.hash}; modes: {modes})",
        "log": _without_credentials(settings.log),
        "upstream": settings.upstream or "the OpenAI and Anthropic APIs, with clients' credentials",
    }
    if settings.workers > 1:
        rows["workers"] = str(settings.workers)
    return rows


def banner(told: dict[str, str]) -> str:
    first, *rest = told.items()
    lines = [" ".join(first)]
    lines += [printable(f"  {name:<9} {text}") for name, text in rest]
    return "\n".join(lines) + "\n"


def _base(host: str, port: int) -> str:
    name = "localhost" if host in WILDCARDS else host
    return f"http://{f'[{name}]' if ':' in name else name}:{port}"


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl() if "@" in url else url

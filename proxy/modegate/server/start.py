"""What a process starts from, outside itself: the policy, the control token, the log, the upstream.

Whatever of it cannot be used is a `StartFailed` with lines for the operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

from modegate.core.dialects.registered import DIALECTS, Dialects
from modegate.core.errors import LogUnavailable
from modegate.core.policy.file.problems import PolicyProblems
from modegate.scripted.upstream import ScriptedUpstream
from modegate.server.clock import Clock, SystemClock
from modegate.server.control.token_file import ensure_token, weakness
from modegate.server.jobs import StartFailed
from modegate.server.log.open import open_log
from modegate.server.log.protocol import EventLog
from modegate.server.log.trusted_store import IDENTITY_FILE, TrustedStore
from modegate.server.policies import Policies
from modegate.server.printable import problem_line
from modegate.server.settings import Settings
from modegate.server.upstream.http import HttpUpstream
from modegate.server.upstream.pool import Default, Upstreams
from modegate.server.upstream.protocol import Upstream


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except PolicyProblems as error:
        lines = [problem_line(path, problem) for problem in error.problems]
        raise StartFailed(*lines, exit_code=2) from error


def load_policies(settings: Settings, clock: Clock, dialects: Dialects) -> Policies:
    with _told(settings.policies):
        return Policies.load(settings.policies, clock, dialects.names)


def adopt_upstreams(settings: Settings, policies: Policies, upstreams: Upstreams) -> None:
    """Put the upstreams of the policy in force, and those of each later one."""
    with _told(settings.policies):
        policies.adopted_by(upstreams.adopt)


def control_token(settings: Settings) -> str:
    """Return the process's own token: the given one, else that of the state folder."""
    if settings.control_token:
        return settings.control_token
    folder = settings.state_dir
    try:
        token = ensure_token(folder)
    except OSError as error:
        raise StartFailed(
            f"Error: no control token can be kept in {folder}: {error.strerror or error}; "
            "set MODEGATE_STATE_DIR or MODEGATE_CONTROL_TOKEN"
        ) from error
    if why := weakness(token):
        raise StartFailed(
            f"Error: the control token in {folder} {why}; without the file one is made", exit_code=2
        )
    return token


def event_log(settings: Settings, clock: Clock) -> EventLog:
    try:
        trusted = TrustedStore(settings.state_dir / IDENTITY_FILE, settings.log_id)
        return open_log(settings.log, clock, trusted)
    except (ValueError, LogUnavailable) as error:
        raise StartFailed(f"Error: {error}") from error


def default_upstream(settings: Settings, dialects: Dialects, stack: AsyncExitStack) -> Default:
    """Return who answers requests that no route leads elsewhere; connections are closed with the stack."""
    setting = settings.upstream

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
        with _told(path):
            return ScriptedUpstream.from_file(path)
    except OSError as error:
        raise StartFailed(f"Error: {path}: {error.strerror}", exit_code=2) from error


def check_start(settings: Settings) -> float:
    """Check what several workers would all find wrong; return the seconds that requests get at the end.

    Raises:
        StartFailed: the policy or the state folder cannot be used.
    """
    policies = load_policies(settings, SystemClock(), DIALECTS)
    control_token(settings)
    return policies.current.limits.drain

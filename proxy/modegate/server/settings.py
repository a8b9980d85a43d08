"""Every setting of the process: its default, its check, and its text in `--help` and the docs.

The command line makes one option and one variable of each field (`--port`, `MODEGATE_PORT`) and passes the
finished `Settings` on. Nothing else in modegate reads the environment for configuration.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import urlsplit

from modegate.server.control.token_file import weakness
from modegate.server.log.open import FORMS, opener

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["console", "json"]

MAX_WORKERS = 256

_LOG_ID = re.compile(r"[A-Za-z0-9-]{8,64}")


class BadSettings(ValueError):
    """Settings that cannot be used; `problems` names all of them, one line each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def default_state_dir() -> Path:
    """Return `$XDG_STATE_HOME/modegate` (XDG Base Directory Specification), by default below `~`."""
    base = os.environ.get("XDG_STATE_HOME", "")
    # The specification says that a relative path is to be ignored.
    home = Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state"
    return home / "modegate"


def shipped_policies() -> Path:
    """Return the policies file that comes with modegate: in the wheel, else at the checkout's root."""
    package = Path(__file__).parents[1]
    packed = package / "policies.yaml"
    return packed if packed.exists() else package.parents[1] / "policies.yaml"


def default_policies() -> Path:
    """Return `policies.yaml` of the working directory, else the one that comes with modegate."""
    local = Path("policies.yaml")
    return local if local.exists() else shipped_policies()


def _about(text: str, shown: str = "") -> dict[str, str]:
    # `shown` describes a default that is computed.
    return {"help": text, "shown": shown}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How one process runs. Building one checks it whole.

    Raises:
        BadSettings: with every problem found.
    """

    host: str = field(default="127.0.0.1", metadata=_about("Address to listen on."))
    port: int = field(default=8484, metadata=_about("Port to listen on; 0 takes a free one."))
    control_host: str | None = field(
        default=None,
        metadata=_about(
            "Address of the control API, ACP and metrics, where they have a port of their own.",
            "that of --host",
        ),
    )
    control_port: int | None = field(
        default=None,
        metadata=_about(
            "Port on which alone the control API, ACP and metrics are served, so that agents can be kept "
            "away from them.",
            "that of --port",
        ),
    )
    workers: int = field(
        default=1, metadata=_about("Processes that serve; each core can keep one busy.")
    )
    connections: int | None = field(
        default=None,
        metadata=_about(
            "Connections with a request of an agent at one time, in each process; people have some more.",
            "10,000, or as many as the limit of open files allows",
        ),
    )
    policies: Path = field(
        default_factory=default_policies,
        metadata=_about(
            "The policies file; it is watched and reloaded.",
            "./policies.yaml if there is one, else the shipped file",
        ),
    )
    log: str = field(
        default="", metadata=_about(f"Where the event log lives: {FORMS}.", "STATE_DIR/log.db")
    )
    log_id: str | None = field(
        default=None,
        metadata=_about(
            "Identity that the event log must have, for processes without a state folder that lasts; any "
            "other, and an empty one, is refused until `modegate log adopt`.",
            "that of the log that is met first, kept in STATE_DIR/log-id",
        ),
    )
    upstream: str | None = field(
        default=None,
        metadata=_about(
            "Who answers model requests: a base URL, or scripted:FILE.",
            "OpenAI API, or Anthropic API for Messages, with the client's own credentials",
        ),
    )
    control_token: str | None = field(
        default=None,
        metadata=_about(
            "Bearer token of the control API; better set as a variable, since others can read flags.",
            "made at the first start and kept in STATE_DIR/control-token",
        ),
    )
    hosts: tuple[str, ...] = field(
        default=(),
        metadata=_about(
            "Further Host names under which the control API is reached, separated by commas.",
            "loopback names and the address listened on",
        ),
    )
    state_dir: Path = field(
        default_factory=default_state_dir,
        metadata=_about(
            "Folder for what must outlive the process.",
            "$XDG_STATE_HOME/modegate, else ~/.local/state/modegate",
        ),
    )
    log_level: LogLevel = field(
        default="info", metadata=_about("Least serious message that is written to stderr.")
    )
    log_format: LogFormat = field(
        default="console", metadata=_about("How messages look on stderr.")
    )

    def __post_init__(self) -> None:
        """Fill in the log's place and check everything."""
        if not self.log:
            object.__setattr__(self, "log", f"sqlite:{self.state_dir / 'log.db'}")
        if problems := list(_problems(self)):
            raise BadSettings(problems)


def _problems(settings: Settings) -> Iterator[str]:
    if not settings.host:
        yield "host: must not be empty"
    if not 0 <= settings.port <= 65535:
        yield f"port: {settings.port} is not between 0 and 65535"
    if settings.connections is not None and settings.connections < 1:
        yield f"connections: {settings.connections} is less than 1"
    yield from _control_problems(settings)
    yield from _outside_problems(settings)


def _outside_problems(settings: Settings) -> Iterator[str]:
    if not 1 <= settings.workers <= MAX_WORKERS:
        yield f"workers: {settings.workers} is not between 1 and {MAX_WORKERS}"
    if opener(settings.log) is None:
        yield f"log: {_shown(settings.log)!r} is none of {FORMS}"
    if settings.log_id is not None and not _LOG_ID.fullmatch(settings.log_id):
        yield f"log_id: {settings.log_id[:64]!r} is not 8 to 64 letters, digits and -"
    if settings.upstream is not None and (problem := _upstream_problem(settings.upstream)):
        yield f"upstream: {problem}"
    token = settings.control_token
    if token is not None and (why := weakness(token)):
        yield f"control_token: {why}"
    for host in settings.hosts:
        if not host or "/" in host:
            yield f"hosts: {host!r} is not a host name; give NAME or NAME:PORT"
    if settings.log_level not in get_args(LogLevel):
        yield f"log_level: {settings.log_level!r} is none of {', '.join(get_args(LogLevel))}"
    if settings.log_format not in get_args(LogFormat):
        yield f"log_format: {settings.log_format!r} is none of {', '.join(get_args(LogFormat))}"


def _control_problems(settings: Settings) -> Iterator[str]:
    port = settings.control_port
    if port is None:
        if settings.control_host is not None:
            yield "control_host: needs control_port, or control is served where agents are"
    elif not 0 <= port <= 65535:
        yield f"control_port: {port} is not between 0 and 65535"
    elif port and port == settings.port:
        yield f"control_port: {port} is the port of agents; leave it out to serve both there"


def _upstream_problem(upstream: str) -> str | None:
    if upstream.startswith("scripted:"):
        return None if len(upstream) > len("scripted:") else "scripted: needs a file"
    try:
        parts = urlsplit(upstream)
        _ = parts.port  # raises for one that is no number
    except ValueError as error:
        return f"not a URL: {error}"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return f"{_shown(upstream)!r} is neither http(s)://HOST… nor scripted:FILE"
    if parts.username is not None or parts.query or parts.fragment:
        return "must not contain credentials, a query or a fragment"
    return None


def _shown(url: str) -> str:
    # What stands before an @ may be a secret.
    return url.rpartition("@")[2]

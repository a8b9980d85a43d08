"""`upstreams` and `routes` of a policy: who answers which requests, and what modegate adds to them.

Nothing here holds a secret: a value that is one is named by its environment variable, and whoever
connects looks it up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from modegate.core.endpoints import Credential
from modegate.core.errors import DialectName
from modegate.core.wire.headers import Headers

CONNECT_TIMEOUT = 10.0
"""Seconds for name, connection and TLS: short, so that a dead upstream is told soon."""
READ_TIMEOUT = 900.0
"""Seconds without a byte. Models think for minutes, so this only ends what has died."""
KEEP_ALIVE = 60.0
"""Seconds that an idle connection is kept; shorter than the idle limits of most servers (75 s for nginx)."""

CREDENTIALS = frozenset({b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key"})
"""Lines in which clients of model APIs send what proves who they are."""


@dataclass(frozen=True, slots=True)
class Value:
    """A text that stands in the file, or the name of the variable that holds it."""

    text: str = ""
    env: str = ""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds."""

    connect: float = CONNECT_TIMEOUT
    read: float = READ_TIMEOUT


@dataclass(frozen=True, slots=True)
class Pool:
    """An upstream's connections."""

    size: int = 0
    """How many at one time; 0: as many as there are requests."""
    keep_alive: float = KEEP_ALIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamSpec:
    """One upstream as the policy describes it."""

    name: str
    url: str = ""
    """Base URL; may be empty with `litellm`."""
    litellm: str = ""
    """A model of litellm (`gemini/gemini-2.5-pro`), where `*` stands for the client's; empty: plain HTTP."""
    headers: tuple[tuple[str, Value], ...] = ()
    """Names in lower case."""
    key: str = ""
    """The variable that holds the credential."""
    timeouts: Timeouts = field(default_factory=Timeouts)
    pool: Pool = field(default_factory=Pool)
    proxy: Value | Literal["none"] | None = None
    """None: what the environment says."""
    ca: str = ""
    """A file of certificates that are trusted in place of the system's."""
    strip_v1: bool = False
    query: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Route:
    """One line of `routes`; None matches everything, also a request that names no model."""

    upstream: str
    dialect: DialectName | None = None
    model: str | None = None
    """A glob."""


@dataclass(frozen=True, slots=True)
class Injected:
    """What modegate adds to a request, looked up."""

    headers: tuple[tuple[bytes, bytes], ...] = ()
    key: bytes = b""
    secret: bool = False
    """Whether one of `headers` is a credential too."""

    @property
    def credential(self) -> bool:
        """Whether modegate stands in with a credential of its own, so that the client's is not passed on."""
        return bool(self.key) or self.secret


def with_injected(headers: Headers, credential: Credential, added: Injected) -> Headers:
    """Return the lines to send: the client's, with what modegate adds in place of lines of the same name."""
    lines = list(added.headers)
    if added.key:
        lines.append(credential.line(added.key))
    if not lines:
        return headers
    replaced = {name for name, _ in lines} | (CREDENTIALS if added.credential else set())
    return [line for line in headers if line[0] not in replaced] + lines


def missing(specs: Iterable[UpstreamSpec], environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the place and the name of each variable that is named and not set, or empty."""
    return [
        (f"upstreams.{spec.name}.{place}", name)
        for spec in specs
        for place, name in _variables(spec)
        if not environment.get(name)
    ]


def _variables(spec: UpstreamSpec) -> list[tuple[str, str]]:
    found = [(f"headers.{name}.env", value.env) for name, value in spec.headers if value.env]
    if spec.key:
        found.append(("key.env", spec.key))
    if isinstance(spec.proxy, Value) and spec.proxy.env:
        found.append(("proxy.env", spec.proxy.env))
    return found


def added(spec: UpstreamSpec, environment: Mapping[str, str]) -> Injected:
    """Look up what an upstream's requests get.

    Raises:
        ValueError: a value cannot stand in a header; it is not repeated.
    """
    lines: list[tuple[bytes, bytes]] = []
    for name, value in spec.headers:
        text = environment[value.env] if value.env else value.text
        lines.append((name.encode(), _sendable(text, f"headers.{name}")))
    key = _sendable(environment[spec.key], "key") if spec.key else b""
    return Injected(tuple(lines), key, any(value.env for _, value in spec.headers))


def _sendable(text: str, place: str) -> bytes:
    # A variable that was read from a file often ends in a line break.
    text = text.strip()
    if not text or any(char < " " or char == "\x7f" for char in text):
        raise ValueError(f"{place}: the value is empty or has characters that no header can carry")
    return text.encode("utf-8", "surrogateescape")

"""`upstreams` and `routes` of a policy: who answers which requests, and what modegate adds to them.

Nothing here holds a secret: a value that is one is named by its environment variable, and whoever
connects looks it up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Self
from urllib.parse import quote, urlsplit

from modegate.core.endpoints import Credential
from modegate.core.errors import BadRequest, DialectName
from modegate.core.wire.headers import Headers

CONNECT_TIMEOUT = 10.0
"""Seconds for name, connection and TLS: short, so that a dead upstream is told soon."""
READ_TIMEOUT = 900.0
"""Seconds without a byte. Models think for minutes, so this only ends what has died."""
KEEP_ALIVE = 60.0
"""Seconds that an idle connection is kept; shorter than the idle limits of most servers (75 s for nginx)."""

CREDENTIALS = frozenset({b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key"})
"""Lines in which clients of model APIs send what proves who they are."""

_UNSENDABLE = re.compile(r"[\x00-\x20\x7f]")
"""Would end the request line early, or begin another one."""
_VERSION = re.compile(r"/v[0-9]+(?:(?:alpha|beta)[0-9]*)?")
"""A base URL's last segment that takes the place of the client's `/v1`."""
_V1 = re.compile(r"/v1(?![^/?])")


@dataclass(frozen=True, slots=True)
class Base:
    """An upstream's base URL, checked, to be joined with the path that the client asked for.

    A base URL is written with and without `/v1`, and so is a client's. Where the base ends in a version and
    the client's path begins with `/v1`, the latter is dropped; everything else is put together as it stands,
    and no byte of the client's path and query is decoded, encoded or normalised.

    | base | client's path | upstream's |
    |---|---|---|
    | `https://h/v1`, `https://h/v1/` | `/v1/chat/completions` | `/v1/chat/completions` |
    | | `/chat/completions` | `/v1/chat/completions` |
    | | `//v1/messages` | `/v1//v1/messages` |
    | | `/v10/x` | `/v1/v10/x` |
    | `https://h/api/v1` | `/v1/chat/completions` | `/api/v1/chat/completions` |
    | | `/chat/completions` | `/api/v1/chat/completions` |
    | `https://h/api/v4`, `https://h/api/v1beta` | `/v1/chat/completions` | `/api/v4/chat/completions`, … |
    | `https://h` | `/v1/chat/completions` | `/v1/chat/completions` |
    | | `/chat/completions` | `/chat/completions` |
    | `https://h/x`, `strip_v1` | `/v1/chat/completions` | `/x/chat/completions` |
    """

    scheme: str
    authority: str
    """Host and port as written."""
    path: str
    """Without a slash at its end; empty for none."""
    strip_v1: bool = False
    """Whether the client's `/v1` is dropped although the base does not end in a version."""
    query: tuple[tuple[str, str], ...] = ()
    """Parameters that every request gets unless the client gave them, such as `api-version`."""

    @classmethod
    def parse(
        cls, url: str, *, strip_v1: bool = False, query: tuple[tuple[str, str], ...] = ()
    ) -> Self:
        """Read a base URL.

        Raises:
            ValueError: it cannot be one. The message does not repeat a password.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("an upstream's base URL looks like https://host/v1")
        if "@" in parts.netloc:
            raise ValueError("an upstream's base URL holds no user or password")
        if parts.query or parts.fragment or _UNSENDABLE.search(url):
            raise ValueError("an upstream's base URL has no query, no fragment and no blanks")
        # `port` raises ValueError for one that is no number.
        _ = parts.port
        return cls(parts.scheme, parts.netloc, parts.path.rstrip("/"), strip_v1, query)

    def join(self, target: bytes) -> str:
        """Return the path and query to ask upstream for, by the table of the class.

        Raises:
            BadRequest: the target is not an absolute path in UTF-8 without blanks.
        """
        try:
            text = target.decode()
        except UnicodeDecodeError as error:
            raise BadRequest("the request's path is not UTF-8") from error
        if not text.startswith("/") or _UNSENDABLE.search(text):
            raise BadRequest("the request's target is not a path")
        last = self.path[self.path.rfind("/") :] if self.path else ""
        if (self.strip_v1 or _VERSION.fullmatch(last)) and _V1.match(text):
            text = text.removeprefix("/v1")
            if not self.path and not text.startswith("/"):
                text = "/" + text
        return self._with_query(self.path + text)

    def _with_query(self, text: str) -> str:
        for name, value in self.query:
            pair = f"{quote(name, safe='')}="
            if not re.search(rf"[?&]{re.escape(pair)}", text):
                text += f"{'&' if '?' in text else '?'}{pair}{quote(value, safe='')}"
        return text


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

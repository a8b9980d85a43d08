"""The `upstreams` and `routes` of a policy file, read and checked; no secret may stand in the file."""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import urlsplit

from modegate.core.policy.document import YamlValue, suggestion
from modegate.core.policy.schema import NAME, Field, Section, choice, count, duration, variable
from modegate.core.policy.upstreams import (
    CREDENTIALS,
    Base,
    Pool,
    Route,
    Timeouts,
    UpstreamSpec,
    Value,
)
from modegate.core.wire.headers import HOP_BY_HOP, OUR_OWN

MAX_POOL = 100_000
"""More connections than a process may have descriptors."""

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}", re.ASCII)
_MODEL = re.compile(r"[a-z0-9_]{1,64}/[^\s*]*\*?[^\s*]*")
_SECRET = CREDENTIALS | {b"cookie"}
_NEVER = HOP_BY_HOP | {
    b"host", b"expect", b"content-length", b"content-encoding", b"accept-encoding",
}  # fmt: skip
_PLAIN_ONLY = ("proxy", "ca", "pool", "strip_v1", "query")


def read_upstreams(value: YamlValue) -> dict[str, UpstreamSpec]:
    """Read `upstreams`; of what is wrong, which is noted, only the name is left."""
    found: dict[str, UpstreamSpec] = {}
    for name, entry in (value.mapping() or {}).items():
        if not NAME.fullmatch(name):
            entry.key_problem("not a name: 1 to 64 letters, digits and ._-")
        found[name] = _upstream(entry, name) or UpstreamSpec(name=name)
    value.document.names["upstreams"] = list(found)
    return found


def read_routes(value: YamlValue) -> tuple[Route, ...]:
    """Read `routes`, each to an upstream that exists."""
    found: list[Route] = []
    for entry in value.sequence() or []:
        if found and found[-1].dialect is None and found[-1].model is None:
            entry.problem("is never reached: the route in front of it takes everything")
        route = _route(entry)
        if route is not None:
            found.append(route)
    return tuple(found)


def _route(entry: YamlValue) -> Route | None:
    values = _ROUTE.open(entry)
    if values is None or "upstream" not in values:
        return None
    return Route(**{"upstream": ""} | _ROUTE.read(values))


def _dialect(value: YamlValue) -> str | None:
    return choice(*value.document.names["dialects"])(value)


def _model(value: YamlValue) -> str | None:
    model = value.string()
    return None if model == "*" else model


def _upstream_reference(value: YamlValue) -> str | None:
    name = value.string()
    upstreams = value.document.names.get("upstreams", ())
    if name is not None and name not in upstreams:
        value.problem(f"no such upstream; {suggestion(name, upstreams)}")
    return name


def _upstream(entry: YamlValue, name: str) -> UpstreamSpec | None:
    values = _UPSTREAM.open(entry)
    if values is None:
        return None
    if "url" not in values and "litellm" not in values:
        entry.key_problem("needs the key 'url', or 'litellm'")
    for key in _PLAIN_ONLY if "litellm" in values else ():
        if key in values:
            values[key].key_problem("has no meaning with litellm, which makes its own connections")
    return UpstreamSpec(name=name, **_UPSTREAM.read(values))


def _url(value: YamlValue) -> str | None:
    text = value.string()
    if text is None:
        return None
    try:
        Base.parse(text)
    except ValueError as error:
        # What was written is not shown: it may hold a password or a key.
        value.hidden_problem(str(error))
        return None
    return text


def _litellm(value: YamlValue) -> str | None:
    text = value.string()
    if text is None or _MODEL.fullmatch(text):
        return text
    value.problem(
        "must be a model of litellm with its provider, as gemini/gemini-2.5-pro, where one * "
        "stands for the model that the client names"
    )
    return None


def _headers(value: YamlValue) -> tuple[tuple[str, Value], ...]:
    found: dict[str, Value] = {}
    for written, entry in (value.mapping() or {}).items():
        name = written.lower()
        raw = name.encode()
        if not _HEADER.fullmatch(written):
            entry.key_problem("not a header's name")
        elif raw in _NEVER or raw.startswith(OUR_OWN):
            entry.key_problem("belongs to the connection or to modegate, and cannot be set")
        elif name in found:
            entry.key_problem("the same header again: names do not differ by case")
        else:
            text = _value(entry, secret=raw in _SECRET)
            if text is not None:
                found[name] = text
    return tuple(found.items())


def _value(value: YamlValue, *, secret: bool) -> Value | None:
    if value.is_mapping():
        env = _variable(value)
        return Value(env=env) if env else None
    if secret:
        value.hidden_problem("is a credential: name its environment variable, as {env: NAME}")
        return None
    text = value.string()
    if text is not None and any(char < " " or char == "\x7f" for char in text):
        value.problem("has characters that no header can carry")
        return None
    return Value(text=text) if text else None


def _variable(value: YamlValue) -> str | None:
    if not value.is_mapping():
        value.hidden_problem("must name an environment variable, as {env: NAME}, never a secret")
        return None
    values = _VALUE.open(value) or {}
    if "env" not in values:
        value.problem("needs the key 'env'")
    env: str | None = _VALUE.read(values).get("env")
    return env


def _timeout(value: YamlValue) -> float | None:
    seconds = duration()(value)
    if seconds == 0:
        value.problem("must be more than nothing")
    return seconds or None


def _query(value: YamlValue) -> tuple[tuple[str, str], ...]:
    return tuple((name, one.string() or "") for name, one in (value.mapping() or {}).items())


def _proxy(value: YamlValue) -> Value | Literal["none"] | None:
    if value.is_mapping():
        return _value(value, secret=False)
    text = value.string()
    if text is None or text == "none":
        return "none" if text else None
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in text
    except ValueError:
        usable = False
    if usable:
        return Value(text=text)
    value.hidden_problem(
        "must be none, http(s)://HOST:PORT, or with a password the variable that holds it, {env: NAME}"
    )
    return None


def _ca(value: YamlValue) -> str | None:
    path = value.string()
    if path is not None and not path.startswith("/"):
        value.problem("must be an absolute path")
        return None
    return path


_VALUE = Section("upstreams.*.{headers.*,key,proxy}", Field("env", variable))
_TIMEOUTS = Section("upstreams.*.timeouts", Field("connect", _timeout), Field("read", _timeout))
_POOL = Section(
    "upstreams.*.pool", Field("size", count(1, MAX_POOL)), Field("keep_alive", duration())
)
_UPSTREAM = Section(
    "upstreams.*",
    Field("url", _url),
    Field("litellm", _litellm),
    Field("headers", _headers),
    Field("key", _variable),
    Field("timeouts", _TIMEOUTS.into(Timeouts)),
    Field("pool", _POOL.into(Pool)),
    Field("proxy", _proxy),
    Field("ca", _ca),
    Field("strip_v1", YamlValue.boolean),
    Field("query", _query),
)
_ROUTE = Section(
    "routes[]",
    Field("dialect", _dialect),
    Field("model", _model),
    Field("upstream", _upstream_reference, required=True),
)

"""The `upstreams` and `routes` of a policy file, read and checked; no secret may stand in the file."""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import urlsplit

from modegate.core.policy.file.document import YamlValue, suggestion
from modegate.core.policy.file.schema import (
    NAME,
    NAMED,
    TEXT,
    Field,
    Section,
    choice,
    count,
    duration,
    listed,
    mapping_of,
    takes,
    variable,
)
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
_VALUE = Section(
    "upstreams.*.{headers.*,key,proxy}",
    Field("env", variable, required=True, about="The environment variable that holds the value."),
)
_PLAIN_ONLY = ("proxy", "ca", "pool", "strip_v1", "query")


def _route(entry: YamlValue) -> Route | None:
    values = _ROUTE.open(entry)
    if values is None or "upstream" not in values:
        return None
    return Route(**{"upstream": ""} | _ROUTE.read(values))


@takes(TEXT)
def _dialect(value: YamlValue) -> str | None:
    return choice(*value.document.names["dialects"])(value)


@takes(TEXT)
def _model(value: YamlValue) -> str | None:
    model = value.string()
    return None if model == "*" else model


@takes(NAMED)
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


@takes(TEXT)
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


@takes(TEXT)
def _litellm(value: YamlValue) -> str | None:
    text = value.string()
    if text is None or _MODEL.fullmatch(text):
        return text
    value.problem(
        "must be a model of litellm with its provider, as gemini/gemini-2.5-pro, where one * "
        "stands for the model that the client names"
    )
    return None


@takes(mapping_of({"anyOf": [{"type": "string"}, _VALUE.form()]}))
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


@takes(_VALUE.form())
def _variable(value: YamlValue) -> str | None:
    if not value.is_mapping():
        value.hidden_problem("must name an environment variable, as {env: NAME}, never a secret")
        return None
    env: str | None = _VALUE.read(_VALUE.open(value) or {}).get("env")
    return env


@takes(duration().form)
def _timeout(value: YamlValue) -> float | None:
    seconds = duration()(value)
    if seconds == 0:
        value.problem("must be more than nothing")
    return seconds or None


@takes(mapping_of(TEXT))
def _query(value: YamlValue) -> tuple[tuple[str, str], ...]:
    return tuple((name, one.string() or "") for name, one in (value.mapping() or {}).items())


@takes({"anyOf": [TEXT, _VALUE.form()]})
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


@takes({"type": "string", "pattern": "^/"})
def _ca(value: YamlValue) -> str | None:
    path = value.string()
    if path is not None and not path.startswith("/"):
        value.problem("must be an absolute path")
        return None
    return path


_TIMEOUTS = Section(
    "upstreams.*.timeouts",
    Field("connect", _timeout, about="For DNS, connection and TLS."),
    Field("read", _timeout, about="Without a byte; models think for minutes in silence."),
)
_POOL = Section(
    "upstreams.*.pool",
    Field("size", count(1, MAX_POOL), about="Connections at one time."),
    Field("keep_alive", duration(), about="How long an idle connection is kept."),
)
_UPSTREAM = Section(
    "upstreams.*",
    Field("url", _url, about="Base URL, with or without /v1."),
    Field("litellm", _litellm, about="A model of litellm; * is the one that the client names."),
    Field("headers", _headers, about="Sent in place of the client's lines of the same name."),
    Field("key", _variable, about="The credential, sent in place of the client's own."),
    Field("timeouts", _TIMEOUTS.into(Timeouts), about="How long to wait."),
    Field("pool", _POOL.into(Pool), about="Its connections."),
    Field("proxy", _proxy, about="The HTTP proxy that leads there; none: no proxy."),
    Field("ca", _ca, about="A file of certificates that are trusted in place of the system's."),
    Field("strip_v1", YamlValue.boolean, about="Whether the /v1 of the client's path is dropped."),
    Field("query", _query, about="Parameters that each request gets unless the client gave them."),
)
_ROUTE = Section(
    "routes[]",
    Field("dialect", _dialect, about="The API of the request: chat, responses or messages."),
    Field("model", _model, about="A glob: the model that the request names."),
    Field("upstream", _upstream_reference, required=True, about="One of `upstreams`."),
)


@takes(mapping_of(_UPSTREAM.form(), NAMED))
def read_upstreams(value: YamlValue) -> dict[str, UpstreamSpec]:
    """Read `upstreams`; of what is wrong, which is noted, only the name is left."""
    found: dict[str, UpstreamSpec] = {}
    for name, entry in (value.mapping() or {}).items():
        if not NAME.fullmatch(name):
            entry.key_problem("not a name: 1 to 64 letters, digits and ._-")
        found[name] = _upstream(entry, name) or UpstreamSpec(name=name)
    value.document.names["upstreams"] = list(found)
    return found


@takes(listed(_ROUTE.form()))
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

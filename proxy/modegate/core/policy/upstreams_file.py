"""The `upstreams` and `routes` of a policy file, read and checked; no secret may stand in the file."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

from modegate.core.errors import DialectName
from modegate.core.policy.base_url import Base
from modegate.core.policy.document import YamlValue, suggestion
from modegate.core.policy.schema import KEYS, choice, count, duration
from modegate.core.policy.upstreams import CREDENTIALS, Pool, Route, Timeouts, UpstreamSpec, Value
from modegate.core.wire.headers import HOP_BY_HOP, OUR_OWN

MAX_POOL = 100_000
"""More connections than a process may have descriptors."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}", re.ASCII)
_MODEL = re.compile(r"[a-z0-9_]{1,64}/[^\s*]*\*?[^\s*]*")
_SECRET = CREDENTIALS | {b"cookie"}
_NEVER = HOP_BY_HOP | {
    b"host",
    b"expect",
    b"content-length",
    b"content-encoding",
    b"accept-encoding",
}
_PLAIN_ONLY = ("proxy", "ca", "pool", "strip_v1", "query")


def read_upstreams(place: YamlValue) -> dict[str, UpstreamSpec]:
    """Read `upstreams`; of what is wrong, which is noted, only the name is left."""
    found: dict[str, UpstreamSpec] = {}
    for name, entry in (place.mapping() or {}).items():
        if not _NAME.fullmatch(name):
            entry.key_problem("not a name: 1 to 64 letters, digits and ._-")
        found[name] = _upstream(entry, name) or UpstreamSpec(name=name)
    return found


def read_routes(
    place: YamlValue, upstreams: Collection[str], dialects: Sequence[DialectName]
) -> tuple[Route, ...]:
    """Read `routes`, each to an upstream that exists, and for a dialect of these."""
    found: list[Route] = []
    for entry in place.sequence() or []:
        if found and found[-1].dialect is None and found[-1].model is None:
            entry.problem("is never reached: the route in front of it takes everything")
        route = _route(entry, upstreams, dialects)
        if route is not None:
            found.append(route)
    return tuple(found)


def _route(
    entry: YamlValue, upstreams: Collection[str], dialects: Sequence[DialectName]
) -> Route | None:
    keys = entry.mapping(KEYS["routes[]"])
    if keys is None:
        return None
    if "upstream" not in keys:
        entry.problem("needs the key 'upstream'")
        return None
    name = keys["upstream"].string()
    if name is not None and name not in upstreams:
        keys["upstream"].problem(f"no such upstream; {suggestion(name, upstreams)}")
    dialect = choice(keys["dialect"], tuple(dialects)) if "dialect" in keys else None
    model = keys["model"].string() if "model" in keys else None
    return Route(name or "", dialect, None if model == "*" else model)


def _upstream(entry: YamlValue, name: str) -> UpstreamSpec | None:
    keys = entry.mapping(KEYS["upstreams.*"])
    if keys is None:
        return None
    if "url" not in keys and "litellm" not in keys:
        entry.key_problem("needs the key 'url', or 'litellm'")
    if "litellm" in keys:
        for key in _PLAIN_ONLY:
            if key in keys:
                keys[key].key_problem(
                    "has no meaning with litellm, which makes its own connections"
                )
    return UpstreamSpec(
        name=name,
        url=(_url(keys["url"]) or "") if "url" in keys else "",
        litellm=(_litellm(keys["litellm"]) or "") if "litellm" in keys else "",
        headers=_headers(keys["headers"]) if "headers" in keys else (),
        key=(_variable(keys["key"], "upstreams.*.key") or "") if "key" in keys else "",
        **_connections(keys),
    )


def _connections(keys: Mapping[str, YamlValue]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "timeouts" in keys:
        found["timeouts"] = _timeouts(keys["timeouts"])
    if "pool" in keys:
        found["pool"] = _pool(keys["pool"])
    if "proxy" in keys:
        found["proxy"] = _proxy(keys["proxy"])
    if "ca" in keys:
        found["ca"] = _ca(keys["ca"]) or ""
    if "strip_v1" in keys:
        found["strip_v1"] = keys["strip_v1"].boolean() is True
    if "query" in keys:
        query = keys["query"].mapping() or {}
        found["query"] = tuple((name, value.string() or "") for name, value in query.items())
    return found


def _url(place: YamlValue) -> str | None:
    text = place.string()
    if text is None:
        return None
    try:
        Base.parse(text)
    except ValueError as error:
        # What was written is not shown: it may hold a password or a key.
        place.hidden_problem(str(error))
        return None
    return text


def _litellm(place: YamlValue) -> str | None:
    text = place.string()
    if text is None or _MODEL.fullmatch(text):
        return text
    place.problem(
        "must be a model of litellm with its provider, as gemini/gemini-2.5-pro, where one * "
        "stands for the model that the client names"
    )
    return None


def _headers(place: YamlValue) -> tuple[tuple[str, Value], ...]:
    found: dict[str, Value] = {}
    for written, entry in (place.mapping() or {}).items():
        name = written.lower()
        raw = name.encode()
        if not _HEADER.fullmatch(written):
            entry.key_problem("not a header's name")
        elif raw in _NEVER or raw.startswith(OUR_OWN):
            entry.key_problem("belongs to the connection or to modegate, and cannot be set")
        elif name in found:
            entry.key_problem("the same header again: names do not differ by case")
        else:
            value = _value(entry, "upstreams.*.headers.*", secret=raw in _SECRET)
            if value is not None:
                found[name] = value
    return tuple(found.items())


def _value(place: YamlValue, schema: str, *, secret: bool) -> Value | None:
    if place.is_mapping():
        env = _variable(place, schema)
        return Value(env=env) if env else None
    if secret:
        place.hidden_problem("is a credential: name its environment variable, as {env: NAME}")
        return None
    text = place.string()
    if text is not None and any(char < " " or char == "\x7f" for char in text):
        place.problem("has characters that no header can carry")
        return None
    return Value(text=text) if text else None


def _variable(place: YamlValue, schema: str) -> str | None:
    if not place.is_mapping():
        place.hidden_problem("must name an environment variable, as {env: NAME}, never a secret")
        return None
    keys = place.mapping(KEYS[schema]) or {}
    if "env" not in keys:
        place.problem("needs the key 'env'")
        return None
    name = keys["env"].string()
    if name is not None and not _VARIABLE.fullmatch(name):
        keys["env"].hidden_problem("must be the name of an environment variable, never a secret")
        return None
    return name


def _timeouts(place: YamlValue) -> Timeouts:
    keys = place.mapping(KEYS["upstreams.*.timeouts"]) or {}
    read = {key: duration(keys[key]) for key in keys}
    for key, seconds in read.items():
        if seconds == 0:
            keys[key].problem("must be more than nothing")
    return Timeouts(**{key: seconds for key, seconds in read.items() if seconds})


def _pool(place: YamlValue) -> Pool:
    keys = place.mapping(KEYS["upstreams.*.pool"]) or {}
    found: dict[str, Any] = {}
    if "size" in keys:
        found["size"] = count(keys["size"], 1, MAX_POOL)
    if "keep_alive" in keys:
        found["keep_alive"] = duration(keys["keep_alive"])
    return Pool(**{key: value for key, value in found.items() if value is not None})


def _proxy(place: YamlValue) -> Value | Literal["none"] | None:
    if place.is_mapping():
        return _value(place, "upstreams.*.proxy", secret=False)
    text = place.string()
    if text is None or text == "none":
        return "none" if text else None
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in text
    except ValueError:
        usable = False
    if usable:
        return Value(text=text)
    place.hidden_problem(
        "must be none, http(s)://HOST:PORT, or with a password the variable that holds it, {env: NAME}"
    )
    return None


def _ca(place: YamlValue) -> str | None:
    path = place.string()
    if path is not None and not path.startswith("/"):
        place.problem("must be an absolute path")
        return None
    return path

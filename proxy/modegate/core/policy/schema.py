"""The keys of policies.yaml, and the small values that several of them take."""

from __future__ import annotations

import re
from collections.abc import Collection

from modegate.core.ids import DEFAULT_MODE, ModeId
from modegate.core.policy.document import YamlValue, suggestion

KEYS: dict[str, tuple[str, ...]] = {
    "": (
        "version",
        "modes",
        "sessions",
        "limits",
        "approvals",
        "narrate",
        "control",
        "upstreams",
        "routes",
    ),
    "modes.*": (
        "name",
        "description",
        "section",
        "section_in",
        "tools",
        "exit",
        "without_tools",
        "text_calls",
        "aliases",
    ),
    "modes.*.tools[]": ("allow", "ask", "deny", "when"),
    "modes.*.tools[].when.*": ("equals", "one_of", "glob"),
    "modes.*.exit": ("to", "options", "native"),
    "modes.*.exit.options[]": ("label", "to"),
    "sessions": ("identify", "parent", "when_missing", "initial_mode"),
    "sessions.initial_mode": ("default", "tenants"),
    "limits": ("body", "frame", "held", "hops", "drain", "memory"),
    "approvals": ("timeout", "timeout_whole"),
    "control": ("tokens", "acp"),
    "control.tokens[]": ("name", "env", "level", "tenants"),
    "control.acp": ("confirm_loosening",),
    "upstreams.*": (
        "url",
        "litellm",
        "headers",
        "key",
        "timeouts",
        "pool",
        "proxy",
        "ca",
        "strip_v1",
        "query",
    ),
    "upstreams.*.headers.*": ("env",),
    "upstreams.*.key": ("env",),
    "upstreams.*.proxy": ("env",),
    "upstreams.*.timeouts": ("connect", "read"),
    "upstreams.*.pool": ("size", "keep_alive"),
    "routes[]": ("dialect", "model", "upstream"),
}
"""Every key that the parser knows, by the place it stands in; `docs/policies.md` names each."""

MAX_ALIAS = 256

_MODE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_SIZE = re.compile(r"([1-9][0-9]{0,11})(?: ?(B|KiB|MiB|GiB))?")
_DURATION = re.compile(r"((?:0|[1-9][0-9]{0,5})(?:\.[0-9]{1,3})?) ?(ms|s|m|h)?")
# A field name of RFC 9110, section 5.1.
_HEADER = re.compile(r"header:([A-Za-z0-9!#$%&'*+.^_`|~-]{1,128})")
_BODY = re.compile(r"body:[^.\s]+(\.[^.\s]+)*")
_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def mode_name(place: YamlValue, name: str) -> ModeId | None:
    """Check the key under which a mode is defined."""
    if name == DEFAULT_MODE:
        place.key_problem("'default' is reserved: it means no policy and cannot be defined")
    elif not _MODE_ID.fullmatch(name):
        place.key_problem(
            "not a mode id: 1 to 64 letters, digits and ._-, beginning with a letter or a digit"
        )
    else:
        return ModeId(name)
    return None


def mode_reference(place: YamlValue, modes: Collection[str]) -> ModeId | None:
    """Read the name of a mode that must exist."""
    name = place.string()
    if name is None or name in modes:
        return None if name is None else ModeId(name)
    place.problem(f"no such mode; {suggestion(name, modes)}")
    return None


def aliases(place: YamlValue, taken: set[str]) -> tuple[str, ...]:
    """Read other ids of a mode and add them to those `taken`, which none of them may be.

    Any text will do, since some clients send the address of a page as the id of a mode.
    """
    found: list[str] = []
    for entry in place.sequence() or []:
        alias = entry.string()
        if alias is None:
            continue
        if len(alias) > MAX_ALIAS:
            entry.problem(f"must have {MAX_ALIAS} characters at most")
        elif alias in taken:
            entry.problem("names a mode already; an alias must lead to one mode only")
        else:
            found.append(alias)
            taken.add(alias)
    return tuple(found)


def choice(place: YamlValue, options: tuple[str, ...]) -> str | None:
    """Read one of a few words."""
    word = place.string()
    if word is None or word in options:
        return word
    place.problem(f"must be one of: {', '.join(options)}")
    return None


def count(place: YamlValue, least: int, most: int) -> int | None:
    """Read a whole number within bounds."""
    number = place.integer()
    if number is not None and not least <= number <= most:
        place.problem(f"must be between {least} and {most}")
        return None
    return number


def size(place: YamlValue) -> int | None:
    """Read bytes: `1048576`, or a string with a unit as `64MiB`; at least one."""
    match = _SIZE.fullmatch(_text(place))
    if not match:
        place.problem('must be bytes as a whole number, or a size like "64MiB" (B, KiB, MiB, GiB)')
        return None
    return int(match[1]) * _UNITS[match[2] or "B"]


def duration(place: YamlValue, most: float | None = None) -> float | None:
    """Read seconds: `30`, `0.5`, or a string with a unit as `30s` (ms, s, m, h); of `most` so many."""
    match = _DURATION.fullmatch(_text(place))
    if not match:
        place.problem('must be seconds as a number, or a time like "30s" (ms, s, m, h)')
        return None
    seconds = float(match[1]) * _SECONDS[match[2] or "s"]
    if most is not None and seconds > most:
        place.problem(f"must be {most / _SECONDS['h']:g}h at most")
        return None
    return seconds


def source(place: YamlValue, *, headers_only: bool) -> str | None:
    """Read where a session id may stand: `path`, `header:NAME` or `body:dotted.path`."""
    text = place.string()
    if text is None:
        return None
    if match := _HEADER.fullmatch(text):
        return f"header:{match[1].lower()}"
    if not headers_only and (text == "path" or _BODY.fullmatch(text)):
        return text
    forms = "header:NAME" if headers_only else "path, header:NAME or body:dotted.path"
    place.problem(f"must be {forms}")
    return None


def _text(place: YamlValue) -> str:
    value = place.node.value
    return value if isinstance(value, str) else ""

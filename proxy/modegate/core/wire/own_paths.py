"""Which paths are modegate's own, and what only looks like one of them.

A request to one of them can carry a control token, so neither they nor their look-alikes go upstream.
Servers behind modegate may fold case, decode twice, or drop dots and slashes, and a person's typing error
must not hand the token to a provider.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

OWN = frozenset({"acp", "console", "control", "healthz", "metrics", "readyz"})
"""First segments of the paths that never go upstream."""

PROBES = frozenset({"healthz", "readyz"})
"""The own paths that are served on every address."""

_USUAL = re.compile(rb"(?:/s/[A-Za-z0-9_:-][A-Za-z0-9._:-]*)?/v1(?:/[a-z_]+)*/?")
"""What nearly every request asks for; it needs no closer look."""

_ROUNDS = 4
"""How often a path is decoded at most; no known server does it more often."""


def is_own(path: str) -> bool:
    """Return whether a decoded path is modegate's own; leading slashes count as one."""
    return path.lstrip("/").partition("/")[0] in OWN


def looks_own(raw_path: bytes) -> bool:
    """Return whether somebody on the way could take this path, as it came, for one of modegate's own."""
    if _USUAL.fullmatch(raw_path):
        return False
    text = raw_path.decode("latin-1")
    for _ in range(_ROUNDS):
        text, before = unquote(text, "latin-1"), text
        if text == before:
            break
    segments = _resolved(text.replace("\\", "/").casefold())
    return bool({*segments[:1], *(segments[2:3] if segments[:1] == ["s"] else ())} & OWN)


def _resolved(path: str) -> list[str]:
    """Return the segments without parameters, empty ones and dots (RFC 3986, section 5.2.4)."""
    found: list[str] = []
    for segment in path.split("/"):
        name = segment.partition(";")[0].strip("\0\t\n\r ")
        if name == "..":
            del found[-1:]
        elif name.strip("."):
            found.append(name.rstrip("."))
    return found

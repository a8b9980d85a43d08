"""One entry of `sessions.identify` or `sessions.parent`: where a request may name a session."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

# A field name of RFC 9110, section 5.1.
_HEADER = re.compile(r"header:([A-Za-z0-9!#$%&'*+.^_`|~-]{1,128})")
_BODY = re.compile(r"body:([^.\s]+(?:\.[^.\s]+)*)")


@dataclass(frozen=True, slots=True)
class Source:
    """One place where an id may be."""

    text: str
    """The entry, with the header's name in lower case."""
    kind: Literal["path", "header", "body"]
    name: bytes = b""
    """Of a header, in lower case."""
    keys: tuple[str, ...] = ()
    """Of a body field, from the top level inwards."""

    @classmethod
    def parse(cls, text: str) -> Source:
        """Read an entry.

        Raises:
            ValueError: it is none of `path`, `header:NAME` and `body:dotted.path`.
        """
        if text == "path":
            return cls(text, "path")
        if match := _HEADER.fullmatch(text):
            name = match[1].lower()
            return cls(f"header:{name}", "header", name=name.encode())
        if match := _BODY.fullmatch(text):
            return cls(text, "body", keys=tuple(match[1].split(".")))
        raise ValueError(f"{text!r} is not `path`, `header:NAME` or `body:dotted.path`")

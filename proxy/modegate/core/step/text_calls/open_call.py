"""A call in plain text of which the end has not come yet."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from modegate.core.step.text_calls.shapes import Shape

_OVERLAP = 512
"""Characters in which an end is looked for again, as it can come in two pieces."""
_QUOTES = re.compile(r'["\\]')
_SIGNS = re.compile(r'["\\{}]')


@dataclass(slots=True)
class OpenCall:
    """A call under way, in the pieces in which it comes."""

    shape: Shape | None
    """None: everything is code."""
    head: re.Match[str] | None
    chunks: list[str] = field(default_factory=list)
    size: int = 0
    """Characters that have come."""
    plain: int = 0
    """Characters from its head on that hold no JSON call."""
    heads: set[int] = field(default_factory=set)
    """Places in it at which another block of text begins."""
    tail: str = ""
    depth: int = 0
    quoted: bool = False
    escaped: bool = False
    close: re.Pattern[str] | None = None

    @property
    def text(self) -> str:
        return "".join(self.chunks)

    def add(self, text: str) -> None:
        self.chunks.append(text)
        self.size += len(text)

    def take(self, text: str) -> int:
        """Return how many characters of a new piece belong to it if it ends there; else -1."""
        if self.shape is None:
            return -1
        if self.close is None:
            return self._object_end(text)
        match = self.close.search(self.tail + text)
        if match is not None:
            return match.end() - len(self.tail)
        self.tail = (self.tail + text)[-_OVERLAP:]
        return -1

    def _object_end(self, text: str) -> int:
        """Count brackets outside of strings, as gptme does."""
        at = 0
        while at < len(text):
            if self.escaped:
                self.escaped, at = False, at + 1
                continue
            match = (_QUOTES if self.quoted else _SIGNS).search(text, at)
            if match is None:
                return -1
            at = match.end()
            sign = match.group()
            if sign == "\\":
                self.escaped = True
            elif sign == '"':
                self.quoted = not self.quoted
            else:
                self.depth += 1 if sign == "{" else -1
                if self.depth == 0:
                    return at
        return -1

"""Globs of policies: `*` is any run of characters, `?` is any one, everything else stands for itself.

Not `fnmatch`: no character classes (`[` is a bracket), no case folding, no platform in it. A match is
anchored at both ends, compares code points, and gives newlines no meaning, so that a tool name with a
line break behind it, or a command of several lines, is seen whole.
"""

from __future__ import annotations

import re
from functools import lru_cache

CACHED = 4096
"""Compiled patterns kept; more than any policy names, since a reload brings the same ones again."""


def glob_matches(pattern: str, text: str) -> bool:
    """Return whether the whole text matches the pattern."""
    if "*" not in pattern and "?" not in pattern:
        return pattern == text  # most patterns are names, and each request asks of every tool
    return _compiled(pattern).fullmatch(text) is not None


@lru_cache(maxsize=CACHED)
def _compiled(pattern: str) -> re.Pattern[str]:
    first, *rest = (
        "".join("." if char == "?" else re.escape(char) for char in part)
        for part in re.split(r"\*+", pattern)
    )
    if not rest:
        return re.compile(first, re.DOTALL)
    *middle, last = rest
    # The leftmost place for each part is as good as any other, so nothing is tried twice: without the
    # atomic groups `*a*a*a*b` takes time that grows with a power of the argument's length.
    found = "".join(f"(?>.*?{part})" for part in middle)
    return re.compile(f"{first}{found}.*{last}", re.DOTALL)

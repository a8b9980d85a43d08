"""Globs, as policies and the table of programs have them.

In a glob `*` is any run of characters, `?` is any one, and everything else stands for itself.
There are no character classes (`[` is a bracket) and no case folding. A match is anchored at both ends,
compares code points, and gives newlines no meaning: a tool name with a line break behind it, or a command of
several lines, is seen whole.
"""

from __future__ import annotations

import fnmatch
import re
from functools import lru_cache

PATTERNS_CACHED = 4096
"""Compiled patterns kept; more than any policy names, since a reload brings the same ones again."""


def is_glob(pattern: str) -> bool:
    """Return whether a pattern stands for more than one name."""
    return "*" in pattern or "?" in pattern


def glob_matches(pattern: str, text: str) -> bool:
    if not is_glob(pattern):
        return pattern == text  # most patterns are names, and each request asks of every tool
    return _compiled(pattern).fullmatch(text) is not None


@lru_cache(maxsize=PATTERNS_CACHED)
def _compiled(pattern: str) -> re.Pattern[str]:
    # `translate` tries nothing twice (atomic groups), so `*a*a*a*b` does not take time that grows with a
    # power of the argument's length.
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]")))

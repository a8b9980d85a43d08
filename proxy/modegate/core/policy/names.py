"""Names of tools that some client could take for one another.

Models misspell the names of tools, and agents repair them before they run the call: the case (OpenCode,
Kilo), spaces, `-` and `_`, what a model puts in front (`functions.write`, `default_api:write`) or behind
(`write<|channel|>json`, `functions.write:0`), and the name of a server (`mcp__fs__write` for `write`).
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from modegate.core.argument.globs import glob_matches, is_glob

CACHED = 8192
"""Names of which the spellings are kept."""

MAX_NAME = 1024
"""Characters; a longer name is similar to none, and is not read as a call at all."""

_JOINS = re.compile(r"__+|[.:/\\]+|\s+")
_BEHIND = re.compile(r"(?:<\|.*|[:#]\d+)\Z", re.DOTALL)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_BETWEEN = re.compile(r"[^\w*?]+|_+")
_OTHER = re.compile(r"[\W_]+")


@lru_cache(maxsize=CACHED)
def folded(name: str) -> str:
    """Return a name without case and without what stands between its letters and digits."""
    return _OTHER.sub("", _plain(name))


@lru_cache(maxsize=CACHED)
def _tails(name: str) -> tuple[str, ...]:
    """Return a name as it is, and what is left of it without what may stand in front or behind."""
    if len(name) > MAX_NAME:
        return ()
    found = {name: None}
    short = _BEHIND.sub("", name.strip())
    found[short] = None
    for join in _JOINS.finditer(short):
        found[short[join.end() :]] = None
    return tuple(one for one in found if one)


@lru_cache(maxsize=CACHED)
def _bare(name: str) -> frozenset[str]:
    return frozenset(folded(one) for one in _tails(name)) - {""}


@lru_cache(maxsize=CACHED)
def _worded(name: str) -> frozenset[str]:
    """Return a name's spellings with one `_` between words, for globs."""
    tails = _tails(name)
    humps = (_HUMP.sub("_", one) for one in tails)
    return frozenset(_BETWEEN.sub("_", _plain(one)) for one in (*tails, *humps))


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def misspelled(pattern: str, name: str) -> bool:
    """Return whether a name, with or without a server's, is one of a pattern's but for its spelling."""
    if not is_glob(pattern):
        return folded(pattern) in _bare(name)
    worded = _BETWEEN.sub("_", _plain(pattern))
    return any(glob_matches(worded, one) for one in _worded(name))


def similar(name: str, names: frozenset[str]) -> list[str]:
    """Return those of these names that a client could take a name for: one is the other, or its tail."""
    by_whole, by_tail = _index(names)
    found = set(by_tail.get(folded(name), ()))
    found.update(*(by_whole.get(tail, ()) for tail in _bare(name)))
    return sorted(found - {name})


@lru_cache(maxsize=8)
def _index(names: frozenset[str]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return names by what is left of them whole, and by what is left of them or of a tail.

    Found once for all calls of an answer: a request may declare thousands of names.
    """
    by_whole: dict[str, list[str]] = {}
    by_tail: dict[str, list[str]] = {}
    for name in names:
        by_whole.setdefault(folded(name), []).append(name)
        for tail in _bare(name):
            by_tail.setdefault(tail, []).append(name)
    return by_whole, by_tail

"""The arguments of a call: read in the one way in which every program reads them, or not at all.

Programs differ in what they make of JSON that is not quite plain: which of two keys they take, whether
they mind its case, what they do with half of a character. What leaves such a doubt meets no condition.
"""

from __future__ import annotations

import json
import re
from enum import StrEnum
from typing import Any, Literal, NoReturn

import msgspec

from modegate.core.wire.surrogates import without_lone_surrogates

INHERITED = frozenset({"__proto__", "constructor", "prototype"})
"""Keys that JavaScript can take for what an object inherits: `Object.assign` hands `__proto__` on."""


_HALF = re.compile("[\ud800-\udfff]")


class ArgumentFault(StrEnum):
    """Why arguments cannot be read, as the model is told."""

    HALF = "its arguments hold half of a character (a surrogate without the other one)"
    KEY_TWICE = "its arguments have one key twice"
    NUMBER = "its arguments hold a number that is out of range"
    NO_OBJECT = "its arguments are not one JSON object"


class _DuplicateKeyError(ValueError):
    pass


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _DuplicateKeyError
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


def parse_arguments(text: str) -> dict[str, Any] | None:
    """Read a call's arguments; None unless they are a JSON object without duplicate keys."""
    try:
        # The strict decoder first: it takes neither half a character nor a number that is out of range.
        msgspec.json.decode(text.encode())
        value = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def trouble(text: str) -> ArgumentFault | Literal[""]:
    """Return why arguments cannot be read; empty where they can."""
    if parse_arguments(text) is not None:
        return ""
    if has_half(text) or _escapes_half(text):
        return ArgumentFault.HALF
    try:
        value = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_number, parse_int=float
        )
    except _DuplicateKeyError:
        return ArgumentFault.KEY_TWICE
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        return ArgumentFault.NUMBER
    return ArgumentFault.NO_OBJECT


def _escapes_half(text: str) -> bool:
    data = text.encode()
    try:
        return without_lone_surrogates(data) != data
    except ValueError:
        return True  # more of them than are counted


def spelling(key: str) -> str:
    """Return a key as the most lenient reader compares it: without case, underscores and hyphens."""
    return key.casefold().replace("_", "").replace("-", "")


def words(text: str) -> frozenset[str]:
    """Return a table of names that is written as the words of a text."""
    return frozenset(text.split())


def spelled(text: str) -> frozenset[str]:
    """Return the words of a text in the most lenient spelling."""
    return frozenset(map(spelling, text.split()))


def has_half(text: str) -> bool:
    """Return whether a piece of text holds half of a character, which a client joins with the next piece."""
    return not text.isascii() and _HALF.search(text) is not None


def paired(text: str) -> str:
    """Return a text that was put together from pieces, in which two halves of a character are one."""
    if not has_half(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def without_halves(text: str) -> str:
    """Return a text that can be encoded."""
    return _HALF.sub("\ufffd", text) if has_half(text) else text


def tangled(value: Any) -> bool:
    """Return whether programs could read different arguments in what was read here.

    Go and others match keys without regard to case, and take the last of two; JavaScript may take a key
    for what an object inherits.
    """
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            folded = {key.casefold() for key in one}
            if len(folded) < len(one) or not INHERITED.isdisjoint(folded):
                return True
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return False

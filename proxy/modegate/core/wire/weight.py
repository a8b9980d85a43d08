"""What a JSON text would cost to read, found out before it is read.

A decoder makes an object of each value and holds up the whole process meanwhile, and a short text can hold
millions of values. Counting is many times cheaper. Long texts are counted slice by slice, so that other
threads have their turn in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

REQUEST_VALUES = 400_000
"""Signs that part values (`{`, `[`, `,`) in a request. An agent's history of 3,000 calls has some 50,000."""

ANSWER_VALUES = 500_000
"""The same in one piece of an answer: 4,000 tokens with twenty `logprobs` each."""

_OBJECT = 64
"""Bytes of text that take as long to read as one object, which some four bytes can be."""

_SMALL, _LARGE = 64 * 2**10, 2**20

ESCAPES = 20
"""Escapes in strings that take as long to read as one value."""

TOO_DENSE = f"the request body holds over {REQUEST_VALUES} values ({ESCAPES} escapes count as one)"
"""The message of the refusal."""

_SLICE = 2**20
_SIGNS = (b"{", b"[", b",")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_STRINGS = re.compile(rb'[^"]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"]*+)*+', re.DOTALL)
_INSIDE = re.compile(rb"[^\"\\]*+(?:\\.[^\"\\]*+)*+", re.DOTALL)


def is_dense(text: bytes, most: int) -> bool:
    """Return whether a text holds over `most` signs that part values, outside strings, or escapes
    that take as long."""
    if len(text) <= most:
        return False
    if _signs_anywhere(text, ESCAPES * most, (b"\\",)) > ESCAPES * most:
        return True
    # Most texts are told apart by all their signs, which is the cheapest.
    return _signs_anywhere(text, most) > most and _signs(text, most) > most


def holds(pattern: re.Pattern[bytes], text: bytes, longest: int = 8) -> bool:
    """Return whether a pattern of at most `longest` bytes is found."""
    return any(
        pattern.search(text, at, at + _SLICE + longest) for at in range(0, len(text), _SLICE)
    )


def slices(text: bytes, longest: int) -> Iterator[bytes]:
    """Yield a text in slices, in one of which each word of at most `longest` bytes is whole."""
    for at in range(0, len(text), _SLICE):
        yield text[at : at + _SLICE + longest]


def cost(text: bytes) -> int:
    """Return what a request costs to read, as bytes of ordinary text."""
    if _SMALL <= len(text) < _LARGE:
        return len(text) + _OBJECT * text.count(b"{")
    return len(text)


def string_end(text: bytes, at: int) -> int:
    """Return where the string ends that begins at `at`; the text's end where it does not."""
    at += 1
    size = len(text)
    while at < size:
        at = _end(_INSIDE, text, at)
        if text[at : at + 1] == b'"':
            return at + 1
        if text[at : at + 1] == b"\\" and at + 1 >= size:
            break
    return size


def _end(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    """Match one slice; both patterns here match an empty one too."""
    match = pattern.match(text, at, at + _SLICE)
    return at if match is None else match.end()


def _signs_anywhere(text: bytes, most: int, signs: Sequence[bytes] = _SIGNS) -> int:
    found = 0
    for at in range(0, len(text), _SLICE):
        found += sum(text.count(sign, at, at + _SLICE) for sign in signs)
        if found > most:
            break
    return found


def _signs(text: bytes, most: int) -> int:
    found = at = 0
    while at < len(text) and found <= most:
        end = _end(_STRINGS, text, at)
        if end == at:
            # A string that is longer than the slice, or that has no end.
            at = string_end(text, at)
            continue
        bare = _STRING.sub(b"", text[at:end])
        found += sum(map(bare.count, _SIGNS))
        at = end
    return found

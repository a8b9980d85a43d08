"""What a JSON text would cost to read, found out before it is read.

A decoder makes an object of each value and holds the whole process up while it does; a short text can stand
for millions of them. Counting is many times cheaper. Long texts are counted slice by slice, so that other
threads have their turn in between.
"""

from __future__ import annotations

import re

REQUEST_VALUES = 400_000
"""Signs that part values (`{`, `[`, `,`) in a request. An agent's history of 3,000 calls has some 50,000."""

ANSWER_VALUES = 1_000_000
"""The same in one piece of an answer: 8,000 tokens with twenty `logprobs` each."""

_SLICE = 2**20
_SIGNS = (b"{", b"[", b",")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_STRINGS = re.compile(rb'[^"]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"]*+)*+', re.DOTALL)
_INSIDE = re.compile(rb"[^\"\\]*+(?:\\.[^\"\\]*+)*+", re.DOTALL)


def is_dense(text: bytes, most: int) -> bool:
    """Tell whether a text holds over `most` signs that part values; those in strings part none."""
    if len(text) <= most:
        return False
    # Most texts are told apart by all their signs, which is the cheapest.
    return _signs_anywhere(text, most) > most and _signs(text, most) > most


def string_end(text: bytes, at: int) -> int:
    """Give where the string ends that begins at `at`; the text's end where it does not."""
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


def _signs_anywhere(text: bytes, most: int) -> int:
    found = 0
    for at in range(0, len(text), _SLICE):
        found += sum(text.count(sign, at, at + _SLICE) for sign in _SIGNS)
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

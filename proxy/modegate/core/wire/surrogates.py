"""Escaped halves of surrogate pairs that stand alone in a JSON text, which not every decoder takes."""

from __future__ import annotations

import re

_PAIR = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_HALF = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_NO_HALF = re.compile(
    rb"[^\\]*+(?:(?:"
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|\\(?:[^u]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4})"
    rb")[^\\]*+)*+",
    re.DOTALL,
)
"""As much as holds no half that stands alone, and no escape that is not complete. An escaped
backslash is one escape: in `\\\\ud83d`, as a call's arguments hold it, nothing is a half."""

MAX_HALVES = 100_000
"""Halves of pairs that stand alone in one text; each costs as much as some kilobytes of other text."""

_SLICE = 2**20

_ESCAPE = 6
"""Bytes of `\\ud83d`."""


def without_lone_surrogates(text: bytes) -> bytes:
    """Return the text with each escaped half of a pair that stands alone replaced; of the same length.

    Agents in JavaScript send `"\\ud83d"` where they cut a text within an emoji. Most servers take it, the
    decoder here does not: it gets this copy, in which everything stands at the same place. Raises
    `ValueError` if there are over `MAX_HALVES`.
    """
    if b"\\" not in text or not _holds(text, b"\\ud", b"\\uD"):
        return text
    halves = _halves(text)
    if not halves:
        return text
    copy = bytearray(text)
    for at in halves:
        copy[at : at + _ESCAPE] = b"\\ufffd"
    return bytes(copy)


def _holds(text: bytes, *words: bytes) -> bool:
    """Return whether a text holds one of some short words; looked for in slices, as below."""
    return any(
        text.find(word, at, at + _SLICE + _ESCAPE) >= 0
        for at in range(0, len(text), _SLICE)
        for word in words
    )


def _halves(text: bytes) -> list[int]:
    """Return where halves of pairs stand alone; in slices, so that other threads get a turn."""
    found: list[int] = []
    at, size = 0, len(text)
    while at < size:
        match = _NO_HALF.match(text, at, at + _SLICE)
        end = at if match is None else match.end()
        if _HALF.match(text, end):
            # The other half may be beyond the end of the slice.
            if (pair := _PAIR.match(text, end)) is not None:
                at = pair.end()
                continue
            found.append(end)
            if len(found) > MAX_HALVES:
                raise ValueError(f"over {MAX_HALVES} halves of surrogate pairs stand alone")
            end += _ESCAPE
        elif end == at:
            end += 2  # an escape that the end of the slice cuts
        at = end
    return found

"""Where the parts of a JSON text are, so that an edit changes those bytes and no others.

Every function takes text that is known to be valid JSON (`check` says so). Offsets are bytes from the
start of the text. Members are given with duplicates and in order, as RFC 8259 leaves their meaning
open and the gate must not choose one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import msgspec

from modegate.core.wire.weight import string_end

# Possessive: a string of millions of escapes is read without keeping a way back for each.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]', re.DOTALL)
_SCALAR = re.compile(rb"[^\s,\]}]+")
_SPACE = re.compile(rb"[ \t\r\n]*")

_decode_raw_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_raw_array = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_string = msgspec.json.Decoder(str).decode
_decode_any = msgspec.json.Decoder().decode

T = TypeVar("T")

MAX_MEMBERS = 4_096
"""Keys of an object that is read key by key; what an API defines has some dozens."""


class Span(NamedTuple):
    """A value's bytes: `text[start:end]`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Member:
    """One `"key": value` of an object."""

    key: str
    start: int
    """Where the key begins."""
    value: Span


class Edit(NamedTuple):
    """Replace `text[start:end]`."""

    start: int
    end: int
    new: bytes


def check(text: bytes) -> Any:
    """Decode a JSON text whole. Raises `ValueError` if it is not JSON, not UTF-8, or nested too deeply."""
    return _decoded(_decode_any, text)


def _decoded(decode: Callable[[bytes], T], text: bytes) -> T:
    try:
        return decode(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error


def _after(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    match = pattern.match(text, at)
    if match is None:  # pragma: no cover -- the decoder has read the text before
        raise ValueError(f"unreadable at {at}")
    return match.end()


def _space(text: bytes, at: int) -> int:
    if text[at : at + 1] > b" ":
        return at  # as almost everywhere
    if text[at + 1 : at + 2] > b" ":
        return at + 1  # as in what Python writes
    return _after(_SPACE, text, at)


def _value_end(text: bytes, at: int, hint: bytes | None) -> int:
    first = text[at]
    if hint is not None and text.startswith(hint, at):
        # A JSON value that is followed by a delimiter cannot be the beginning of another one.
        end = at + len(hint)
        if text[_space(text, end)] in b",}":
            return end
    if first in b"{[":
        return _bracket_end(text, at)
    return string_end(text, at) if first == 0x22 else _after(_SCALAR, text, at)


def _bracket_end(text: bytes, at: int) -> int:
    depth = 0
    for token in _TOKEN.finditer(text, at):
        first = text[token.start()]
        if first in b"{[":
            depth += 1
        elif first in b"]}":
            depth -= 1
            if depth == 0:
                return token.end()
    raise ValueError(f"unbalanced at {at}")  # pragma: no cover -- as above


def members(text: bytes, span: Span | None = None) -> list[Member]:
    """Return members, duplicates too; raises `ValueError` if it is no object, or has over `MAX_MEMBERS`."""
    start, end = span or Span(_space(text, 0), len(text))
    if text[start : start + 1] != b"{":
        raise ValueError("not an object")
    hints = _hints(text[start:end] if (start, end) != (0, len(text)) else text)
    found: list[Member] = []
    at = _space(text, start + 1)
    while text[at] != 0x7D:
        if len(found) == MAX_MEMBERS or len(hints) > MAX_MEMBERS:
            raise ValueError(f"an object has over {MAX_MEMBERS} keys")
        key_end = string_end(text, at)
        key = _decode_string(text[at:key_end])
        colon = _space(text, key_end)
        value = _space(text, colon + 1)
        value_end = _value_end(text, value, hints.get(key))
        found.append(Member(key, at, Span(value, value_end)))
        at = _space(text, value_end)
        if text[at] == 0x2C:
            at = _space(text, at + 1)
    return found


def _hints(text: bytes) -> dict[str, bytes]:
    # The decoder skips nested values in C; knowing their length spares a walk through them here.
    raw = _decoded(_decode_raw_object, text)
    return {key: bytes(value) for key, value in raw.items()}


def fields(text: bytes, span: Span) -> dict[str, msgspec.Raw] | None:
    """Return the members of an object, quickly; None where a key could stand there twice.

    That is where the members in order, each once, are not what is written there: then `members` tells. It is
    so too where a key is written with escapes. Raises `ValueError` if the value is not an object.
    """
    found = _decoded(_decode_raw_object, text[span.start : span.end])
    at = span.start
    for key, value in found.items():
        # A comma or a bracket, the key, a colon, the value.
        at = _space(text, at + 1)
        name = msgspec.json.encode(key)
        if not text.startswith(name, at):
            return None
        at = _space(text, _space(text, at + len(name)) + 1)
        raw = bytes(value)
        if not text.startswith(raw, at):
            return None
        at = _space(text, at + len(raw))
    return found if at == span.end - 1 or not found else None


def elements(text: bytes, span: Span) -> list[Span]:
    """Return the elements of an array. Raises `ValueError` if the value is not an array."""
    if text[span.start : span.start + 1] != b"[":
        raise ValueError("not an array")
    raw = _decoded(_decode_raw_array, text[span.start : span.end])
    found: list[Span] = []
    at = _space(text, span.start + 1)
    for value in raw:
        end = at + memoryview(value).nbytes
        found.append(Span(at, end))
        at = _space(text, end)
        if text[at] == 0x2C:
            at = _space(text, at + 1)
    return found


def values_at(text: bytes, paths: Iterable[str], span: Span | None = None) -> Iterator[Span]:
    """Yield the values at paths such as `calls.*.0.id`: keys and indices, `*` for each that is there."""
    span = span or Span(_space(text, 0), len(text))
    below: dict[str, list[str]] = {}
    for path in paths:
        head, _, rest = path.partition(".")
        below.setdefault(head, []).append(rest)
    inside: Iterable[tuple[str, Span]] = ()
    if text[span.start] == 0x7B:
        inside = ((one.key, one.value) for one in members(text, span))
    elif text[span.start] == 0x5B:
        inside = ((str(at), one) for at, one in enumerate(elements(text, span)))
    for key, value in inside:
        rests = {*below.get(key, ()), *below.get("*", ())}
        if "" in rests:
            yield value
        if rests := rests - {""}:
            yield from values_at(text, rests, value)


def apply(text: bytes, edits: Iterable[Edit]) -> bytes:
    """Apply edits, insertions at one place in order; raises `ValueError` if two overlap."""
    pieces: list[bytes] = []
    at = 0
    for start, end, new in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if start < at:
            raise ValueError("edits overlap")
        pieces += (text[at:start], new)
        at = end
    pieces.append(text[at:])
    return b"".join(pieces)


def without(spans: list[Span], drop: set[int]) -> list[Edit]:
    """Return the edits that take some neighbours out of a list, each with one comma.

    `spans` are all elements of an array, or all members of an object from key to value.
    """
    edits: list[Edit] = []
    kept = [index for index in range(len(spans)) if index not in drop]
    if not kept:
        return [Edit(spans[0].start, spans[-1].end, b"")] if spans else []
    for index in sorted(drop):
        if index < kept[0]:
            # In front of the first that stays: up to where the next one begins.
            edits.append(Edit(spans[index].start, spans[index + 1].start, b""))
        else:
            edits.append(Edit(spans[index - 1].end, spans[index].end, b""))
    return edits


def without_members(found: list[Member], keys: set[str]) -> list[Edit]:
    """Return the edits that take every member of these names out of an object."""
    spans = [Span(member.start, member.value.end) for member in found]
    drop = {index for index, member in enumerate(found) if member.key in keys}
    return without(spans, drop)


def quote(text: str) -> bytes:
    return msgspec.json.encode(text)

"""JSON of an answer, read so that no client can see in it what the gate does not.

Clients differ in which of two equal keys they take and whether they mind the case of a key. What leaves
such a doubt is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

from modegate.core.errors import AnswerUnreadable
from modegate.core.spans import without_lone_surrogates

MAX_DEPTH = 100
"""Nesting of what is read strictly; answers need about ten."""

LARGE = 2**20
MAX_VALUES = 4_000_000
"""Signs that part values, in what is `LARGE`: each costs time and memory, which a body of the length that is
allowed (`limits.body`) would take all of. Some thousand tokens with twenty `logprobs` each have a million."""

_CALL_LIKE = frozenset({"toolcalls", "toolcall", "functioncall", "functioncalls"})
_decode = msgspec.json.Decoder().decode


def decode_object(data: bytes) -> dict[str, Any]:
    """Decode one JSON object.

    Raises:
        AnswerUnreadable: it is none.
    """
    if len(data) > LARGE and sum(map(data.count, (b"{", b"[", b","))) > MAX_VALUES:
        raise AnswerUnreadable("the upstream sent JSON of more values than an answer can have")
    try:
        value = _decode(without_lone_surrogates(data))
    except (msgspec.MsgspecError, RecursionError) as error:
        raise AnswerUnreadable(f"the upstream sent what is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise AnswerUnreadable("the upstream sent JSON that is not an object")
    return value


def check_objects(data: bytes, look: Callable[[dict[str, Any]], None] | None = None) -> None:
    """Read a text a second time, and show every object in it to `look`.

    Raises:
        AnswerUnreadable: a key stands twice in one object; and what `look` says.
    """

    def read(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise AnswerUnreadable("the upstream sent an object with a duplicate key")
        if look is not None:
            look(found)
        return found

    try:
        json.loads(data, object_pairs_hook=read)
    except (ValueError, RecursionError) as error:
        raise AnswerUnreadable(f"the upstream sent what is not JSON: {error}") from error


def objects_in(value: dict[str, Any], key: str, most: int) -> list[dict[str, Any]]:
    """Give a list of objects, at most so many; empty where it is absent or null.

    Raises:
        AnswerUnreadable: it is something else, or longer.
    """
    found = value.get(key)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise AnswerUnreadable(f"the upstream's {key!r} is not a list of objects")
    if len(found) > most:
        raise AnswerUnreadable(f"the upstream's {key!r} holds over {most} objects")
    return found


def spells_calls(key: str) -> bool:
    """Tell whether a key looks like one under which some API holds calls."""
    return key.casefold().replace("_", "").replace("-", "") in _CALL_LIKE

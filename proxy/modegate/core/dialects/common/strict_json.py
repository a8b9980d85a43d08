"""JSON of an answer, read so that no client can see in it what the gate does not.

Clients differ in which of two equal keys they take and whether they mind the case of a key. What leaves
such a doubt is refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from modegate.core.errors import AnswerUnreadable
from modegate.core.wire.arguments import spelled, spelling
from modegate.core.wire.surrogates import without_lone_surrogates
from modegate.core.wire.weight import ANSWER_VALUES, holds, is_dense

MAX_DEPTH = 100
"""Nesting of what is read strictly; answers need about ten."""

_NUMBER = re.compile(
    rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")|-?[0-9]++(?:\.[0-9]++)?+(?:[eE][-+]?[0-9]++)?+', re.DOTALL
)
"""A string, which stays, or a number."""

MAX_DIGITS = 4_000
"""Of a number that is read; the decoder takes about as many."""

_MINUS_ZERO = re.compile(rb"[\s:,\[]-0[\s,\]}]")
"""What may be one: some programs read it as a whole number, some as a fraction, some not at all."""

CALL_TYPES = spelled("""
    apply_patch_call computer_call custom_tool_call function_call local_shell_call mcp_call
    mcp_tool_use server_tool_use shell_call tool_call tool_use
""")
"""Types of items that clients of one API or another would run, in the most lenient spelling."""

_CALL_LIKE = frozenset({"toolcalls", "toolcall", "functioncall", "functioncalls"})
_decode = msgspec.json.Decoder().decode


def decode_object(data: bytes, *, numbers: bool = False) -> dict[str, Any]:
    """Decode one JSON object.

    With `numbers` it may hold some that are out of range, which are others here: for a caller that takes the
    arguments of calls, where a model writes what it likes, from the text. Raises `AnswerUnreadable` if it is
    none.
    """
    if is_dense(data, ANSWER_VALUES):
        raise AnswerUnreadable("the upstream sent JSON of more values than an answer can have")
    try:
        text = without_lone_surrogates(data)
        value = _decode_tamed(text) if numbers else _decode(text)
    except (ValueError, RecursionError) as error:
        raise AnswerUnreadable(f"the upstream sent what is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise AnswerUnreadable("the upstream sent JSON that is not an object")
    return value


def _decode_tamed(text: bytes) -> Any:
    try:
        return _decode(text)
    except msgspec.ValidationError:
        return _decode(_NUMBER.sub(_tame, text))


def _tame(match: re.Match[bytes]) -> bytes:
    if match[1]:
        return match[0]
    return match[0] if len(match[0]) < MAX_DIGITS and math.isfinite(float(match[0])) else b"0.0"


def check_objects(data: bytes, look: Callable[[dict[str, Any]], None] | None = None) -> None:
    """Show every object of a text to `look`; raises `AnswerUnreadable` if a key stands twice in one."""

    def read(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise AnswerUnreadable("the upstream sent an object with a duplicate key")
        if look is not None:
            look(found)
        return found

    whole = _no_minus_zero if b"-0" in data and holds(_MINUS_ZERO, data) else None
    try:
        json.loads(data, object_pairs_hook=read, parse_int=whole)
    except (ValueError, RecursionError) as error:
        raise AnswerUnreadable(f"the upstream sent what is not JSON: {error}") from error


def _no_minus_zero(digits: str) -> int:
    if digits == "-0":
        raise AnswerUnreadable(
            "the upstream sent a minus zero, which clients read in different ways"
        )
    return int(digits)


def check_inherited(key: str, value: Any) -> None:
    """Raise `AnswerUnreadable` for what careful JavaScript takes for an attack: it leaves out the event.

    The AI SDK does, and would run a call without the piece of its arguments that such an event holds.
    """
    if key == "__proto__" or (
        key == "constructor" and isinstance(value, dict) and "prototype" in value
    ):
        raise AnswerUnreadable(f"the upstream sent the key {key!r}, which is none")


def exactly(data: bytes, value: dict[str, Any]) -> dict[str, Any]:
    """Return an object again as JavaScript has it: with halves of characters, which `value` lacks.

    Only a call's arguments are taken from it, as such text cannot be encoded. Raises `AnswerUnreadable` if it
    cannot be read so.
    """
    if without_lone_surrogates(data) == data:
        return value
    try:
        found: dict[str, Any] = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise AnswerUnreadable(f"the upstream sent what is not JSON: {error}") from error
    return found


def objects_in(value: dict[str, Any], key: str, most: int) -> list[dict[str, Any]]:
    """Return a list of objects, empty if absent or null; raises `AnswerUnreadable` if else, or longer."""
    found = value.get(key)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise AnswerUnreadable(f"the upstream's {key!r} is not a list of objects")
    if len(found) > most:
        raise AnswerUnreadable(f"the upstream's {key!r} holds over {most} objects")
    return found


def reason_in(holder: Mapping[str, Any], key: str) -> str | None:
    """Return why an answer or a choice ended, if it has; raises `AnswerUnreadable` if it is not a string."""
    reason = holder.get(key)
    if reason is not None and not isinstance(reason, str):
        raise AnswerUnreadable(f"the upstream's {key!r} is not a string")
    return reason or None


def spells_calls(key: str) -> bool:
    """Return whether a key looks like one under which some API holds calls."""
    return spelling(key) in _CALL_LIKE

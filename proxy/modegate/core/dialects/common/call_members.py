"""The members of a call: one source of its name and one of its arguments, by its type.

Clients differ in where they look: under another API's key, under a key in another case, in what an object
inherits. A call in which some of them could find a second name or other arguments is odd, and refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Any, TypeGuard

from modegate.core.step.reasons import Reason
from modegate.core.wire.arguments import INHERITED, spelled, spelling, words

MAX_INDEX = 2**31 - 1
"""A list has no more places, and every language holds such a number whole."""

SOURCES = spelled("""
    action actions arguments args code command commands custom delta function function_args
    function_arguments function_call function_name input input_json kwargs name operation parameters
    params partial_json tool tool_args tool_arguments tool_call tool_input tool_name tool_use
""")
"""Under which some API or some client looks for a name or for arguments, in the most lenient spelling."""

BESIDE = words("""
    cache_control caller extra_content internal_chat_message_metadata_passthrough metadata
    provider_specific_fields thought_signature
""")
"""Members that are objects and that providers are known to send beside a call: signatures (Gemini's
`extra_content`, litellm's `provider_specific_fields`), who called (Anthropic's `caller`)."""


_ID_KEYS = ("id", "call_id", "tool_call_id", "tool_use_id", "approval_request_id")
"""Of all APIs: a provider may send another one's beside its own."""


def id_paths(*places: str) -> tuple[str, ...]:
    """Return the paths to the ids of calls, and of answers to them, that stand at these places."""
    return tuple(f"{place}.{key}" for place in places for key in _ID_KEYS)


def ambiguity(
    found: Mapping[str, Any], own: frozenset[str], *, beside: Collection[str] | None = BESIDE
) -> str:
    """Say why a call's object could be read as another call; empty if it cannot.

    `own` are the members that objects of its type have; `beside` which others may be objects or lists
    (None: all).
    """
    if found.keys() <= own:
        return ""  # as almost always
    if doubtful := misspelt(found, own):
        return Reason.LOOKALIKE_KEY.with_(repr(doubtful[:80]))
    for key, value in found.items():
        if key in own or value in (None, "", [], {}):
            continue
        if spelling(key) in SOURCES:
            return Reason.SECOND_SOURCE.with_(repr(key[:80]))
        if beside is not None and key not in beside and isinstance(value, dict | list):
            return Reason.UNKNOWN_MEMBER.with_(repr(key[:80]))
    return ""


def misspelt(found: Iterable[str], own: frozenset[str]) -> str:
    """Return a key that some clients would take for one of the known ones, or hand on; empty if none is.

    Go matches keys without regard to case and takes the last; JavaScript knows `__proto__`.
    """
    for key in found:
        if key not in own and (key in INHERITED or spelling(key) in _spelled(own)):
            return key
    return ""


@cache
def _spelled(own: frozenset[str]) -> frozenset[str]:
    return frozenset(map(spelling, own))


def inherits(values: Iterable[Any]) -> bool:
    """Return whether a key that JavaScript could take for what an object inherits stands anywhere inside."""
    waiting = list(values)
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if not INHERITED.isdisjoint(one):
                return True
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return False


def is_index(value: Any) -> TypeGuard[int]:
    """Return whether a value is an index that every client takes for the same place."""
    return type(value) is int and 0 <= value <= MAX_INDEX

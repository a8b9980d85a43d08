"""What an answer of chat completions says, read with no doubt left or not at all.

Shared by the streamed form (`delta`) and the whole one (`message`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from modegate.core.dialects.common.answer_json import TokenCounts
from modegate.core.dialects.common.call_members import is_index, misspelt
from modegate.core.dialects.common.strict_json import (
    CALL_TYPES,
    MAX_DEPTH,
    check_objects,
    decode_object,
    spells_calls,
)
from modegate.core.errors import AnswerUnreadable
from modegate.core.wire.arguments import INHERITED, spelled, spelling, words
from modegate.core.wire.weight import slices

CALL_KEYS = ("tool_calls", "function_call")
CALL_FINISHES = frozenset({"tool_calls", "function_call", "tool_use"})
TOKENS = TokenCounts("prompt_tokens", "completion_tokens")
REASONING_KEYS = ("reasoning_content", "reasoning", "reasoning_text")

MAX_CALLS = 128
"""Calls in one answer, and choices; the API's own limit on parallel calls."""

# Keys that decide what a call is. Clients in some languages match keys without regard to case.
_EXACT = words("choices content delta message function custom name finish_reason").union(CALL_KEYS)
_TYPE = frozenset({"type"})
_CHOICE = frozenset({"index", "delta", "message", "finish_reason"})
_CALL_TYPES = CALL_TYPES | spelled("""
    invalid_tool_call server_tool_call server_tool_call_chunk tool_call_chunk
""")
"""With those of LangChain."""
_PARTS = words("""
    audio document_url file image image_url input_audio output_audio output_text reasoning
    redacted_thinking reference refusal text thinking video_url
""")
"""Parts of content that clients show: those of the API, and of those that are made like it (Mistral's
`thinking` and `reference`, Databricks' `reasoning`). LangChain runs a part of type `tool_call`."""
# What a frame is edited by. In one of several choices they come again, which is no harm but time.
_ONCE = (b'"choices"', b'"delta"', b'"message"', b'"finish_reason"', b'"index"', b'"usage"')
_LARGE = 2**20
_LONGEST = 16
"""Bytes of the longest word that is looked for."""

_decode = msgspec.json.Decoder().decode


def parse_answer(data: bytes, *, strictly: bool) -> dict[str, Any]:
    """Decode one JSON object of an answer.

    Where it could hold a call, or will be edited (`strictly`), it is read a second time: duplicate keys, keys
    in another case and calls in places that this API does not have are refused, as clients differ in what
    they see. Raises `AnswerUnreadable` if it is none, or leaves a doubt.
    """
    value = decode_object(data)
    if not strictly:
        if len(data) > _LARGE:
            strictly = _may_hold_calls(data)
        else:
            folded = data.lower()
            # Spelled out: it is done for every frame of every stream.
            strictly = _holds_word(folded) or any(folded.count(key) > 1 for key in _ONCE)
    if strictly:
        _check_strictly(data, value)
    return value


def _may_hold_calls(data: bytes) -> bool:
    counts = dict.fromkeys(_ONCE, 0)
    for part in slices(data, _LONGEST):
        folded = part.lower()
        if _holds_word(folded):
            return True
        for key in _ONCE:
            counts[key] += folded.count(key)
    return any(count > 1 for count in counts.values())


def _holds_word(folded: bytes) -> bool:
    return b"call" in folded or b"\\u" in folded or b"tool_use" in folded


def _look(found: dict[str, Any]) -> None:
    for key in found:
        folded = key.casefold()
        if folded in _EXACT and key not in _EXACT:
            raise AnswerUnreadable(f"the upstream sent the key {key[:80]!r} in an unknown case")
        if key not in CALL_KEYS and spells_calls(key):
            raise AnswerUnreadable(f"the upstream sent calls under the unknown key {key[:80]!r}")
    kind = found.get("type")
    if isinstance(kind, str) and spelling(kind) in _CALL_TYPES:
        raise AnswerUnreadable(
            f"the upstream sent an item of type {kind!r}, which this API has not"
        )


def _check_strictly(data: bytes, value: dict[str, Any]) -> None:
    check_objects(data, _look)
    choices = [choice for _, choice in choices_of(value)]
    known = sum(map(_known_call_keys, choices))
    if not INHERITED.isdisjoint(value):
        raise AnswerUnreadable("the upstream sent a key that objects inherit by")
    if _count_call_keys(value, MAX_DEPTH) != known:
        raise AnswerUnreadable("the upstream sent calls in a place that this API does not have")


def _count_call_keys(value: Any, depth: int) -> int:
    if not depth:
        raise AnswerUnreadable(f"the upstream sent JSON that is nested over {MAX_DEPTH} deep")
    if isinstance(value, dict):
        own = sum(1 for key in CALL_KEYS if key in value)
        return own + sum(_count_call_keys(inner, depth - 1) for inner in value.values())
    if isinstance(value, list):
        return sum(_count_call_keys(inner, depth - 1) for inner in value)
    return 0


def _known_call_keys(choice: dict[str, Any]) -> int:
    # Only one of the two: a snapshot beside a delta would have to be filtered as well.
    body = body_of(choice)
    if misspelt(choice, _CHOICE) or not INHERITED.isdisjoint(body):
        raise AnswerUnreadable("the upstream sent a choice with a key that could be another one")
    return sum(1 for key in CALL_KEYS if key in body)


def choices_of(value: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """Return choices with index or position; raises `AnswerUnreadable` if two are the same, or it is else."""
    choices = value.get("choices")
    if choices is None:
        return []
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        raise AnswerUnreadable("the upstream's 'choices' is not a list of objects")
    if not all(choice.get("index") is None or is_index(choice["index"]) for choice in choices):
        raise AnswerUnreadable("the upstream sent an index that is not a whole number")
    found = [
        ((choice["index"] or 0) if "index" in choice else position, choice)
        for position, choice in enumerate(choices)
    ]
    if len(found) > 1 and len({index for index, _ in found}) < len(found):
        raise AnswerUnreadable("the upstream sent one choice twice")
    return found


def body_key(choice: dict[str, Any]) -> str:
    return "delta" if choice.get("delta") is not None else "message"


def body_of(choice: dict[str, Any]) -> dict[str, Any]:
    """Return the `delta` or `message` of a choice. Raises `AnswerUnreadable` if it is not an object."""
    key = body_key(choice)
    body = choice.get(key)
    if body is None:
        return {}
    if not isinstance(body, dict):
        raise AnswerUnreadable(f"the upstream's {key!r} is not an object")
    return body


def check_content(content: Any) -> None:
    """Raise `AnswerUnreadable` for content that is neither text nor a list of parts that clients show."""
    if content is None or isinstance(content, str):
        return
    if not isinstance(content, list):
        raise AnswerUnreadable("the upstream's 'content' is neither text nor a list")
    for part in content:
        if isinstance(part, str) or (isinstance(part, dict) and part.keys() == {"text"}):
            continue
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(kind, str) or kind not in _PARTS or misspelt(part, _TYPE):
            raise AnswerUnreadable("the upstream sent a part of content that is not known here")


def failed(value: dict[str, Any], choices: Iterable[tuple[int, dict[str, Any]]]) -> bool:
    """Return whether the upstream says that its answer failed: by `error`, or by why a choice ended."""
    return bool(value.get("error")) or any(
        choice.get("error") or choice.get("finish_reason") == "error" for _, choice in choices
    )


def content_string(value: bytes) -> str:
    decoded = _decode(value)
    return decoded if isinstance(decoded, str) else ""

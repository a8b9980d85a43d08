"""What an answer of the Messages API says, read with no doubt left or not at all.

Shared by the streamed form (one event a frame) and the whole one (`content`). Follows the Anthropic API
as its SDK (`anthropic` 2.14) and its documentation of streaming describe it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from modegate.core.dialects.common.answer_json import member, members_in
from modegate.core.dialects.common.strict_json import (
    CALL_TYPES,
    MAX_DEPTH,
    check_inherited,
    check_objects,
    decode_object,
    objects_in,
)
from modegate.core.errors import AnswerUnreadable
from modegate.core.wire.arguments import spelling, words
from modegate.core.wire.json_spans import Edit, Span, apply, elements, members
from modegate.core.wire.surrogates import without_lone_surrogates

CALL_STOPS = frozenset({"tool_use", "tool_calls"})
"""Stop reasons that say calls were made; the second is what some translating gateways send."""

MAX_CALLS = 128
"""Calls in one answer."""
MAX_BLOCKS = 4096
"""Blocks in one answer; a text with citations has one for each stretch."""

# Keys that decide what a block is. Clients in some languages match keys without regard to case.
_EXACT = words("""
    content content_block data delta id index input message name partial_json signature stop_reason
    text thinking tool_use_id type
""")
_SPELLINGS = frozenset(map(spelling, _EXACT))
# What other APIs call the place of a call.
_CALL_LIKE = frozenset({"toolcalls", "toolcall", "functioncall", "functioncalls", "tooluse"})
_CALL_TYPES = CALL_TYPES | {"function"}

# Members of a block that hold what somebody else has written: a call's arguments, schemas of tools.
_OPAQUE = frozenset({"input", "tools", "tool_changes"})

# A piece of text in the one form in which the API sends it: nothing else can stand in there.
_PLAIN_DELTA = re.compile(
    rb'\{"type": ?"content_block_delta", ?"index": ?(0|[1-9]\d{0,5}), ?"delta": ?'
    rb'\{"type": ?"(text|thinking)_delta", ?"(text|thinking)": ?'
    rb'("[^"\\]*+(?:\\.[^"\\]*+)*+") ?\} *\}',
    re.DOTALL,
)
_decode_string = msgspec.json.Decoder(str).decode


def plain_delta(data: bytes) -> tuple[int, str, str] | None:
    """Read a piece of text or thinking: index, kind, text. None for everything else.

    Almost all frames of a stream are such pieces, so they are not read as JSON. Raises `AnswerUnreadable` if
    the text is not one.
    """
    match = _PLAIN_DELTA.fullmatch(data)
    if match is None or match[2] != match[3]:
        return None
    try:
        text = _decode_string(without_lone_surrogates(match[4]))
    except msgspec.MsgspecError as error:
        raise AnswerUnreadable(f"the upstream sent what is not JSON: {error}") from error
    return int(match[1]), match[2].decode(), text


def parse_event(data: bytes) -> dict[str, Any]:
    """Decode one event of a stream.

    Raises:
        AnswerUnreadable: it is none, or leaves a doubt: a duplicate key, a key in another case, a call in
            a place that this API does not have.
    """
    value = decode_object(data, numbers=True)
    readable = without_lone_surrogates(data)
    block = value.get("content_block") if value.get("type") == "content_block_start" else None
    places = [m.value for m in members(readable) if m.key == "content_block"]
    _check(readable, value, [block] if isinstance(block, dict) else [], places)
    return value


def parse_message(data: bytes) -> dict[str, Any]:
    """Decode a whole answer; raises `AnswerUnreadable` as `parse_event`, or if it is no list of blocks."""
    value = decode_object(data, numbers=True)
    text = without_lone_surrogates(data)
    blocks = blocks_of(value)
    lists = [m.value for m in members(text) if m.key == "content" and text[m.value.start] == 0x5B]
    _check(text, value, blocks, [place for span in lists for place in elements(text, span)])
    return value


def raw_input(block: bytes) -> str:
    start, stop = member(members_in(block), "input")
    return block[start:stop].decode()


def block_data(event: bytes) -> bytes:
    start, stop = member(members_in(event), "content_block")
    return event[start:stop]


def blocks_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the blocks of a message; raises `AnswerUnreadable` if they are no objects, or too many."""
    return objects_in(dict(message), "content", MAX_BLOCKS)


def _check(
    data: bytes, value: dict[str, Any], blocks: Sequence[dict[str, Any]], places: Sequence[Span]
) -> None:
    # A call's arguments are the tool's own matter: what is wrong with them is wrong with the call alone.
    inputs = [
        Edit(*one.value, b"null")
        for place in places
        if data[place.start] == 0x7B
        for one in members(data, place)
        if one.key == "input"
    ]
    check_objects(apply(data, inputs), lambda _found: None)
    _check_inside(value, {id(block) for block in blocks}, MAX_DEPTH)


def _check_inside(value: Any, blocks: set[int], depth: int) -> None:
    if not depth:
        raise AnswerUnreadable(f"the upstream sent JSON that is nested over {MAX_DEPTH} deep")
    if isinstance(value, list):
        for inner in value:
            _check_inside(inner, blocks, depth - 1)
    elif isinstance(value, dict):
        block = id(value) in blocks
        if not block:
            _check_type(value.get("type"))
        for key, inner in value.items():
            _check_key(key)
            check_inherited(key, inner)
            if not (block and key in _OPAQUE):
                _check_inside(inner, blocks, depth - 1)


def _check_type(kind: Any) -> None:
    if isinstance(kind, str) and spelling(kind) in _CALL_TYPES:
        raise AnswerUnreadable(
            f"the upstream sent an item of type {kind[:80]!r} where this API has none"
        )


def _check_key(key: str) -> None:
    if key in _EXACT:
        return
    spelled = spelling(key)
    if spelled in _SPELLINGS:
        raise AnswerUnreadable(f"the upstream sent the key {key[:80]!r} in an unknown spelling")
    if spelled in _CALL_LIKE:
        raise AnswerUnreadable(f"the upstream sent calls under the unknown key {key[:80]!r}")


INPUT_TOKENS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
"""Counts of the prompt: the last hop's are the client's."""

TOKENS = (*INPUT_TOKENS, "output_tokens")
"""What is looked at of a stream's usage."""


def output_tokens(usage: Mapping[str, Any]) -> int:
    count = usage.get("output_tokens")
    return count if type(count) is int else 0

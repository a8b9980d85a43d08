"""Withheld exchanges put back into a Responses history.

The client holds the items that it got of several hops, in order. Its own stay as they are; between them
go the calls that were withheld and our answers, each behind the item that it followed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from modegate.core.dialects.common.answer_json import members_in
from modegate.core.dialects.common.texts import grow, grow_value
from modegate.core.dialects.responses.answer.answer_items import seal_of, texts_of
from modegate.core.dialects.responses.answer.calls import CALLS
from modegate.core.dialects.responses.request.edit import insert_items
from modegate.core.dialects.responses.request.history import is_answer, kind_of, run_end
from modegate.core.dialects.responses.request.parsing import ResponsesRequest
from modegate.core.log.events import Segment, WithheldHop
from modegate.core.step.answer.calls import digest
from modegate.core.step.dialect import Found, Lost, Notices
from modegate.core.wire.json_spans import Edit, apply, without, without_members

_encode = msgspec.json.encode

WORDS = dict.fromkeys(("function_call_output", "custom_tool_call_output"), "output")
"""Where results have words."""


class _Blob(msgspec.Struct):
    turn: bool
    calls: list[tuple[int, msgspec.Raw]]
    answers: list[msgspec.Raw]


_decode_blob = msgspec.json.Decoder(_Blob).decode


def restore(
    request: ResponsesRequest, found: Found, notices: Notices, lost: Lost | None = None
) -> bytes:
    """Put withheld exchanges and notices back.

    In `lost` answers, reasoning that led to a withheld call leads nowhere, and providers refuse it.
    """
    gone = {
        at for index, hops in (lost or {}).items() for at in _orphans(request.history, index, hops)
    }
    turns = {
        index: (hops, [_decode_blob(one) for one in blobs])
        for index, (hops, blobs) in found.items()
    }
    gone |= {at for index, turn in turns.items() for at in _asides(request.history, index, *turn)}
    edits = without([item.span for item in request.items], gone)
    for index, (hops, blobs) in turns.items():
        for at, pieces in _inserted(request, index, hops, blobs):
            edits += insert_items(request, at, b",".join(pieces), frozenset(gone))
    for index, texts in notices.items():
        edits += _notice(request, index, "\n\n".join(texts))
    return apply(request.body, edits)


def _inserted(
    request: ResponsesRequest, index: int, hops: Sequence[Sequence[Segment]], blobs: list[_Blob]
) -> Iterator[tuple[int, list[bytes]]]:
    """Yield what goes in, and in front of which item."""
    history = request.history
    end = _answer_end(history, index, hops)
    places = _places(history[:end], index, hops)
    reasons = any(kind_of(item) == "reasoning" for item in history[index:end])
    for number, blob in enumerate(blobs):
        at = places[number][0]
        for shown, call in blob.calls:
            at = places[number][min(shown, len(places[number]) - 1)]
            yield at, [_call(bytes(call), named=reasons)]
        # Of an answer that went on with calls of the client's own, results stand behind all of them.
        behind = at if blob.turn else max(at, run_end(history, at))
        if blob.answers:
            yield behind, [bytes(answer) for answer in blob.answers]


def _asides(
    history: Sequence[dict[str, Any]],
    index: int,
    hops: Sequence[Sequence[Segment]],
    blobs: Sequence[_Blob],
) -> Iterator[int]:
    """Yield the items that are words of our own between hops: the model is not to find them."""
    places = _places(history[: _answer_end(history, index, hops)], index, hops)
    for behind, blob in zip(places, blobs, strict=False):
        if blob.turn and not blob.answers:
            yield from range(behind[0], behind[-1])


def _orphans(
    history: Sequence[dict[str, Any]], index: int, hops: Sequence[WithheldHop]
) -> Iterator[int]:
    """Yield the reasoning that stands last in a hop of which calls were withheld."""
    segments = [hop.segments for hop in hops]
    end = _answer_end(history, index, segments)
    places = _places(history[:end], index, segments)
    for hop, behind in zip(hops, places, strict=True):
        kinds = [segment.kind for segment in hop.segments]
        at = behind[-1] - 1
        # The first item of all stays: it begins the list.
        if hop.blob and kinds[-1:] == ["reasoning"] and behind[-1] > behind[-2] and at:
            yield at


def _call(call: bytes, *, named: bool) -> bytes:
    """Return a call without its item's id where the client sends no reasoning: providers look for it then."""
    found = members_in(call)
    if named or not any(m.key == "type" and _kind(call, m.value) in CALLS for m in found):
        return call
    return apply(call, without_members(found, {"id"}))


def _kind(call: bytes, span: tuple[int, int]) -> Any:
    return msgspec.json.decode(call[span[0] : span[1]])


def _answer_end(
    history: Sequence[dict[str, Any]], index: int, hops: Sequence[Sequence[Segment]]
) -> int:
    """Return where an answer ends: its items, and where results stand behind each call, those as well."""
    released = {call for hop in hops for segment in hop for call in segment.calls}
    end = run_end(history, index)
    while end < len(history):
        item = history[end]
        if str(item.get("call_id")) not in released or kind_of(item) in ("message", "reasoning"):
            break
        end += 1
    return end


def _places(
    history: Sequence[dict[str, Any]], index: int, hops: Sequence[Sequence[Segment]]
) -> list[list[int]]:
    """Return for each hop where what follows its first n segments begins.

    A segment that the client no longer has, or has joined with another, takes no place.
    """
    at = index
    places: list[list[int]] = []
    for hop in hops:
        behind = [at]
        for segment in hop:
            same = (j for j in range(at, len(history)) if _is(history[j], segment))
            at = next(same, at - 1) + 1
            behind.append(at)
        places.append(behind)
    return places


def _is(item: dict[str, Any], segment: Segment) -> bool:
    kind = kind_of(item)
    if segment.kind == "calls":
        return is_answer(item) and item.get("call_id") in segment.calls
    if segment.kind == "text":
        return kind == "message" and digest("".join(texts_of(item)).strip()) == segment.hash
    if kind != segment.kind:
        return False
    return segment.hash in (digest(seal_of(item)), digest(str(item.get("id"))))


def _notice(request: ResponsesRequest, index: int, text: str) -> list[Edit]:
    """Put a sentence at the end of an item: into its words, or behind what has none that it could be in.

    Servers that translate items to messages refuse one of the user behind results (N007). An item that only
    this API's own provider knows is followed by a message of its own.
    """
    if request.string_input and request.input is not None:
        grown = grow_value(request, request.input, text)
        return [grown] if grown else []
    item = request.items[index]
    key = "content" if item.kind == "message" else WORDS.get(item.kind)
    if key is not None:
        grown = grow(request, item.span, text, part="input_text", key=key)
        if grown is not None:
            return [grown]
    content = [{"type": "input_text", "text": text}]
    message = _encode({"type": "message", "role": "user", "content": content})
    return insert_items(request, index + 1, message)

"""A response's `output` and `usage`, edited: what stands in a body and at the end of a stream alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from modegate.core.dialects.common.answer_json import member, value_of
from modegate.core.step.answer.calls import digest
from modegate.core.wire.json_spans import Edit, Span, apply, elements, members, without
from modegate.core.wire.surrogates import without_lone_surrogates


def message_item(name: str, text: str, *, begun: bool = False) -> dict[str, Any]:
    """Return a message of our own; with `begun`, as it is announced."""
    return {
        "id": name,
        "type": "message",
        "status": "in_progress" if begun else "completed",
        "role": "assistant",
        "content": [] if begun else [text_part(text)],
    }


def text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def own_id(response: str, count: int) -> str:
    """Return the id of a message of our own: always the same for the same answer."""
    return f"msg_{digest(f'{response}/{count}')}"


def output_edits(
    data: bytes,
    span: Span,
    *,
    drop: set[int],
    before: Sequence[bytes] = (),
    behind: Sequence[bytes] = (),
) -> list[Edit]:
    """Return the edits that take items out of a list and put others around the rest.

    `span` is where the list, or null, stands in `data`.
    """
    if data[span.start : span.start + 1] != b"[":
        whole = b"[" + b",".join([*before, *behind]) + b"]"
        return [Edit(*span, whole)] if before or behind else []
    places = elements(without_lone_surrogates(data), span)
    edits = without(places, drop)
    stays = len(places) > len(drop)
    if before:
        at = span.start + 1
        edits.append(Edit(at, at, b",".join(before) + (b"," if stays or behind else b"")))
    if behind:
        at = places[-1].end if places else span.end - 1
        edits.append(Edit(at, at, (b"," if stays else b"") + b",".join(behind)))
    return edits


def listed_places(data: bytes) -> list[Span]:
    """Return where each item of the snapshot at the end stands."""
    text = without_lone_surrogates(data)
    response = member(members(text), "response")
    return elements(text, member(members(text, response), "output"))


def with_id(item: bytes, name: str) -> bytes:
    span = value_of(item, "id")
    return item if span is None else apply(item, [Edit(*span, msgspec.json.encode(name))])

"""The form in which an item of a loose stream leaves: as it came, or in one that all clients read alike."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from modegate.core.dialects.common.frames import OwnFrames, framed, with_member
from modegate.core.dialects.common.strict_json import exactly
from modegate.core.dialects.responses.answer.call_consistency import (
    ARGUMENT_EVENTS,
    ConsistencyCheck,
)
from modegate.core.dialects.responses.answer.calls import CALLS, call_of
from modegate.core.dialects.responses.answer.loose_item import (
    Event,
    Head,
    LooseItem,
    decoded,
    read_head,
)
from modegate.core.dialects.responses.answer.parsing import ADDED, CLIENT_RUNS, DONE, parse_event
from modegate.core.errors import AnswerUnreadable
from modegate.core.step.answer.straightener import Ids
from modegate.core.wire.sse import Frame

_encode = msgspec.json.encode


def call_frames(one: LooseItem, own: OwnFrames, ids: Ids) -> list[Frame]:
    """Return a call that has ended: as it came, or in the one form that every client reads alike."""
    one.final = one.item
    if not one.item:
        return one.frames
    head = read_head(one.item) or Head()
    if head.type in CALLS and not head.name and not one.arguments and not one.doubt:
        # A placeholder, as some servers send before they know whether there will be a call.
        one.dropped = True
        return []
    if head.type not in CLIENT_RUNS and not one.doubt:
        return one.frames
    given, name = _call_id(one, head), None
    if head.type in CALLS:
        name = ids.own(given, "call_") or (given if given != head.call_id else None)
    streams = head.type in ARGUMENT_EVENTS
    lacks = streams and bool(one.arguments) and (not one.deltas or one.whole_arguments is None)
    if not (name or lacks or one.loose or one.doubt):
        return one.frames
    if doubt := one.doubt or _inconsistency(one):
        return [own.frame(_item_event(DONE, one, one.item), doubt)]
    if not streams:
        return [own.frame(_item_event(kind, one, one.item)) for kind in (ADDED, DONE)]
    _complete(one, head, name)
    return [own.frame(value) for value in _in_one_piece(one)]


def _item_event(kind: str, one: LooseItem, item: bytes) -> dict[str, Any]:
    return {"type": kind, "output_index": one.place, "item": msgspec.Raw(item)}


def _call_id(one: LooseItem, head: Head) -> Any:
    """Return the id under which it is answered; some servers tell of it at one of its ends alone."""
    begun = read_head(one.announced) if one.announced else None
    return head.call_id if head.call_id or begun is None else begun.call_id


def _inconsistency(one: LooseItem) -> str:
    """Say why what came of it is not one call; empty if it is."""
    try:
        return _checked(one)
    except AnswerUnreadable as error:
        return str(error)


def _checked(one: LooseItem) -> str:
    first, last = exactly_in(one.announced or one.item), exactly_in(one.item)
    if first.get("call_id") in (None, "", first.get("id")) or not last.get("call_id"):
        first["call_id"] = last["call_id"] = _call_id(one, one.head) or "none"
    call = call_of(first)
    if call is None:
        return ""
    begun = first.get("status") == "in_progress" and call.type not in CALLS
    check = ConsistencyCheck(call, "" if begun or not one.announced else call.arguments)
    for frame in one.frames:
        # What is written anew must not hide what would be refused as it came.
        value = parse_event(frame.data or b"")
        if value["type"] not in (ADDED, DONE):
            check.add(value["type"], exactly(frame.data or b"", value))
    check.end(last, last)
    return call.odd


def _complete(one: LooseItem, head: Head, name: Any) -> None:
    """Give it an id where it has none, and a call_id that is its own."""
    if not head.id:
        own_id = one.head.id or f"fc_{name or head.call_id}"
        one.final = with_member(one.final, _encode(own_id), "id")
    if name is not None:
        one.final = with_member(one.final, _encode(name), "call_id")
    if head.status == "in_progress":
        one.final = with_member(one.final, b'"completed"', "status")


def _in_one_piece(one: LooseItem) -> list[dict[str, Any]]:
    """Return the events of a call with its arguments in one piece."""
    begins, key = ARGUMENT_EVENTS[one.head.type]
    value = exactly_in(one.final)
    text = str(value.get(key) or "")
    begun = with_member(one.final, b'""', key)
    begun = with_member(begun, b'"in_progress"', "status") if value.get("status") else begun
    raw = msgspec.Raw(_quoted(text))
    at = {"item_id": value.get("id"), "output_index": one.place}
    return [
        _item_event(ADDED, one, begun),
        *([{"type": f"{begins}.delta", **at, "delta": raw}] if text else []),
        {"type": f"{begins}.done", **at, key: raw},
        _item_event(DONE, one, one.final),
    ]


def with_one_id(one: LooseItem, frame: Frame, event: Event) -> Frame:
    """Let all events of a text say the id with which it was announced, as the SDKs want it."""
    data, name = frame.data or b"", _encode(one.head.id)
    if not one.head.id:
        return frame
    if event.item_id not in (None, one.head.id):
        return framed(with_member(data, name, "item_id"), frame.event)
    head = read_head(event.item)
    if event.type == DONE and head is not None and head.id != one.head.id:
        one.final = with_member(one.item, name, "id")
        return framed(with_member(data, name, "item", "id"), frame.event)
    return frame


def announcement(one: LooseItem, own: OwnFrames) -> list[Frame]:
    """Return what a message begins with, for one of which only the text came."""
    one.added = True
    part = {"type": "output_text", "text": "", "annotations": []}
    item = {"type": "message", "id": one.head.id, "role": "assistant", "status": "in_progress"}
    at = {"item_id": one.head.id, "output_index": one.place, "content_index": 0}
    return [
        own.frame({"type": ADDED, "output_index": one.place, "item": {**item, "content": []}}),
        own.frame({"type": "response.content_part.added", **at, "part": part}),
    ]


def missing_frames(one: LooseItem, own: OwnFrames) -> list[Frame]:
    """Return what is missing of an item of text that only the end of the answer has whole."""
    one.final = one.item
    end = _item_event(DONE, one, one.item)
    if one.added:
        return [own.frame(end)]
    item, is_message = decoded(one.item), one.head.type == "message"
    key = "content" if is_message else "summary"
    begun = with_member(one.item, b"[]", key) if item.get(key) else one.item
    out = [_item_event(ADDED, one, begun)]
    for number, part in enumerate((item.get("content") or ()) if is_message else ()):
        out += _part_events(one, number, part)
    return [own.frame(value) for value in (*out, end)]


def _part_events(one: LooseItem, number: int, part: Any) -> list[dict[str, Any]]:
    key = "refusal" if isinstance(part, dict) and part.get("type") == "refusal" else "text"
    if not isinstance(part, dict) or not isinstance(part.get(key), str):
        return []
    at = {"item_id": one.head.id or "", "output_index": one.place, "content_index": number}
    name = "response.refusal" if key == "refusal" else "response.output_text"
    logs: dict[str, Any] = {"logprobs": []} if key == "text" else {}
    return [
        {"type": "response.content_part.added", **at, "part": {**part, key: ""}},
        {"type": f"{name}.delta", **at, "delta": part[key], **logs},
        {"type": f"{name}.done", **at, key: part[key], **logs},
        {"type": "response.content_part.done", **at, "part": part},
    ]


def exactly_in(data: bytes) -> dict[str, Any]:
    """Return an object with halves of characters as they are."""
    return exactly(data, decoded(data))


def _quoted(text: str) -> bytes:
    """Return a JSON string; one that holds halves of characters with them as escapes."""
    try:
        return _encode(text)
    except UnicodeEncodeError:
        return json.dumps(text).encode()

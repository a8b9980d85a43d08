"""Withheld exchanges in a chat completions history: made from an answer, found again, put back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from modegate.core.calls import Gathered, arguments_hash, digest, parse_arguments
from modegate.core.dialects.base import ChoiceRead, Found, Item, Refused
from modegate.core.dialects.chat.answer import REASONING_KEYS
from modegate.core.dialects.chat.request import ChatRequest, calls_of, content_text
from modegate.core.events import Segment
from modegate.core.reminders import plain, plain_parts
from modegate.core.spans import Edit, Span, apply, elements, quote, without_members

_encode = msgspec.json.encode


def shows_reasoning(request: ChatRequest) -> bool:
    """Tell whether the agent sends reasoning back, so that its model may expect ours too."""
    return any(key in message for message in request.history for key in REASONING_KEYS)


def turn_messages(
    choice: ChoiceRead, refused: Sequence[Refused], *, reasoning: bool
) -> list[dict[str, Any]]:
    """Give a wholly refused answer and our answers to its calls, as messages."""
    message: dict[str, Any] = {"role": "assistant", "content": choice.text() or None}
    if reasoning:
        message |= {key: choice.text(key) for key in REASONING_KEYS if choice.text(key)}
    calls = [call_json(one) for one in refused if one.call.kind != "legacy"]
    if calls:
        message["tool_calls"] = calls
    for one in refused:
        if one.call.kind == "legacy":
            message["function_call"] = _function(one.call)
    return [message, *(answer_json(one) for one in refused)]


def call_json(one: Refused) -> dict[str, Any]:
    """Give a refused call as it stands in the history."""
    call = one.call
    if call.kind == "custom":
        body = {"custom": {"name": call.name, "input": call.arguments}}
    else:
        body = {"function": _function(call)}
    return {"id": one.id, "type": call.kind, **body, **call.extra}


def _function(call: Gathered) -> dict[str, str]:
    # What does not parse would be refused by providers for ever after.
    readable = parse_arguments(call.arguments) is not None
    return {"name": call.name, "arguments": call.arguments if readable else "{}"}


def answer_json(one: Refused) -> dict[str, Any]:
    """Give our answer to a refused call."""
    if one.call.kind == "legacy":
        return {"role": "function", "name": one.call.name, "content": one.answer}
    return {"role": "tool", "tool_call_id": one.id, "content": one.answer}


def turn_blob(choice: ChoiceRead, refused: Sequence[Refused]) -> bytes:
    """Give the stored body of a hop of which every call was refused."""
    return _encode({"turn": turn_messages(choice, refused, reasoning=True)})


def partial_blob(choice: ChoiceRead, refused: Sequence[Refused]) -> bytes:
    """Give the stored body of a hop of which some calls were released."""
    by_call = {id(one.call): one for one in refused}
    calls: list[tuple[int, dict[str, Any]]] = []
    released = 0
    for call in choice.calls:
        one = by_call.get(id(call))
        if one is None:
            released += 1
        elif call.kind != "legacy":
            calls.append((released, call_json(one)))
    answers = [answer_json(one) for one in refused if one.call.kind != "legacy"]
    return _encode({"calls": calls, "answers": answers})


def items(request: ChatRequest) -> list[Item]:
    """Give the history's messages with their keys."""
    return [Item(_key(message), message.get("role") == "assistant") for message in request.history]


def _key(message: dict[str, Any]) -> str:
    role = str(message.get("role"))
    if role == "tool":
        return f"tool:{message.get('tool_call_id')}"
    if role == "function":
        return f"function:{message.get('name')}"
    for call in calls_of(message):
        inner = call.get("function") or call.get("custom")
        if isinstance(inner, dict):
            text = inner.get("arguments", inner.get("input", ""))
            return call_key(str(call.get("id") or ""), str(inner.get("name")), _text(text))
    legacy = message.get("function_call")
    if isinstance(legacy, dict):
        return call_key("", str(legacy.get("name")), _text(legacy.get("arguments", "")))
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    return text_key(role, plain_parts(content_text([part]) or content_text(part) for part in parts))


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else _encode(arguments).decode()


def call_key(call_id: str, name: str, arguments: str) -> str:
    """Give the key of an answer with calls: of the first, its id, name and arguments."""
    return f"call:{call_id}:{name}:{arguments_hash(arguments)}"


def text_key(role: str, text: str) -> str:
    """Give the key of a message of text: without reminders and white space at the ends."""
    return f"{role}:{digest(plain(text))}"


def answer_key(text: str, released: Sequence[Gathered]) -> str:
    """Give the key under which the client will send an answer back."""
    if released:
        first = released[0]
        return call_key("" if first.kind == "legacy" else first.id, first.name, first.arguments)
    return text_key("assistant", text)


def restore(request: ChatRequest, found: Found) -> bytes:
    """Put withheld exchanges back: for a message's index, its hops' segments and stored bodies."""
    edits: list[Edit] = []
    for index, (hops, blobs) in found.items():
        edits += _restore_one(request, index, hops, [msgspec.json.decode(blob) for blob in blobs])
    return apply(request.body, edits)


def _restore_one(
    request: ChatRequest, index: int, hops: Sequence[Sequence[Segment]], blobs: list[dict[str, Any]]
) -> list[Edit]:
    span = request.messages[index]
    message = request.history[index]
    reasoning = any(key in message for key in REASONING_KEYS)
    front = [one for blob in blobs for one in blob.get("turn", ())]
    if not reasoning:
        front = [{k: v for k, v in one.items() if k not in REASONING_KEYS} for one in front]
    back = [one for blob in blobs for one in blob.get("answers", ())]
    kept = _kept(request, span, message, hops, [c for blob in blobs for c in blob.get("calls", ())])
    pieces = [*(_encode(one) for one in front), *([kept] if kept else ()), *map(_encode, back)]
    return [Edit(span.start, span.end, b",".join(pieces))]


def _kept(
    request: ChatRequest,
    span: Span,
    message: dict[str, Any],
    hops: Sequence[Sequence[Segment]],
    withheld: Sequence[tuple[int, dict[str, Any]]],
) -> bytes:
    """Give the client's message as the last hop alone: its text, its calls, the withheld among them.

    Empty if the last hop said nothing that stays.
    """
    body = request.body
    found = request.members_of(span)
    edits: list[Edit] = []
    drop: set[str] = set()
    texts = {key: message.get(key) for key in ("content", *REASONING_KEYS)}
    for key, text in texts.items():
        last = _last(text, hops, "text" if key == "content" else key)
        if last is None or last == text:
            continue
        texts[key] = last
        value = next(m.value for m in found if m.key == key)
        if last or key == "content":
            edits.append(Edit(*value, quote(last) if last else b"null"))
        else:
            drop.add(key)
    if not texts["content"] and not calls_of(message) and "function_call" not in message:
        return b""
    for member in found:
        if member.key == "tool_calls" and withheld:
            edits += _call_insertions(elements(body, member.value), withheld)
    whole = apply(body, [*edits, *without_members(found, drop)])
    return whole[span.start : len(whole) - (len(body) - span.end)]


def _call_insertions(
    spans: list[Span], withheld: Sequence[tuple[int, dict[str, Any]]]
) -> list[Edit]:
    edits: list[Edit] = []
    for released_before, call in withheld:
        if released_before == 0:
            edits.append(Edit(spans[0].start, spans[0].start, _encode(call) + b","))
        else:
            at = spans[min(released_before, len(spans)) - 1].end
            edits.append(Edit(at, at, b"," + _encode(call)))
    return edits


def _last(text: Any, hops: Sequence[Sequence[Segment]], kind: str) -> str | None:
    """Split off what the last hop said; None where the client's text is not what it was given.

    Hops' texts are joined by a blank line (see `whole.join_texts`), reasoning by nothing.
    """
    if not isinstance(text, str):
        return None
    lengths = [sum(s.length for s in hop if s.kind == kind) for hop in hops]
    hashes = ["".join(s.hash for s in hop if s.kind == kind) for hop in hops]
    size, last = lengths[-1], hashes[-1]
    if not any(lengths[:-1]):
        return text
    if size == 0:
        return ""
    tail = text[-size:]
    if digest(tail) == last:
        return tail
    trimmed = text.rstrip()
    return _trimmed_tail(trimmed, hops, kind)


def _trimmed_tail(text: str, hops: Sequence[Sequence[Segment]], kind: str) -> str | None:
    """Split a text whose end the client has trimmed, by the lengths in front of the last hop."""
    at = 0
    for hop in hops[:-1]:
        for segment in hop:
            if segment.kind == kind and segment.length:
                if digest(text[at : at + segment.length]) != segment.hash:
                    return None
                at += segment.length + (2 if kind == "text" else 0)
    return text[at:]

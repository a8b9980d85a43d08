"""Withheld exchanges put back into a chat completions history.

A client holds what it got of several hops as one message. It is split again: in front of it go the
turns of which every call was refused, among its calls those that were withheld, behind it our answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from modegate.core.dialects.chat.answer.answer_items import LISTS, plain_call, rest_behind
from modegate.core.dialects.chat.answer.parsing import REASONING_KEYS
from modegate.core.dialects.chat.request import history
from modegate.core.dialects.chat.request.history import OwnTurns
from modegate.core.dialects.chat.request.parsing import ChatRequest, calls_of
from modegate.core.dialects.common.texts import grow
from modegate.core.log.events import Segment
from modegate.core.step.answer.calls import digest
from modegate.core.step.dialect import Found, Notices
from modegate.core.step.request.request_form import Manner
from modegate.core.wire.json_spans import Edit, Span, apply, quote, without_members

_encode = msgspec.json.encode

TEXT_KEYS = ("content", *REASONING_KEYS)


def restore(request: ChatRequest, found: Found, notices: Notices, manner: Manner) -> bytes:
    edits = [edit for index, texts in notices.items() for edit in _notice(request, index, texts)]
    own = OwnTurns(request.history)
    for index, (hops, stored) in found.items():
        blobs = [_in_form(msgspec.json.decode(blob), own, index, manner) for blob in stored]
        edits += _restore_one(request, index, hops, blobs)
    return apply(request.body, edits)


def unbound(blob: bytes) -> bytes:
    value = msgspec.json.decode(blob)
    turn = history.in_form(value.get("turn", ()), thoughts=False)
    calls = [(place, plain_call(call)) for place, call in value.get("calls", ())]
    return _encode({**value, "turn": turn, "calls": calls})


def _in_form(blob: dict[str, Any], own: OwnTurns, index: int, manner: Manner) -> dict[str, Any]:
    turn = history.in_manner(blob.get("turn", ()), own, index, manner, otherwise=False)
    calls = blob.get("calls", ())
    if manner.thoughts is False:
        calls = [(place, plain_call(call)) for place, call in calls]
    return {**blob, "turn": turn, "calls": calls}


def _restore_one(
    request: ChatRequest, index: int, hops: Sequence[Sequence[Segment]], blobs: list[dict[str, Any]]
) -> list[Edit]:
    span = request.messages[index]
    message = request.history[index]
    front = [one for blob in blobs for one in blob["turn"]]
    edited = MessageEdit(request, span, message)
    for key in LISTS:
        given = message.get(key)
        parts = [part for one in front for part in one.get(key, ())]
        if parts and isinstance(given, list):
            rest = rest_behind(given, parts)
            if rest is None:
                front = [_without(one, key) for one in front]
            else:
                edited.leave_parts(key, given, rest)
    for key in TEXT_KEYS:
        kind = "text" if key == "content" else key
        earlier = [segment for hop in hops[:-1] for segment in hop if segment.kind == kind]
        if not earlier or (key != "content" and not message.get(key)):
            # What a client does not send of a thought does not stand there twice.
            continue
        last = next((segment for segment in hops[-1] if segment.kind == kind), None)
        text = _split(_only_text(message.get(key)) or "", earlier, last)
        if text is None:
            # Not as it was given: the client's own stays whole, and what the hops said is in it.
            front = [_without(one, key) for one in front]
        else:
            edited.leave_text(key, text)
    back = edited.insert_calls([call for blob in blobs for call in blob["calls"]])
    answers = [one for blob in blobs for one in blob.get("answers", ())] if back else []
    mine = edited.bytes()
    pieces = [*map(_encode, front), *([mine] if mine else ()), *map(_encode, answers)]
    return [Edit(span.start, span.end, b",".join(pieces))]


def _notice(request: ChatRequest, index: int, texts: Sequence[str]) -> list[Edit]:
    """Put sentences at the end of a message, be it the user's or a tool's result.

    Nothing may stand between a call and its results (B083), and many templates, Mistral's API among them,
    take nothing but the model's next message behind results (N007).
    """
    grown = grow(request, request.messages[index], "\n\n".join(texts))
    return [grown] if grown is not None else []


def _without(message: dict[str, Any], key: str) -> dict[str, Any]:
    if message["role"] != "assistant" or key not in message:
        return message
    if key == "content":
        return {**message, "content": None}
    return {name: value for name, value in message.items() if name != key}


def _only_text(content: Any) -> str | None:
    """Return a text, be it a string or a single part; None where there is nothing to split."""
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):
        content = content[0].get("text")
    return content if isinstance(content, str) else None


class MessageEdit:
    """The client's message as the last hop alone: its text, its calls, the withheld among them."""

    def __init__(self, request: ChatRequest, span: Span, message: dict[str, Any]) -> None:
        self._request = request
        self._span = span
        self._message = message
        self._found = request.members_of(span)
        self._edits: list[Edit] = []
        self._drop: set[str] = set()
        self._says = bool(message.get("content"))

    def leave_text(self, key: str, last: str) -> None:
        """Leave what the last hop said, of one text."""
        content = self._message.get(key)
        if key == "content":
            self._says = bool(last)
        if last == _only_text(content):
            return
        value = next(m.value for m in reversed(self._found) if m.key == key)
        if not last and key != "content" and not calls_of(self._message):
            self._drop.add(key)
        elif last and isinstance(content, list):
            part = self._request.elements_of(value)[0]
            text = next(m for m in reversed(self._request.members_of(part)) if m.key == "text")
            self._edits.append(Edit(*text.value, quote(last)))
        else:
            # Who wants thoughts with each turn that calls takes empty ones, where there were none (Kimi).
            nothing = b"null" if key == "content" else b'""'
            self._edits.append(Edit(*value, quote(last) if last else nothing))

    def leave_parts(self, key: str, given: list[Any], rest: list[Any]) -> None:
        """Leave the end of a list: all but parts of earlier hops, and of one what the last hop said."""
        value = next(m.value for m in reversed(self._found) if m.key == key)
        gone = len(given) - len(rest)
        if not rest:
            self._drop.add(key)
            return
        places = self._request.elements_of(value)
        if gone:
            self._edits.append(Edit(places[0].start, places[gone].start, b""))
        if rest[0] != given[gone]:
            self._edits.append(Edit(*places[gone], _encode(rest[0])))

    def insert_calls(self, withheld: Sequence[tuple[int, dict[str, Any]]]) -> bool:
        """Put withheld calls among those that the client has; tell whether they have a place there."""
        if not withheld or not calls_of(self._message):
            return False
        value = next(m.value for m in reversed(self._found) if m.key == "tool_calls")
        spans = self._request.elements_of(value)
        for released_before, call in withheld:
            if released_before == 0:
                self._edits.append(Edit(spans[0].start, spans[0].start, _encode(call) + b","))
            else:
                at = spans[min(released_before, len(spans)) - 1].end
                self._edits.append(Edit(at, at, b"," + _encode(call)))
        return True

    def bytes(self) -> bytes:
        """Return the message; empty if the last hop said nothing that stays."""
        called = calls_of(self._message) or self._message.get("function_call")
        if not self._says and not called:
            return b""
        body, span = self._request.body, self._span
        whole = apply(body, [*self._edits, *without_members(self._found, self._drop)])
        return whole[span.start : len(whole) - (len(body) - span.end)]


def _split(text: str, earlier: Sequence[Segment], last: Segment | None) -> str | None:
    """Return what the last hop said of a text; None where the text is not what the client was given.

    Hops' texts are joined by a blank line (see `whole.join_texts`), reasoning by nothing. White space at
    the end may be gone.
    """
    if last is not None and digest(text[-last.length :]) == last.hash:
        return text[-last.length :]
    at = 0
    for segment in earlier:
        end = at + segment.length
        if digest(text[at:end]) != segment.hash:
            return None
        at = end + (2 if segment.kind == "text" else 0)
    return text[at:] if last is not None else ""

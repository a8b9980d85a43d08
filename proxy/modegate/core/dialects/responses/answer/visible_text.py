"""The visible text of a Responses answer: in pieces, and whole in four forms."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from typing import Any

from modegate.core.dialects.common.strict_json import check_objects
from modegate.core.dialects.common.texts import content_text
from modegate.core.dialects.responses.answer import parsing
from modegate.core.dialects.responses.request.parsing import ResponsesRequest
from modegate.core.step.answer.parts import Spoken

_TEXT = "response.output_text."
_THOUGHT = "response.reasoning"
_PART = "response.content_part."
_KINDS = frozenset({"output_text", "text"})


def visible_texts(data: bytes, *, streamed: bool) -> tuple[list[Spoken], frozenset[int]]:
    value = parsing.parse_event(data)
    if not streamed:
        return _of_items(parsing.items_of(value), repeats=False), frozenset({0})
    check_objects(data)
    kind = value.get("type")
    if not isinstance(kind, str):
        return [], frozenset()
    ends = frozenset({0} if kind in parsing.ENDS else ())
    if kind == f"{_TEXT}delta":
        place = (value.get("item_id"), value.get("output_index"), value.get("content_index"))
        return _of_text(value.get("delta"), place=place), ends
    if kind.startswith(_TEXT):
        return _of_text(value.get("text"), repeats=True), ends
    if kind.startswith(_THOUGHT):
        return [replace(one, voice="thought", fixed=True) for one in _thought(kind, value)], ends
    if kind.startswith(_PART):
        return _of_parts([value.get("part")], None, repeats=True), ends
    item, response = value.get("item"), value.get("response")
    if isinstance(item, dict):
        return _of_items([item], repeats=True), ends
    if isinstance(response, dict):
        return _of_items(parsing.items_of(response), repeats=True), ends
    return [], ends


def _thought(kind: str, value: dict[str, Any]) -> list[Spoken]:
    if kind.endswith(".delta"):
        parts = (value.get("summary_index"), value.get("content_index"))
        return _of_text(value.get("delta"), place=(value.get("item_id"), parts))
    part = value.get("part")
    return _of_text(part.get("text") if isinstance(part, dict) else value.get("text"), repeats=True)


def _of_reasoning(item: dict[str, Any], at: int, *, repeats: bool) -> list[Spoken]:
    parts = [
        part
        for key in ("summary", "content")
        if isinstance(found := item.get(key), list)
        for part in found
    ]
    return [
        replace(one, voice="thought", fixed=True)
        for number, part in enumerate(parts)
        if isinstance(part, dict)
        for one in _of_text(part.get("text"), place=(at, number), repeats=repeats)
    ]


def _of_items(items: list[dict[str, Any]], *, repeats: bool) -> list[Spoken]:
    found: list[Spoken] = []
    for at, item in enumerate(items):
        if item.get("type") == "reasoning":
            found += _of_reasoning(item, at, repeats=repeats)
        if item.get("type", "message") != "message":
            continue
        content = item.get("content")
        if isinstance(content, list):
            found += _of_parts(content, at, repeats=repeats)
        else:
            found += _of_text(content, place=at, repeats=repeats)
    return found


def _of_parts(parts: list[Any], at: int | None, *, repeats: bool) -> list[Spoken]:
    return [
        one
        for number, part in enumerate(parts)
        if isinstance(part, dict) and str(part.get("type")) in _KINDS
        for one in _of_text(part.get("text"), place=(at, number), repeats=repeats)
    ]


def _of_text(text: Any, *, place: Any = None, repeats: bool = False) -> list[Spoken]:
    return [Spoken(text, place=place, repeats=repeats)] if isinstance(text, str) else []


def system_text(request: ResponsesRequest) -> str:
    instructions = request.value("instructions")
    spans = () if request.string_input else request.messages
    tell = takewhile(lambda span: request.role(span) in ("system", "developer"), spans)
    told = [content_text(request.decode(span).get("content")) for span in tell]
    return "\n".join([instructions if isinstance(instructions, str) else "", *told])

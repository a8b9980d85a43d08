"""The visible text of a Messages answer."""

from __future__ import annotations

from typing import Any

from modegate.core.dialects.common.texts import content_text
from modegate.core.dialects.messages.answer import parsing
from modegate.core.dialects.messages.answer.answer_items import TEXT, TEXT_DELTAS, THINKING
from modegate.core.dialects.messages.request.parsing import MessagesRequest
from modegate.core.step.answer.parts import Spoken

_ENDS = frozenset({"message_delta", "message_stop"})


def visible_texts(data: bytes, *, streamed: bool) -> tuple[list[Spoken], frozenset[int]]:
    if not streamed:
        blocks = parsing.blocks_of(parsing.parse_message(data))
        found = [one for at, block in enumerate(blocks) for one in _block(block, at)]
        return found, frozenset({0})
    plain = parsing.plain_delta(data)
    if plain is not None:
        index, of, text = plain
        return _texts(of, text, index), frozenset()
    value = parsing.parse_event(data)
    kind, place = value.get("type"), value.get("index")
    if kind == "content_block_start" and isinstance(value.get("content_block"), dict):
        return _block(value["content_block"], place), frozenset()
    delta = value.get("delta")
    if kind == "content_block_delta" and isinstance(delta, dict):
        of = TEXT_DELTAS.get(str(delta.get("type")), "")
        return _texts(of, delta.get(of), place), frozenset()
    return [], frozenset({0} if str(kind) in _ENDS else ())


def _block(block: dict[str, Any], place: Any) -> list[Spoken]:
    of = str(block.get("type"))
    return _texts(of, block.get(of), place)


def _texts(of: str, text: Any, place: Any) -> list[Spoken]:
    if not isinstance(text, str) or of not in (TEXT, THINKING):
        return []
    thought = of == THINKING  # and signed
    return [Spoken(text, place=place, voice="thought" if thought else "", fixed=thought)]


def system_text(request: MessagesRequest) -> str:
    return content_text(request.value("system"))

"""The visible text of a Messages answer."""

from __future__ import annotations

from typing import Any

from modegate.core.dialects.base import Spoken
from modegate.core.dialects.messages import answer
from modegate.core.dialects.messages.request import MessagesRequest
from modegate.core.dialects.texts import content_text

TEXT = "text"
_ENDS = frozenset({"message_delta", "message_stop"})


def spoken(data: bytes, *, streamed: bool) -> tuple[list[Spoken], frozenset[int]]:
    """Give the text of the blocks, and whether the answer ends."""
    if not streamed:
        blocks = answer.blocks_of(answer.parse_message(data))
        found = [_block(block, at) for at, block in enumerate(blocks)]
        return [one for one in found if one is not None], frozenset({0})
    plain = answer.plain_delta(data)
    if plain is not None:
        index, of, text = plain
        return ([Spoken(text, place=index)] if of == TEXT else []), frozenset()
    value = answer.parse_event(data)
    kind, place = value.get("type"), value.get("index")
    if kind == "content_block_start" and isinstance(value.get("content_block"), dict):
        begun = _block(value["content_block"], place)
        return [begun] if begun is not None else [], frozenset()
    delta = value.get("delta")
    if kind == "content_block_delta" and isinstance(delta, dict):
        said = delta.get(TEXT) if delta.get("type") == "text_delta" else None
        return ([Spoken(said, place=place)] if isinstance(said, str) else []), frozenset()
    return [], frozenset({0} if kind in _ENDS else ())


def _block(block: dict[str, Any], place: Any) -> Spoken | None:
    text = block.get(TEXT) if block.get("type") == TEXT else None
    return Spoken(text, place=place) if isinstance(text, str) else None


def system_text(request: MessagesRequest) -> str:
    """Give the `system` of a request."""
    return content_text(request.value("system"))

"""The visible text of a chat completions answer."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from modegate.core.dialects.chat.answer import parsing
from modegate.core.dialects.chat.request.parsing import ChatRequest
from modegate.core.dialects.common.strict_json import reason_in
from modegate.core.dialects.common.texts import content_text
from modegate.core.step.answer.parts import Spoken

TELL = frozenset({"system", "developer"})
"""Roles in which an agent tells its model what it is."""


def visible_texts(data: bytes, *, streamed: bool) -> tuple[list[Spoken], frozenset[int]]:
    del streamed  # a chunk and a whole answer are read alike
    found: list[Spoken] = []
    ended: set[int] = set()
    for index, choice in parsing.choices_of(parsing.parse_answer(data, strictly=True)):
        # Some client could take a `message` beside a `delta` for what was said.
        bodies = [body for key in ("delta", "message") if isinstance(body := choice.get(key), dict)]
        texts = [text for body in bodies for text in _texts(body.get("content"))]
        found += [Spoken(text, index) for text in texts]
        for body in bodies:
            found += _thoughts(body, index)
        if reason_in(choice, "finish_reason"):
            ended.add(index)
    return found, frozenset(ended)


def _thoughts(body: dict[str, Any], index: int) -> list[Spoken]:
    """Return the reasoning; under a second key it is the same again, or another that is read by itself."""
    texts = [body.get(key) for key in parsing.REASONING_KEYS]
    thoughts = dict.fromkeys(text for text in texts if isinstance(text, str) and text)
    return [Spoken(text, index, voice=f"thought {at}") for at, text in enumerate(thoughts)]


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return [text for text in texts if isinstance(text, str)]


def system_text(request: ChatRequest) -> str:
    spans = takewhile(lambda span: request.role(span) in TELL, request.messages)
    return "\n".join(content_text(request.decode(span).get("content")) for span in spans)

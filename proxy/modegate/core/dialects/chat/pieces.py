"""The pieces of a delta or message: calls gathered one by one, texts noted.

What cannot be read of a call makes it odd, and an odd call is refused.
"""

from __future__ import annotations

import json
from typing import Any

from modegate.core.calls import Gathered
from modegate.core.dialects.base import ChoiceRead
from modegate.core.dialects.chat.answer import REASONING_KEYS
from modegate.core.errors import AnswerUnreadable


def pieces_of(body: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Give the pieces of calls in a delta or message: (`tool` or `legacy`, the piece), in order.

    Raises:
        AnswerUnreadable: they have another shape.
    """
    found: list[tuple[str, dict[str, Any]]] = []
    calls = body.get("tool_calls")
    if calls is not None:
        if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
            raise AnswerUnreadable("the upstream's 'tool_calls' is not a list of objects")
        found += [("tool", call) for call in calls]
    legacy = body.get("function_call")
    if legacy is not None:
        if not isinstance(legacy, dict):
            raise AnswerUnreadable("the upstream's 'function_call' is not an object")
        found.append(("legacy", legacy))
    return found


_SHAPES = ("function", "custom")


def add_piece(call: Gathered, kind: str, piece: dict[str, Any]) -> None:
    """Add what one piece says to its call; what cannot be read makes the call odd."""
    if kind == "legacy":
        _add_function(call, piece)
        return
    name = piece.get("id")
    if isinstance(name, str):
        call.id = call.id or name
    elif name is not None:
        call.odd = "its id is not a string"
    if piece.get("type") in _SHAPES:
        call.shapes.add(str(piece["type"]))
    for key, value in piece.items():
        if key in _SHAPES:
            _add_shape(call, key, value)
        elif key not in ("index", "id", "type") and not _add_member(call, key, value):
            call.extra.setdefault(key, value)
    if "custom" in call.shapes:
        call.kind = "custom"


def _add_shape(call: Gathered, key: str, value: Any) -> None:
    if isinstance(value, dict):
        call.shapes.add(key)
        _add_function(call, value)
    elif value is not None:
        call.odd = f"{key!r} is not an object"


def _add_function(call: Gathered, function: dict[str, Any]) -> None:
    for key, value in function.items():
        _add_member(call, key, value)


def _add_member(call: Gathered, key: str, value: Any) -> bool:
    if key == "name":
        _add_name(call, value)
    elif key in ("arguments", "input"):
        _add_arguments(call, value)
    else:
        return False
    return True


def _add_name(call: Gathered, value: Any) -> None:
    if isinstance(value, str):
        if value:
            call.names.append(value)
    elif value is not None:
        call.odd = "its name is not a string"


def _add_arguments(call: Gathered, value: Any) -> None:
    if isinstance(value, str):
        call.pieces.append(value)
        # Half of a pair of surrogates, which a client joins with the other half in the next piece.
        call.split = call.split or "\ufffd" in value
    elif isinstance(value, dict):
        # Some servers send the object itself (llama.cpp issue 20198).
        call.pieces.append(json.dumps(value))
    elif value is not None:
        call.odd = "its arguments are neither a string nor an object"


def add_texts(choice: ChoiceRead, body: dict[str, Any]) -> None:
    """Note the text and the reasoning of a delta or message."""
    content = body.get("content")
    if isinstance(content, str) and content:
        choice.say("text", content)
    elif isinstance(content, list):
        for part in content:
            text = part.get("text") if isinstance(part, dict) else None
            if isinstance(text, str) and text:
                choice.say("text", text)
    for key in REASONING_KEYS:
        value = body.get(key)
        if isinstance(value, str) and value:
            choice.say(key, value)

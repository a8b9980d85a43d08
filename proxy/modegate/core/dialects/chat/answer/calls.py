"""The pieces of a delta or message: calls gathered one by one, texts noted.

What cannot be read of a call makes it odd, and an odd call is refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from modegate.core.dialects.chat.answer import parsing
from modegate.core.dialects.chat.answer.answer_items import LISTS, VALUES, ChatRead
from modegate.core.dialects.chat.answer.parsing import REASONING_KEYS, check_content
from modegate.core.dialects.common.call_members import ambiguity, inherits, is_index
from modegate.core.dialects.common.strict_json import exactly
from modegate.core.errors import AnswerUnreadable
from modegate.core.step.answer.calls import Gathered
from modegate.core.step.answer.parts import Part
from modegate.core.step.reasons import Reason
from modegate.core.wire.arguments import has_half

CallDeltas = list[tuple[str, dict[str, Any]]]
"""Pieces of calls: `tool` or `legacy`, and the piece."""


def call_deltas_of(body: dict[str, Any]) -> CallDeltas:
    """Return the pieces of calls in a body; raises `AnswerUnreadable` if they have another shape."""
    found: CallDeltas = []
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


def is_stub(piece: dict[str, Any]) -> bool:
    """Return whether a call of the old kind has neither a name nor arguments, nor anything else."""
    return piece.keys() <= _MEMBERS["function"] and all(
        value in (None, "") for value in piece.values()
    )


_SHAPES = {"function": ("name", "arguments"), "custom": ("name", "input")}
"""The objects in which a call says what it is: under which keys its name and its arguments stand."""

_MEMBERS = {shape: frozenset(keys) for shape, keys in _SHAPES.items()}

_TYPES = {"function": "function", "custom": "custom", "builtin_function": "function"}
"""Types of calls, and the object that has them; the last is Moonshot's, for what it offers itself."""

_OWN = frozenset({"index", "id", "type", *_SHAPES})


def only_goes_on(piece: dict[str, Any]) -> bool:
    """Return whether a later piece brings arguments and says nothing else, in the types of the API."""
    if piece.get("id") is not None or piece.get("type") not in (None, *_MEMBERS):
        return False
    for shape, (name, arguments) in _SHAPES.items():
        body = piece.get(shape)
        body = body if isinstance(body, dict) else {}
        if body.get(name) is not None or not isinstance(body.get(arguments), str | None):
            return False
    return True


def add_delta(call: Gathered, kind: str, piece: dict[str, Any], exact: dict[str, Any]) -> None:
    """Add what one piece says to its call; what leaves a doubt makes the call odd.

    `exact` is the piece with halves of characters as they are, which only arguments may have.
    """
    call.sent += 1
    if kind == "legacy":
        _add_function(call, "function", piece, exact)
        return
    _add_id(call, piece.get("id"))
    if not (piece.get("index") is None or is_index(piece["index"])):
        call.odd = Reason.NO_INDEX
    call.odd = call.odd or ambiguity(piece, _OWN)
    if inherits(piece.values()):
        call.odd = Reason.INHERITED_KEY
    _add_type(call, piece.get("type"))
    for key, value in piece.items():
        if key in _SHAPES:
            _add_shape(call, key, value, exact[key])
        elif key not in _OWN and value is not None and not ambiguity({key: value}, _OWN):
            # Servers fill all pieces with nulls, and one of them with what they mean.
            call.extra.setdefault(key, value)
    if "custom" in call.kinds:
        call.kind = "custom"


def _add_id(call: Gathered, value: Any) -> None:
    if isinstance(value, str):
        call.id = call.id or value
    elif value is not None:
        call.odd = Reason.ID_NO_STRING


def _add_type(call: Gathered, value: Any) -> None:
    if value in (None, ""):
        return
    shape = _TYPES.get(value) if isinstance(value, str) else None
    if shape is None:
        call.odd = Reason.UNKNOWN_TYPE
    else:
        call.kinds.add(shape)


def _add_shape(call: Gathered, key: str, value: Any, exact: Any) -> None:
    if isinstance(value, dict):
        if value:
            call.kinds.add(key)
        _add_function(call, key, value, exact)
    elif value is not None:
        call.odd = Reason.MEMBER_NO_OBJECT.with_(repr(key))


def _add_function(call: Gathered, shape: str, value: dict[str, Any], exact: dict[str, Any]) -> None:
    name, arguments = _SHAPES[shape]
    call.odd = call.odd or ambiguity(value, _MEMBERS[shape])
    _add_name(call, value.get(name))
    _add_arguments(call, exact.get(arguments))


def _add_name(call: Gathered, value: Any) -> None:
    if isinstance(value, str):
        if value:
            call.names.append(value)
        if "\ufffd" in value:
            call.odd = Reason.NAME_HALF_CHARACTER
    elif value is not None:
        call.odd = Reason.NAME_NO_STRING


def _add_arguments(call: Gathered, value: Any) -> None:
    if isinstance(value, str):
        call.pieces.append(value)
        # A client joins half of a character with the other half in the next piece, or does not.
        call.split = call.split or has_half(value)
    elif isinstance(value, dict):
        # Some servers send the object itself (llama.cpp issue 20198).
        call.pieces.append(json.dumps(value))
    elif value is not None:
        call.odd = Reason.ARGUMENTS_NEITHER


def add_texts(choice: ChatRead, body: dict[str, Any]) -> None:
    """Note text and reasoning; raises `AnswerUnreadable` if the content holds what is not known here."""
    content = body.get("content")
    check_content(content)
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
    for key in (*LISTS, *VALUES):
        if key in body:
            choice.note(key, body[key])


@dataclass(eq=False, slots=True)
class ChatFrame:
    raw: bytes
    """Empty for an end that is written anew."""
    data: bytes
    value: dict[str, Any]
    choices: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    again: set[int] = field(default_factory=set)
    """Choices that it says whole again, under `message`, after their deltas (MiniMax)."""
    left_out: bool = False
    """Something of those is not to go again."""
    _exact: list[tuple[int, dict[str, Any]]] | None = None

    def exact(self, at: int, found: CallDeltas) -> CallDeltas:
        """Return the pieces of calls of a choice again, with halves of characters as they are."""
        if self._exact is None:
            # Read once, however many choices hold calls.
            value = exactly(self.data, self.value)
            self._exact = self.choices if value is self.value else parsing.choices_of(value)
        if self._exact is self.choices:
            return found
        _, choice = self._exact[at]
        return call_deltas_of(parsing.body_of(choice))

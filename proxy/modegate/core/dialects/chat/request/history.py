"""Withheld exchanges in a chat completions history: made from an answer, and found again."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import msgspec

from modegate.core.dialects.chat.answer.answer_items import (
    THOUGHTS,
    ChatRead,
    for_any_provider,
    with_thoughts,
    without_thoughts,
)
from modegate.core.dialects.chat.request.parsing import ChatRequest, calls_of
from modegate.core.dialects.common.texts import plain_content
from modegate.core.identify.body import plain
from modegate.core.step.answer.calls import Gathered, arguments_hash, digest
from modegate.core.step.answer.parts import ChoiceRead, Refused
from modegate.core.step.dialect import Item
from modegate.core.step.request.request_form import Manner, Thoughts
from modegate.core.step.request.transcript import MAX_BLOB
from modegate.core.wire.arguments import parse_arguments, without_halves


class OwnTurns:
    """How an agent writes the turns of its model, so that those which modegate puts in are written likewise.

    Only what stands up to a place counts there: else a turn that was put in would change its bytes when the
    agent goes on in another way, and the provider would have to read all that follows anew (it caches by
    prefix).
    """

    def __init__(self, history: Sequence[dict[str, Any]]) -> None:
        turns = [(at, one) for at, one in enumerate(history) if one.get("role") == "assistant"]
        shown = (at for at, one in turns if any(one.get(key) is not None for key in THOUGHTS))
        never = len(history) + 1
        self._first = next((at for at, _ in turns), never)
        self._shows = next(shown, never)
        silent = [(at, one) for at, one in turns if calls_of(one) and not one.get("content")]
        self._silent = [at for at, _ in silent]
        self._empty = [one.get("content") == "" for _, one in silent]

    def show_thoughts(self, until: int) -> Thoughts:
        """Return whether what its model thought is sent back, so that its provider takes and may want it.

        None where no turn stands up to that index, which counts too.
        """
        return None if self._first > until else self._shows <= until

    def empty(self, until: int) -> bool:
        """Return whether turns up to an index that only call have an empty text; the last of them decides."""
        before = bisect_right(self._silent, until)
        return before > 0 and self._empty[before - 1]


_encode = msgspec.json.encode


def extend(
    request: ChatRequest, choice: ChatRead, refused: Sequence[Refused], manner: Manner
) -> bytes:
    """Return what the next hop's request has at the end: the model's turn, our answers to its calls."""
    own, end = OwnTurns(request.history), len(request.history)
    messages = in_manner(turn_messages(choice, refused), own, end, manner, otherwise=True)
    return b",".join(map(_encode, messages))


def in_manner(
    turn: Sequence[dict[str, Any]], own: OwnTurns, at: int, manner: Manner, *, otherwise: bool
) -> list[dict[str, Any]]:
    """Return messages as their provider is known to take them, else as the agent writes its own up to `at`.

    `otherwise`: whether what the model thought goes back where the agent has sent no turn yet.
    """
    if manner.thoughts is not None:
        made = in_form(turn, thoughts=manner.thoughts)
    else:
        shows = own.show_thoughts(at)
        goes = otherwise if shows is None else shows
        made = [one if goes else without_thoughts(one) for one in turn]
    empty = own.empty(at) if manner.empty is None else manner.empty
    return [_with_text(one) if empty else one for one in made]


def in_form(messages: Sequence[dict[str, Any]], *, thoughts: bool) -> list[dict[str, Any]]:
    """Return messages with all that is their provider's own, or without."""
    return [with_thoughts(one) if thoughts else for_any_provider(one) for one in messages]


def _with_text(message: dict[str, Any]) -> dict[str, Any]:
    silent = message["role"] == "assistant" and message.get("content") is None
    return {**message, "content": ""} if silent else message


def turn_messages(choice: ChatRead, refused: Sequence[Refused]) -> list[dict[str, Any]]:
    """Return a wholly refused answer and our answers to its calls, as messages."""
    message: dict[str, Any] = {"role": "assistant", "content": choice.text() or None}
    message |= choice.thoughts()
    native = [one for one in refused if not one.call.text]
    calls = [call_json(one) for one in native if one.call.kind != "legacy"]
    if calls:
        message["tool_calls"] = calls
    for one in native:
        if one.call.kind == "legacy":
            message["function_call"] = _function(one.call)
    # Behind the results, which have to follow their calls at once.
    notes = [{"role": "user", "content": one.answer} for one in refused if one.call.text]
    return [message, *(answer_json(one) for one in native), *notes]


def call_json(one: Refused) -> dict[str, Any]:
    call = one.call
    if call.kind == "custom":
        body = {"custom": {"name": call.name, "input": without_halves(call.arguments)}}
    else:
        body = {"function": _function(call)}
    return {"id": one.id, "type": call.kind, **body, **call.extra}


def _function(call: Gathered) -> dict[str, str]:
    # What does not parse would be refused by providers for ever after.
    readable = parse_arguments(call.arguments) is not None
    return {"name": call.name, "arguments": call.arguments if readable else "{}"}


def answer_json(one: Refused) -> dict[str, Any]:
    if one.call.kind == "legacy":
        return {"role": "function", "name": one.call.name, "content": one.answer}
    return {"role": "tool", "tool_call_id": one.id, "content": one.answer}


def turn_blob(choice: ChatRead, refused: Sequence[Refused]) -> bytes:
    """Return the stored body of a hop of which every call was refused: rather without thoughts than none."""
    messages = turn_messages(choice, refused)
    blob = _encode({"turn": messages})
    if len(blob) <= MAX_BLOB:
        return blob
    return _encode({"turn": [without_thoughts(one) for one in messages]})


def partial_blob(choice: ChoiceRead, refused: Sequence[Refused]) -> bytes:
    by_call = {id(one.call): one for one in refused}
    calls: list[tuple[int, dict[str, Any]]] = []
    released = 0
    for call in choice.calls:
        one = by_call.get(id(call))
        if one is None:
            released += call.released and call.kind != "legacy"
        elif call.kind != "legacy":
            calls.append((released, call_json(one)))
    answers = [answer_json(one) for one in refused if one.call.kind != "legacy"]
    return _encode({"calls": calls, "answers": answers})


def items(request: ChatRequest) -> list[Item]:
    return [
        Item(_key(one), one.get("role") == "assistant", isinstance(one.get("content"), str | list))
        for one in request.history
    ]


def last_key(request: ChatRequest) -> str:
    return _key(request.history[-1]) if request.history else ""


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
    return text_key(role, plain_content(message.get("content")))


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else _encode(arguments).decode()


def call_key(call_id: str, name: str, arguments: str) -> str:
    """Return the key of an answer with calls: of the first, its id, name and arguments."""
    return f"call:{call_id}:{name}:{arguments_hash(arguments)}"


def text_key(role: str, text: str) -> str:
    """Return the key of a message of text: without reminders and white space at the ends."""
    return f"{role}:{digest(plain(text))}"


def answer_key(text: str, released: Sequence[Gathered]) -> str:
    if released:
        first = released[0]
        return call_key("" if first.kind == "legacy" else first.id, first.name, first.arguments)
    return text_key("assistant", text)

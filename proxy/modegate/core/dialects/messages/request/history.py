"""Withheld exchanges in a Messages history: made from an answer, and the keys by which they are found.

Agents change what they send back: they merge and split text, trim it, leave out thinking of older turns,
move `cache_control`, write a call's arguments in their own way. A key holds what stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from modegate.core.dialects.messages.answer.answer_items import (
    CALL,
    TEXT,
    THINKING,
    Block,
    MessageRead,
    input_of,
    mark,
)
from modegate.core.dialects.messages.request.parsing import MessagesRequest, blocks_of
from modegate.core.identify.body import plain_parts
from modegate.core.step.answer.calls import SHORT_ID, SIGNATURE, Gathered, arguments_hash, digest
from modegate.core.step.answer.parts import Refused
from modegate.core.step.dialect import Item
from modegate.core.step.request.request_form import Thoughts
from modegate.core.step.request.transcript import MAX_BLOB

_encode = msgspec.json.encode

RESULT = "tool_result"
_BAD_NAME = re.compile(r"[^a-zA-Z0-9_-]")

_THOUGHTS = frozenset({THINKING, "redacted_thinking"})


def _takes_unsigned(request: MessagesRequest, read: MessageRead) -> bool:
    """Return whether thinking goes back that bears no signature.

    Some providers want it with the call that it led to (Kimi, DeepSeek). One that signs thinking refuses it,
    and so may one whose agent sends none of it.
    """
    if any(block.kind in _THOUGHTS and block.signed for block in read.blocks):
        return False
    turns = [one for one in request.history if one.get("role") == "assistant"]
    shown = [one for turn in turns for one in blocks_of(turn) if one.get("type") in _THOUGHTS]
    if any(one.get("signature") or one.get("data") for one in shown):
        return False
    return bool(shown) or not turns


def _thought_back(
    request: MessagesRequest, read: MessageRead, thoughts: Thoughts
) -> Callable[[Block], bool]:
    """Return what tells whether a block of thinking is told to the model again."""
    unsigned = _takes_unsigned(request, read) if thoughts is None else thoughts
    return lambda block: unsigned or (thoughts is None and block.signed)


def extend(
    request: MessagesRequest, read: MessageRead, refused: Sequence[Refused], thoughts: Thoughts
) -> bytes:
    by_call = {id(one.call): one for one in refused}
    content: list[Any] = []
    back = _thought_back(request, read, thoughts)
    for block in read.blocks:
        if block.kind == CALL and (one := by_call.get(id(block.call))) is not None:
            content.append(refused_block(one))
        elif block.shown and block.repeatable and (block.kind not in _THOUGHTS or back(block)):
            content.append(msgspec.Raw(block.encoded()))
    turn = (
        {"role": "assistant", "content": content},
        {"role": "user", "content": list(map(result_block, refused))},
    )
    return request.append(b",".join(map(_encode, turn)))


def refused_block(one: Refused) -> dict[str, Any]:
    call = one.call
    return {
        "type": CALL,
        "id": acceptable(one.id),
        # Behind the name of its toolset, if it has one.
        "name": acceptable(call.names[-1] if call.names else ""),
        "input": input_of(call),
        **call.extra,
    }


def result_block(one: Refused) -> dict[str, Any]:
    """Return our answer to a refused call; to one that stood in text there is no result, but words."""
    if one.call.text:
        return {"type": TEXT, "text": one.answer}
    result = {"type": "tool_result", "tool_use_id": acceptable(one.id), "content": one.answer}
    return result if one.approved else {**result, "is_error": True}


def acceptable(name: str) -> str:
    """Return an id or a name as the API takes it: letters, digits, `_` and `-`, at most 128.

    A signature in an id is litellm's, which takes it as it gave it.
    """
    head, sign, signature = name.partition(SIGNATURE)
    return (_BAD_NAME.sub("_", head)[:128] or "unknown") + sign + signature


def blob(read: MessageRead, refused: Sequence[Refused], *, turn: bool) -> bytes:
    """Return the stored body of a hop: its refused calls, each with how many segments stand in front.

    `turn` for one of which the agent has no call, so that our answers are a message of their own.
    """
    # One that came twice in this answer: the agent has it already, and the API wants them to differ.
    ids = {call.id for call in read.released()}
    mine = [replace(one, id=f"{one.id[:100]}_refused") if one.id in ids else one for one in refused]
    by_call = {id(one.call): one for one in mine}
    calls: list[tuple[int, dict[str, Any]]] = []
    shown = 0
    for block in read.blocks:
        if block.kind == CALL and (one := by_call.get(id(block.call))) is not None:
            calls.append((shown, refused_block(one)))
        elif block.shown and block.segment() is not None:
            shown += 1
    answers = [result_block(one) for one in mine]
    if not calls:
        return b""
    # An agent that sends no thinking back may have a provider that wants it with the call (Kimi, DeepSeek).
    loose = [one for one in read.blocks if one.kind == THINKING and not one.signed]
    thoughts = [msgspec.Raw(one.encoded()) for one in loose if turn and one.repeatable]
    whole = {"turn": turn, "calls": calls, "answers": answers}
    more = _encode({**whole, "thoughts": thoughts}) if thoughts else b""
    return more if 0 < len(more) <= MAX_BLOB else _encode(whole)


def items(request: MessagesRequest) -> list[Item]:
    found: list[Item] = []
    key, holds = "", False
    for message in request.history:
        # Agents put system messages between the others, and later leave them out or move them.
        if message.get("role") != "system":
            key = _key(message)
            holds = isinstance(message.get("content"), str | list)
        found.append(Item(key, message.get("role") == "assistant", holds))
    return found


def last_key(request: MessagesRequest) -> str:
    rest = (one for one in reversed(request.history) if one.get("role") != "system")
    return next(map(_key, rest), "")


def _key(message: dict[str, Any]) -> str:
    blocks = blocks_of(message)
    if message.get("role") != "assistant":
        results = [str(one.get("tool_use_id")) for one in blocks if one.get("type") == RESULT]
        if results:
            return "results:" + digest("\n".join(results))
        return "user:" + digest(_words(message))
    for block in blocks:
        if block.get("type") == CALL:
            input_ = _encode(_as_agents_write(block.get("input"))).decode()
            return _call_key(str(block.get("id")), str(block.get("name")), input_)
    marks = [mark(one) for one in blocks if one.get("type") != TEXT]
    return _said_key("".join(_texts(message)), marks)


def _texts(message: dict[str, Any]) -> list[str]:
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    texts = [one.get("text") for one in blocks_of(message) if one.get("type") == TEXT]
    return [text for text in texts if isinstance(text, str)]


def _words(message: dict[str, Any]) -> str:
    """Return a message's own words, without the agent's reminders."""
    return plain_parts(_texts(message))


def _call_key(call_id: str, name: str, arguments: str) -> str:
    # A long id is enough: agents tidy up the arguments that they send back.
    rest = arguments_hash(arguments or "{}") if len(call_id) < SHORT_ID else ""
    return f"call:{call_id}:{name}:{rest}"


def _said_key(text: str, marks: Sequence[str]) -> str:
    words = "".join(text.split())
    return f"assistant:{digest(words)}" if words else f"marks:{digest(' '.join(marks))}"


def _as_agents_write(value: Any) -> Any:
    """Return a call's arguments as agents in JavaScript read and write them: 1.0 is 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _as_agents_write(inner) for key, inner in value.items()}
    return [_as_agents_write(inner) for inner in value] if isinstance(value, list) else value


def answer_key(hops: Sequence[MessageRead]) -> str:
    released = hops[-1].released()
    if released:
        return _released_key(released[0])
    blocks = [block for read in hops for block in read.shown()]
    text = "".join(block.text for block in blocks if block.kind == TEXT)
    marks = [one.hash for block in blocks if block.kind != TEXT and (one := block.segment())]
    return _said_key(text, marks)


def _released_key(call: Gathered) -> str:
    value = msgspec.json.decode(call.arguments or "{}") if not call.broken else None
    return _call_key(call.id, call.names[-1], _encode(_as_agents_write(value)).decode())


def newest_is_user(request: MessagesRequest) -> bool:
    """Return whether the history ends with words of the user: results and reminders are none."""
    for message in reversed(request.history):
        if message.get("role") == "system":
            continue
        kinds = {block.get("type") for block in blocks_of(message)} - {RESULT, TEXT}
        return message.get("role") == "user" and bool(kinds or _words(message))
    return False

"""The scripted model in the dialect of the Messages API: read a request, write a message.

Shapes follow the Anthropic API's `message` object and its streaming events: a block for the thinking with
its signature, one for the text, one for each call. Ids come from a hash of the request, so that equal
requests get equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from modegate.scripted import parts
from modegate.scripted.model import Asked, ScriptDialect, ScriptedCall, Streamed, Turn
from modegate.scripted.parts import Object

STOP_REASONS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}
"""What this API calls a script's finish reasons; any other is sent as it is written."""


def read(body: bytes) -> Asked:
    request = parts.request_of(body)
    messages = parts.dicts(request.get("messages"))
    system = parts.text_of(request.get("system"))
    return Asked(
        model=str(request.get("model", "scripted")),
        stream=request.get("stream") is True,
        include_usage=True,
        tools=tuple(str(tool.get("name", "")) for tool in parts.dicts(request.get("tools"))),
        messages=(*([system] if system else ()), *_texts(messages)),
        results=tuple(_results(messages)),
        key=parts.key_of(body),
        size=len(body),
    )


def whole(turn: Turn, asked: Asked) -> bytes:
    answer = _message(asked) | {
        "content": [block for _, block in _blocks(turn, asked)],
        "stop_reason": _stop_reason(turn),
        "usage": _usage(turn, asked),
    }
    return msgspec.json.encode(answer)


def frames(turn: Turn, asked: Asked) -> Streamed:
    """Write a stream of events; what ends it begins with the end of the last block."""
    usage = _usage(turn, asked)
    begun = _message(asked) | {"usage": usage | {"output_tokens": 1}}
    said: list[Object] = [{"type": "message_start", "message": begun}, {"type": "ping"}]
    stop: list[Object] = []
    for at, block in _blocks(turn, asked):
        said += stop
        said += [
            {"type": "content_block_start", "index": at, "content_block": _empty(block)},
            *(
                {"type": "content_block_delta", "index": at, "delta": d}
                for d in _deltas(block, turn)
            ),
        ]
        stop = [{"type": "content_block_stop", "index": at}]
    delta = {"stop_reason": _stop_reason(turn), "stop_sequence": None}
    ending = [
        *stop,
        {"type": "message_delta", "delta": delta, "usage": usage},
        {"type": "message_stop"},
    ]
    return Streamed(
        tuple(parts.event(one) for one in said), tuple(parts.event(one) for one in ending)
    )


MESSAGES = ScriptDialect(read, whole, frames, "messages")


def count(asked: Asked) -> Object:
    """Return the answer of `count_tokens`: four bytes a token."""
    return {"input_tokens": asked.size // 4}


def _texts(messages: list[Object]) -> Iterator[str]:
    """Yield the text of each tool result, and of what else each message says."""
    for message in messages:
        results = _tool_results(message)
        yield from results
        text = parts.text_of(message.get("content"))
        if text or not results:
            yield text


def _results(messages: list[Object]) -> list[str]:
    results: list[str] = []
    for message in messages:
        if message.get("role") == "user":
            found = _tool_results(message)
            if not found:
                results.clear()
            results += found
    return results


def _tool_results(message: Object) -> list[str]:
    return [
        parts.text_of(block.get("content"))
        for block in parts.dicts(message.get("content"))
        if block.get("type") == "tool_result"
    ]


def _message(asked: Asked) -> Object:
    return {
        "id": f"msg_{asked.key}",
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _stop_reason(turn: Turn) -> str:
    finish = turn.finish or ("tool_calls" if turn.calls else "stop")
    return STOP_REASONS.get(finish, finish)


def _usage(turn: Turn, asked: Asked) -> Object:
    given = parts.usage_words(turn, parts.WORDS)
    if given is not None:
        given.pop("total_tokens", None)  # this API has none
        return given
    prompt, answer = parts.spent(turn, asked.size)
    cached = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    return {"input_tokens": prompt, **cached, "output_tokens": answer}


def _blocks(turn: Turn, asked: Asked) -> list[tuple[int, Object]]:
    """Return the blocks as they are in the end, with their indices; a call's input is kept as written."""
    said: list[Object] = []
    if turn.reasoning:
        said.append(
            {"type": "thinking", "thinking": turn.reasoning, "signature": f"signed-{asked.key}"}
        )
    if turn.text:
        said.append({"type": "text", "text": turn.text})
    blocks = list(enumerate(said))
    for place, call in enumerate(turn.calls):
        at = len(said) + place if call.index is None else call.index
        name = call.id or f"toolu_{asked.key}_{place + 1}"
        blocks.append(
            (at, {"type": "tool_use", "id": name, "name": call.name, "input": _input(call)})
        )
    return blocks


def _input(call: ScriptedCall) -> msgspec.Raw | str | Mapping[str, str]:
    """Return a call's input: a custom call's text as the one argument, and as text what is no JSON."""
    if call.custom:
        return {"input": call.arguments}
    if not call.arguments:
        return {}
    try:
        msgspec.json.decode(call.arguments)
    except (msgspec.MsgspecError, RecursionError):
        return call.arguments
    return msgspec.Raw(call.arguments.encode())


def _empty(block: Object) -> Object:
    empty: Object = {"thinking": "", "signature": "", "text": "", "input": {}}
    return {name: empty.get(name, value) for name, value in block.items()}


def _deltas(block: Object, turn: Turn) -> Iterator[Object]:
    if block["type"] == "thinking":
        for piece in parts.pieces(turn.reasoning, turn.chunk):
            yield {"type": "thinking_delta", "thinking": piece}
        yield {"type": "signature_delta", "signature": block["signature"]}
    elif block["type"] == "text":
        for piece in parts.pieces(turn.text, turn.chunk):
            yield {"type": "text_delta", "text": piece}
    else:
        for piece in ("", *parts.fragments(_json(block["input"]), turn.fragments)):
            yield {"type": "input_json_delta", "partial_json": piece}


def _json(value: Any) -> str:
    """Return a call's input as it is streamed; of one that is empty nothing is."""
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode() if value else ""

"""The scripted model in the dialect of chat completions: read a request, write an answer whole or as frames.

Shapes follow the OpenAI API's `chat.completion` and `chat.completion.chunk` objects; reasoning goes
under `reasoning_content`, where most compatible servers put it. Ids come from a hash of the request
and `created` is fixed, so that equal requests get equal bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from modegate.core.wire.sse import DONE, write_event
from modegate.scripted import parts
from modegate.scripted.model import Asked, ScriptDialect, ScriptedCall, Streamed, Turn
from modegate.scripted.parts import Object


def read(body: bytes) -> Asked:
    request = parts.request_of(body)
    messages = parts.dicts(request.get("messages"))
    options = request.get("stream_options")
    return Asked(
        model=str(request.get("model", "scripted")),
        stream=request.get("stream") is True,
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
        tools=tuple(_tool_names(request)),
        messages=tuple(parts.text_of(message.get("content")) for message in messages),
        results=tuple(_results(messages)),
        key=parts.key_of(body),
        size=len(body),
    )


def whole(turn: Turn, asked: Asked) -> bytes:
    message: Object = {"role": "assistant", "content": turn.text or None}
    if turn.reasoning:
        message["reasoning_content"] = turn.reasoning
    if turn.legacy:
        message["function_call"] = _function(turn.calls[0])
    elif turn.calls:
        message["tool_calls"] = [
            {"id": _id(call, place, asked), "type": _kind(call), _kind(call): _function(call)}
            for place, call in enumerate(turn.calls)
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(turn)}
    answer = _envelope("chat.completion", asked) | {
        "choices": [choice],
        "usage": _usage(turn, asked),
    }
    return msgspec.json.encode(answer)


def frames(turn: Turn, asked: Asked) -> Streamed:
    """Write `chat.completion.chunk` frames; usage is sent where the request asks for it."""
    said = tuple(_frame(asked, delta) for delta in _deltas(turn, asked))
    ending = [_frame(asked, {}, _finish(turn))]
    if asked.include_usage:
        envelope = _envelope("chat.completion.chunk", asked)
        ending.append(_sse(envelope | {"choices": [], "usage": _usage(turn, asked)}))
    return Streamed(said, (*ending, write_event(DONE)))


CHAT = ScriptDialect(read, whole, frames, "chat")


def _tool_names(request: Object) -> Iterator[str]:
    for tool in parts.dicts(request.get("tools")):
        inner = tool.get(str(tool.get("type")))
        yield str((inner if isinstance(inner, dict) else tool).get("name", ""))
    for function in parts.dicts(request.get("functions")):
        yield str(function.get("name", ""))


def _results(messages: list[Object]) -> list[str]:
    results: list[str] = []
    for message in messages:
        role = message.get("role")
        if role == "user":
            results.clear()
        elif role in ("tool", "function"):
            results.append(parts.text_of(message.get("content")))
    return results


def _envelope(kind: str, asked: Asked) -> Object:
    return {
        "id": f"chatcmpl-{asked.key}",
        "object": kind,
        "created": parts.CREATED,
        "model": asked.model,
    }


def _frame(asked: Asked, delta: Object, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    chunk = _envelope("chat.completion.chunk", asked) | {"choices": [choice]}
    return _sse(chunk | ({"usage": None} if asked.include_usage else {}))


def _sse(chunk: Object) -> bytes:
    return write_event(msgspec.json.encode(chunk))


def _deltas(turn: Turn, asked: Asked) -> Iterator[Object]:
    yield {"role": "assistant", "content": "" if turn.text or not turn.calls else None}
    for piece in parts.pieces(turn.reasoning, turn.chunk):
        yield {"reasoning_content": piece}
    for piece in parts.pieces(turn.text, turn.chunk):
        yield {"content": piece}
    for place, call in enumerate(turn.calls):
        begin, more = _call_deltas(call, place, asked, legacy=turn.legacy)
        yield begin
        for piece in parts.fragments(call.arguments, turn.fragments):
            yield more(piece)


def _call_deltas(
    call: ScriptedCall, place: int, asked: Asked, *, legacy: bool
) -> tuple[Object, Callable[[str], Object]]:
    """Return the delta that begins a call, and a function that makes one of a piece of its arguments."""
    kind = _kind(call)
    field = "input" if call.custom else "arguments"
    if legacy:
        begin: Object = {"function_call": {"name": call.name, field: ""}}
        return begin, lambda piece: {"function_call": {field: piece}}
    index = place if call.index is None else call.index
    first = {
        "index": index,
        "id": _id(call, place, asked),
        "type": kind,
        kind: {"name": call.name, field: ""},
    }
    return {"tool_calls": [first]}, lambda piece: {
        "tool_calls": [{"index": index, kind: {field: piece}}]
    }


def _kind(call: ScriptedCall) -> str:
    return "custom" if call.custom else "function"


def _function(call: ScriptedCall) -> dict[str, str]:
    return {"name": call.name, "input" if call.custom else "arguments": call.arguments}


def _id(call: ScriptedCall, place: int, asked: Asked) -> str:
    return call.id or f"call_{asked.key}_{place + 1}"


def _finish(turn: Turn) -> str:
    if turn.finish:
        return turn.finish
    if not turn.calls:
        return "stop"
    return "function_call" if turn.legacy else "tool_calls"


def _usage(turn: Turn, asked: Asked) -> Any:
    """Return the script's usage, else an estimate: four bytes or characters a token."""
    if turn.usage is not None:
        return turn.usage
    prompt, answer = parts.spent(turn, asked.size)
    return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}

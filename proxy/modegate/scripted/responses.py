"""The scripted model in the dialect of the Responses API: read a request, write a response.

Shapes follow the OpenAI API's `response` object and its streaming events: an item for the reasoning, one
for the text, one for each call. Nothing is stored: `previous_response_id` is repeated and not looked up.
Ids come from a hash of the request and times are fixed, so that equal requests get equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from modegate.scripted import parts
from modegate.scripted.model import Asked, ScriptDialect, ScriptedCall, Streamed, Turn
from modegate.scripted.parts import Object

REPEATED: Object = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
"""What a response repeats of its request, and what it says where the request says nothing."""

INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Finish reasons after which a response is incomplete, and what this API calls them."""

_RESULTS = ("function_call_output", "custom_tool_call_output")


def read(body: bytes) -> Asked:
    request = parts.request_of(body)
    given = request.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else parts.dicts(given)
    instructions = request.get("instructions")
    return Asked(
        model=str(request.get("model", "scripted")),
        stream=request.get("stream") is True,
        include_usage=True,
        tools=tuple(_tool_names([request, *items])),
        messages=(*([instructions] if isinstance(instructions, str) else ()), *_texts(items)),
        results=tuple(_results(items)),
        key=parts.key_of(body),
        size=len(body),
        repeated=_repeated(request),
        sealed="reasoning.encrypted_content" in (request.get("include") or ()),
    )


def whole(turn: Turn, asked: Asked) -> bytes:
    return msgspec.json.encode(_ended(turn, asked))


def frames(turn: Turn, asked: Asked) -> Streamed:
    """Write a stream of events; what ends it begins with the last item's end."""
    events = [
        {"type": one.pop("type"), "sequence_number": number, **one}
        for number, one in enumerate(_events(turn, asked))
    ]
    ends = (".done", ".completed", ".incomplete")
    last = max(at for at, one in enumerate(events) if not str(one["type"]).endswith(ends))
    framed = [parts.event(one) for one in events]
    return Streamed(tuple(framed[: last + 1]), tuple(framed[last + 1 :]))


RESPONSES = ScriptDialect(read, whole, frames, "responses")


def _tool_names(holders: list[Object]) -> Iterator[str]:
    """Yield the names of tools: declared, in a namespace, or in an item of the input (`additional_tools`)."""
    for holder in holders:
        for tool in parts.dicts(holder.get("tools")):
            if "tools" in tool:
                yield from _tool_names([tool])
            else:
                yield str(tool.get("name", tool.get("type", "")))


def _texts(items: list[Object]) -> Iterator[str]:
    for item in items:
        if item.get("type") in _RESULTS:
            yield parts.text_of(item.get("output"))
        elif "role" in item and "tools" not in item:
            yield parts.text_of(item.get("content"))


def _results(items: list[Object]) -> list[str]:
    results: list[str] = []
    for item in items:
        if item.get("role") == "user":
            results.clear()
        elif item.get("type") in _RESULTS:
            results.append(parts.text_of(item.get("output")))
    return results


def _repeated(request: Object) -> Object:
    repeated = {name: request.get(name, default) for name, default in REPEATED.items()}
    conversation = request.get("conversation")
    if conversation is not None:
        named = isinstance(conversation, str)
        repeated["conversation"] = {"id": conversation} if named else conversation
    return repeated


def _response(asked: Asked, status: str) -> Object:
    return {
        "id": f"resp_{asked.key}",
        "object": "response",
        "created_at": parts.CREATED,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": asked.model,
        "output": [],
        "usage": None,
        **asked.repeated,
    }


def _ended(turn: Turn, asked: Asked) -> Object:
    response = _response(asked, _status(turn))
    if response["status"] == "completed":
        response["completed_at"] = parts.CREATED
    else:
        response["incomplete_details"] = {"reason": INCOMPLETE[str(turn.finish)]}
    response["output"] = _items(turn, asked)
    response["usage"] = parts.usage_words(turn, parts.WORDS) or _usage(turn, asked)
    return response


def _status(turn: Turn) -> str:
    return "incomplete" if turn.finish in INCOMPLETE else "completed"


def _usage(turn: Turn, asked: Asked) -> Object:
    prompt, answer = parts.spent(turn, asked.size)
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": answer,
        "output_tokens_details": {"reasoning_tokens": len(turn.reasoning) // 4},
        "total_tokens": prompt + answer,
    }


def _items(turn: Turn, asked: Asked) -> list[Object]:
    """Return the items as they are in the end; the last is cut where the answer is."""
    items: list[Object] = []
    if turn.reasoning:
        summary = [{"type": "summary_text", "text": turn.reasoning}]
        sealed = {"encrypted_content": f"sealed-{asked.key}"} if asked.sealed else {}
        items.append({"id": f"rs_{asked.key}", "type": "reasoning", "summary": summary, **sealed})
    if turn.text:
        items.append(_message(turn, asked))
    items += [_call(call, place, asked) for place, call in enumerate(turn.calls)]
    if items and "status" in items[-1]:
        items[-1]["status"] = _status(turn)
    return items


def _message(turn: Turn, asked: Asked) -> Object:
    text = {"type": "output_text", "annotations": [], "logprobs": [], "text": turn.text}
    return {
        "id": f"msg_{asked.key}",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [text],
    }


def _call(call: ScriptedCall, place: int, asked: Asked) -> Object:
    prefix, kind = ("ctc", "custom_tool_call") if call.custom else ("fc", "function_call")
    return {
        "id": f"{prefix}_{asked.key}_{place + 1}",
        "type": kind,
        "status": "completed",
        "call_id": call.id or f"call_{asked.key}_{place + 1}",
        "name": call.name,
        "input" if call.custom else "arguments": call.arguments,
        **({"namespace": call.namespace} if call.namespace else {}),
    }


def _events(turn: Turn, asked: Asked) -> Iterator[Object]:
    for kind in ("created", "in_progress"):
        yield {"type": f"response.{kind}", "response": _response(asked, "in_progress")}
    items = _items(turn, asked)
    for place, item in enumerate(items):
        at = place
        if place >= len(items) - len(turn.calls):
            index = turn.calls[place - len(items)].index
            at = place if index is None else index
        yield {"type": "response.output_item.added", "output_index": at, "item": _begun(item)}
        for inner in _inside(item, turn):
            yield {**inner, "item_id": item["id"], "output_index": at}
        yield {"type": "response.output_item.done", "output_index": at, "item": item}
    ended = _ended(turn, asked)
    yield {"type": f"response.{ended['status']}", "response": ended}


def _begun(item: Object) -> Object:
    """Return an item as it is when it is announced: with nothing in it."""
    empty: Object = {"summary": [], "content": [], "arguments": "", "input": ""}
    begun = {name: empty.get(name, value) for name, value in item.items()}
    return {**begun, "status": "in_progress"} if "status" in item else begun


def _inside(item: Object, turn: Turn) -> Iterator[Object]:
    """Yield the events between an item's begin and its end, without its id and place."""
    if item["type"] == "reasoning":
        names = ("reasoning_summary_part", "reasoning_summary_text", "summary_index")
        yield from _part(*names, item["summary"][0], turn.chunk)
    elif item["type"] == "message":
        names = ("content_part", "output_text", "content_index")
        yield from _part(*names, item["content"][0], turn.chunk)
    else:
        custom = item["type"] == "custom_tool_call"
        kind = f"response.{'custom_tool_call_input' if custom else 'function_call_arguments'}"
        field = "input" if custom else "arguments"
        for piece in parts.fragments(item[field], turn.fragments):
            yield {"type": f"{kind}.delta", "delta": piece}
        yield {"type": f"{kind}.done", field: item[field]}


def _part(part: str, text: str, index: str, full: Object, size: int) -> Iterator[Object]:
    part, text, at = f"response.{part}", f"response.{text}", {index: 0}
    # Only the events of visible text carry `logprobs`.
    more: dict[str, Any] = {"logprobs": []} if "logprobs" in full else {}
    yield {"type": f"{part}.added", **at, "part": {**full, "text": ""}}
    for piece in parts.pieces(full["text"], size):
        yield {"type": f"{text}.delta", **at, "delta": piece, **more}
    yield {"type": f"{text}.done", **at, "text": full["text"], **more}
    yield {"type": f"{part}.done", **at, "part": full}

"""Back ends that speak the native formats of Anthropic and Gemini, scripted: one answer, in all shapes.

The answer thinks, says something, and calls two tools at once; `SAID` is what a client should get of it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from support.raw_upstream import Act, Piece, Received, chunked, whole

THOUGHT, TEXT, SIGNATURE = "Let me see.", "Hello you", "c2lnbmVk"
DONE = "Done."
CALLS = [("read", {"path": "a"}), ("grep", {"q": "b"})]
USAGE = (14, 42)
"""Tokens in, cached ones included, and out."""


def answer(request: Received) -> Sequence[Piece]:
    """Answer in the format that was asked for, streamed or whole."""
    if b"generateContent" in request.target:
        return whole(json.dumps(_gemini(_parts(), "STOP")).encode())
    if b"streamGenerateContent" in request.target:
        return chunked(*_gemini_events())
    if json.loads(request.body).get("stream"):
        return chunked(*_anthropic_events())
    return whole(json.dumps(_anthropic_message()).encode())


def cut(request: Received) -> Sequence[Piece]:
    """Break off after the text."""
    pieces = list(answer(request))
    return [*pieces[: 1 + (8 if b"/messages" in request.target else 3)], Act.RESET]


def held(request: Received) -> Sequence[Piece]:
    """Say nothing after the text."""
    pieces = list(answer(request))
    return [*pieces[: 1 + (8 if b"/messages" in request.target else 3)], Act.HANG]


def error(status: int) -> Sequence[Piece]:
    """Answer with an error of the provider."""
    said = {"type": "error", "error": {"type": "x", "message": f"said {status}"}}
    headers = (("Content-Type", "application/json"), ("Retry-After", "17"))
    return whole(json.dumps(said).encode(), status, headers)


def done(request: Received) -> Sequence[Piece]:
    """Say that all is done, as Gemini does."""
    data = json.dumps(_gemini([{"text": DONE}], "STOP")).encode()
    streamed = b"streamGenerateContent" in request.target
    return chunked(b"data: %b\r\n\r\n" % data) if streamed else whole(data)


def told(request: Received) -> Sequence[Piece]:
    """Say that all is done, as Claude does."""
    if not json.loads(request.body).get("stream"):
        text = {"type": "text", "text": DONE}
        value = {**_START, "content": [text], "stop_reason": "end_turn"}
        return whole(json.dumps(value).encode())
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": _START},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": DONE},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}},
        {"type": "message_stop"},
    ]
    frames = (f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)
    return chunked(*(frame.encode() for frame in frames))


def _anthropic_message() -> dict[str, Any]:
    content: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": THOUGHT, "signature": SIGNATURE},
        {"type": "text", "text": TEXT},
    ]
    for number, (name, given) in enumerate(CALLS):
        content.append({"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": given})
    return {**_START, "content": content, "stop_reason": "tool_use", "usage": _usage(USAGE[1])}


def _usage(tokens: int) -> dict[str, int]:
    return {
        "input_tokens": USAGE[0] - 3,
        "cache_read_input_tokens": 3,
        "cache_creation_input_tokens": 0,
        "output_tokens": tokens,
    }


_START: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": _usage(1),
}


def _anthropic_events() -> list[bytes]:
    events: list[dict[str, Any]] = [{"type": "message_start", "message": _START}]

    def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> None:
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        more = {"type": "content_block_delta", "index": index}
        events.extend(more | {"delta": delta} for delta in deltas)
        events.append({"type": "content_block_stop", "index": index})

    block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": THOUGHT[:4]},
        {"type": "thinking_delta", "thinking": THOUGHT[4:]},
        {"type": "signature_delta", "signature": SIGNATURE},
    )
    text = [{"type": "text_delta", "text": part} for part in (TEXT[:6], TEXT[6:])]
    block(1, {"type": "text", "text": ""}, *text)
    for number, (name, given) in enumerate(CALLS):
        raw = json.dumps(given)
        pieces = [{"type": "input_json_delta", "partial_json": p} for p in (raw[:3], raw[3:])]
        start = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
        block(2 + number, start, *pieces)
    delta = {"stop_reason": "tool_use", "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": USAGE[1]}})
    events.append({"type": "message_stop"})
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]


def _parts() -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = [
        {"functionCall": {"name": name, "args": given}} for name, given in CALLS
    ]
    calls[0]["thoughtSignature"] = SIGNATURE
    text = [{"text": part} for part in (TEXT[:6], TEXT[6:])]
    return [{"text": THOUGHT, "thought": True}, *text, *calls]


def _gemini(parts: list[dict[str, Any]], finish: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    usage = {
        "promptTokenCount": USAGE[0],
        "candidatesTokenCount": USAGE[1] - 12,
        "thoughtsTokenCount": 12,
        "totalTokenCount": sum(USAGE),
    }
    return {"candidates": [candidate], "usageMetadata": usage, "responseId": "r1"}


def _gemini_events() -> list[bytes]:
    thought, *text, first, second = _parts()
    events = [_gemini([part]) for part in (thought, *text)] + [_gemini([first, second], "STOP")]
    return [b"data: %b\r\n\r\n" % json.dumps(event).encode() for event in events]

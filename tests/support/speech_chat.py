"""Chat completions as their clients and models read them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from modegate.core.dialects.chat.dialect import CHAT
from modegate.core.step.dialect import AnyDialect
from modegate.scripted.chat import CHAT as SCRIPT
from support.speech import (
    SYSTEM,
    Called,
    Entry,
    Heard,
    History,
    Json,
    data_frames,
    error_of,
    pairs,
)

FINISHES = {"stop": "stop", "tool_calls": "calls", "length": "length", "content_filter": "filter"}


class ChatApi:
    """Chat completions."""

    script = SCRIPT

    def dialect(self) -> AnyDialect:
        """Return the dialect under test."""
        return CHAT

    def request(self, history: History, tools: Sequence[str], *, streamed: bool) -> Json:
        """Return a request."""
        body: Json = {"model": "m", "messages": [{"role": "system", "content": SYSTEM}, *history]}
        if tools:
            parameters = {"type": "object", "properties": {}}
            body["tools"] = [
                {"type": "function", "function": {"name": name, "parameters": parameters}}
                for name in tools
            ]
        if streamed:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body

    def user(self, text: str) -> Json:
        """Return a user's message."""
        return {"role": "user", "content": text}

    def results(self, results: Sequence[tuple[Called, str]]) -> History:
        """Return one message for each result."""
        return [
            {"role": "tool", "tool_call_id": call.id, "content": text} for call, text in results
        ]

    def heard(self, body: bytes, *, streamed: bool) -> Heard:
        """Read an answer of one choice."""
        return _stream(body) if streamed else _whole(json.loads(body))

    def told(self, request: Json) -> list[Entry]:
        """Read a request; a call's results stand right behind it."""
        entries: list[Entry] = []
        calls: list[Entry] = []
        results: dict[str, str] = {}
        for message in [*request["messages"], {"role": "end"}]:
            if message["role"] == "tool":
                assert message["tool_call_id"] not in results, "two results of one call"
                results[message["tool_call_id"]] = _text(message["content"])
                continue
            entries += pairs(calls, results)
            calls, results = [], {}
            if message["role"] == "assistant":
                said, calls = _answer(message)
                entries += [*said, *calls]
            elif message["role"] != "end":
                kind = "user" if message["role"] == "user" else "system"
                entries.append(Entry(kind, _text(message["content"])))
        return entries

    def tools(self, request: Json) -> list[str]:
        """Return the names of the tools that a request declares."""
        return [tool["function"]["name"] for tool in request.get("tools", ())]

    def without_reasoning(self, kept: Sequence[Json]) -> History:
        """Return the message without the field that holds it."""
        return [
            {key: value for key, value in message.items() if key != "reasoning_content"}
            for message in kept
        ]


def _answer(message: Json) -> tuple[list[Entry], list[Entry]]:
    texts = (("thinks", message.get("reasoning_content")), ("says", message.get("content")))
    said = [Entry(kind, _text(text)) for kind, text in texts if text]
    calls = [_call(call) for call in message.get("tool_calls") or ()]
    return said, [Entry("call", call.arguments, call.name, call.id) for call in calls]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content)


def _call(call: Json) -> Called:
    custom = call["type"] == "custom"
    inner = call[call["type"]]
    return Called(inner["name"], inner["input" if custom else "arguments"], call["id"], custom)


def _whole(answer: Json) -> Heard:
    (choice,) = answer["choices"]
    assert (answer["object"], choice["index"]) == ("chat.completion", 0)
    return _heard(answer["id"], choice["message"], choice["finish_reason"], answer.get("usage"))


def _heard(name: str, message: Json, finish: str | None, usage: Json | None) -> Heard:
    calls = tuple(_call(call) for call in message.get("tool_calls") or ())
    ended = FINISHES[finish] if finish else ""
    assert calls or ended != "calls", "a finish that tells of calls, and there are none"
    return Heard(
        id=name,
        text=message["content"] or "",
        reasoning=message.get("reasoning_content") or "",
        calls=calls,
        finish=ended,
        usage=(usage["prompt_tokens"], usage["completion_tokens"]) if usage else None,
        kept=({**message, "role": "assistant"},) if calls or message["content"] else (),
    )


def _stream(body: bytes) -> Heard:
    datas = [data for _, data in data_frames(body)]
    assert "[DONE]" not in datas[:-1], "something follows the end"
    chunks = [json.loads(data) for data in datas if data != "[DONE]"]
    errors = [error_of(chunk) for chunk in chunks if "error" in chunk]
    chunks = [chunk for chunk in chunks if "error" not in chunk]
    heads = {(chunk["id"], chunk["object"], chunk["created"], chunk["model"]) for chunk in chunks}
    assert len(heads) == 1, "an answer has one id"
    usages = [chunk["usage"] for chunk in chunks if chunk.get("usage")]
    assert len(usages) <= 1
    message: Json = {"content": ""}
    finish = None
    calls: dict[int, Json] = {}
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        assert choice["index"] == 0
        assert finish is None, "something follows the finish"
        finish = choice["finish_reason"]
        delta = choice["delta"]
        for key in ("content", "reasoning_content"):
            if delta.get(key):
                message[key] = message.get(key, "") + delta[key]
        for piece in delta.get("tool_calls", ()):
            _grow(calls, piece)
    assert (datas[-1] == "[DONE]") is (finish is not None and not errors), (
        "an end that does not fit"
    )
    assert sorted(calls) == list(range(len(calls))), "OpenAI's SDK takes an index for a place"
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    heard = _heard(chunks[0]["id"], message, finish, usages[0] if usages else None)
    return Heard(**{**vars(heard), "error": "".join(errors)})


def _grow(calls: dict[int, Json], piece: Json) -> None:
    index = piece["index"]
    if "id" in piece:
        assert index not in calls, "a call begins twice"
        kind = piece["type"]
        calls[index] = {"id": piece["id"], "type": kind, kind: dict(piece[kind])}
        return
    kind = calls[index]["type"]
    for field, text in piece[kind].items():
        calls[index][kind][field] += text

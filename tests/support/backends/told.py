"""What a request tells a back end's model, in one form for all APIs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from support.backends.entry import Json

Kind = Literal["system", "user", "says", "thinks", "call", "result"]


@dataclass(frozen=True)
class Told:
    """One thing that stands in a history."""

    kind: Kind
    text: str
    name: str = ""
    id: str = ""
    at: int = 0
    """The message or item that it stands in."""


def text_of(content: Any) -> str:
    """Return the text of a content, be it a text or a list of parts."""
    if isinstance(content, str):
        return content
    parts = content or []
    return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


def told(api: str, body: Json) -> list[Told]:
    """Read a request."""
    return list({"chat": _chat, "messages": _messages, "responses": _responses}[api](body))


def _chat(body: Json) -> Iterator[Told]:
    for at, message in enumerate(body["messages"]):
        role, text = message["role"], text_of(message.get("content"))
        if role == "tool":
            yield Told("result", text, id=message["tool_call_id"], at=at)
        elif role == "assistant":
            thought = message.get("reasoning_content") or message.get("reasoning")
            if thought:
                yield Told("thinks", thought, at=at)
            if text:
                yield Told("says", text, at=at)
            for call in message.get("tool_calls") or ():
                inner = call["function"]
                yield Told("call", inner["arguments"], inner["name"], call["id"], at)
        else:
            yield Told("user" if role == "user" else "system", text, at=at)


def _messages(body: Json) -> Iterator[Told]:
    if body.get("system"):
        yield Told("system", text_of(body["system"]), at=-1)
    for at, message in enumerate(body["messages"]):
        content, mine = message["content"], message["role"] == "assistant"
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            match part["type"]:
                case "text":
                    yield Told("says" if mine else "user", part["text"], at=at)
                case "thinking":
                    yield Told("thinks", part["thinking"], at=at)
                case "tool_use":
                    yield Told("call", json.dumps(part["input"]), part["name"], part["id"], at)
                case "tool_result":
                    yield Told("result", text_of(part["content"]), id=part["tool_use_id"], at=at)
                case other:
                    raise AssertionError(other)


def _responses(body: Json) -> Iterator[Told]:
    if body.get("instructions"):
        yield Told("system", body["instructions"], at=-1)
    for at, item in enumerate(body["input"]):
        match item.get("type", "message"):
            case "message":
                role = {"user": "user", "assistant": "says"}.get(item["role"], "system")
                yield Told(role, text_of(item["content"]), at=at)  # type: ignore[arg-type]
            case "reasoning":
                yield Told("thinks", text_of(item["summary"]), at=at)
            case "function_call":
                yield Told("call", item["arguments"], item["name"], item["call_id"], at)
            case "function_call_output":
                yield Told("result", text_of(item["output"]), id=item["call_id"], at=at)
            case other:
                raise AssertionError(other)


def offered(api: str, body: Json) -> list[str]:
    """Return the names of the tools that a request declares."""
    tools = body.get("tools") or []
    return [tool["function"]["name"] if api == "chat" else tool["name"] for tool in tools]

"""Agents on the real SDKs: they run what is called, and send back what they got as agents do."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from support.backends.entry import BackEnd, Json
from support.backends.speak import Call
from support.sdk_clients import anthropic_client, openai_client

SCHEMA: Json = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "text": {"type": "string"}},
}
NAMES = ("read", "write")
SYSTEM = "You are an agent."


@dataclass(frozen=True)
class Heard:
    """An answer as its client has it."""

    text: str
    calls: tuple[Call, ...]


class Agent(ABC):
    """One conversation with a back end."""

    def __init__(self, entry: BackEnd, client: Any, model: str, *, streamed: bool) -> None:
        self.entry = entry
        self.client = client
        self.model = model
        self.streamed = streamed
        self.history: list[Json] = []

    async def say(self, text: str) -> Heard:
        """Ask for something."""
        self.history.append({"role": "user", "content": text})
        return await self.ask()

    async def give(self, heard: Heard) -> Heard:
        """Run what was called, and go on."""
        self.history += self.results([(call, result(call)) for call in heard.calls])
        return await self.ask()

    @abstractmethod
    async def ask(self) -> Heard:
        """Send the history, and take the answer into it."""

    @abstractmethod
    def results(self, results: Sequence[tuple[Call, str]]) -> list[Json]:
        """Return results as they stand in the history."""


def result(call: Call) -> str:
    """Run a call."""
    return f"{call.name} ran"


class ChatAgent(Agent):
    """Chat completions; pieces of a call go by index, or by place where there is none."""

    async def ask(self) -> Heard:
        tools: Any = [
            {"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in NAMES
        ]
        asked: Any = {"model": self.model, "tools": tools}
        asked["messages"] = [{"role": "system", "content": SYSTEM}, *self.history]
        create = self.client.chat.completions.create
        if self.streamed:
            message = self.joined([chunk async for chunk in await create(**asked, stream=True)])
        else:
            got = (await create(**asked)).choices[0].message.model_dump(exclude_unset=True)
            message = {"content": got.get("content"), "calls": got.get("tool_calls") or []}
            message |= {key: got[key] for key in self.entry.sends_back if got.get(key)}
        self.history.append(self.turn(message))
        calls = tuple(
            Call(one["function"]["name"], one["function"]["arguments"], one["id"])
            for one in message["calls"]
        )
        return Heard(message["content"] or "", calls)

    def joined(self, chunks: Sequence[Any]) -> Json:
        """Put a stream together."""
        message: Json = {"content": "", "calls": []}
        for chunk in chunks:
            for choice in chunk.choices:
                delta = choice.delta.model_dump(exclude_unset=True) if choice.delta else {}
                message["content"] += delta.get("content") or ""
                for key in self.entry.sends_back:
                    if delta.get(key):
                        message[key] = message[key] + delta[key] if key in message else delta[key]
                for place, piece in enumerate(delta.get("tool_calls") or ()):
                    join(message["calls"], piece, place)
        return message

    def turn(self, message: Json) -> Json:
        """Return an answer as it stands in the history."""
        calls = [
            {
                key: value
                for key, value in call.items()
                if key in ("id", "function", "extra_content")
            }
            | {"type": "function"}
            for call in message["calls"]
        ]
        content = message["content"] or (self.entry.empty if calls else "")
        turn: Json = {"role": "assistant", "content": content}
        turn |= {key: message[key] for key in self.entry.sends_back if message.get(key)}
        return turn | ({"tool_calls": calls} if calls else {})

    def results(self, results: Sequence[tuple[Call, str]]) -> list[Json]:
        return [
            {"role": "tool", "tool_call_id": call.id, "content": text} for call, text in results
        ]


def join(calls: list[Json], piece: Json, place: int) -> None:
    """Put a piece of a call to those there are."""
    inner = piece.get("function") or {}
    index = piece.get("index")
    if index is None:
        index = len(calls) if inner.get("name") else len(calls) - 1 + place
    while len(calls) <= index:
        calls.append({"id": "", "function": {"name": "", "arguments": ""}})
    call = calls[index]
    call["id"] = call["id"] or piece.get("id") or ""
    call["function"]["name"] = call["function"]["name"] or inner.get("name") or ""
    call["function"]["arguments"] += inner.get("arguments") or ""
    if piece.get("extra_content"):
        call["extra_content"] = piece["extra_content"]


class MessagesAgent(Agent):
    """Messages."""

    async def ask(self) -> Heard:
        asked: Any = {
            "model": self.model,
            "max_tokens": 2000,
            "system": SYSTEM,
            "messages": self.history,
            "tools": [{"name": name, "input_schema": SCHEMA} for name in NAMES],
        }
        if self.entry.reasons:
            asked["thinking"] = {"type": "enabled", "budget_tokens": 1024}
        if self.streamed:
            async with self.client.messages.stream(**asked) as events:
                got = await events.get_final_message()
        else:
            got = await self.client.messages.create(**asked)
        parts = [part.model_dump(exclude_unset=True, exclude_none=True) for part in got.content]
        for part in parts:
            part.pop("parsed_output", None)
        self.history.append({"role": "assistant", "content": parts})
        text = "\n\n".join(part["text"] for part in parts if part["type"] == "text")
        calls = tuple(
            Call(part["name"], json.dumps(part["input"]), part["id"])
            for part in parts
            if part["type"] == "tool_use"
        )
        return Heard(text, calls)

    def results(self, results: Sequence[tuple[Call, str]]) -> list[Json]:
        parts = [
            {"type": "tool_result", "tool_use_id": call.id, "content": text}
            for call, text in results
        ]
        return [{"role": "user", "content": parts}] if parts else []


class ResponsesAgent(Agent):
    """Responses, nothing stored; of a stream it takes items as they are done, as Codex does."""

    async def ask(self) -> Heard:
        tools = [{"type": "function", "name": name, "parameters": SCHEMA} for name in NAMES]
        asked: Any = {"model": self.model, "instructions": SYSTEM, "input": self.history}
        asked |= {"tools": tools, "store": False, "include": ["reasoning.encrypted_content"]}
        create = self.client.responses.create
        items: list[Any] = []
        if self.streamed:
            async for event in await create(**asked, stream=True):
                if event.type == "response.output_item.done":
                    items.append(event.item)
                elif event.type in ("response.completed", "response.incomplete"):
                    items = items or event.response.output
                elif event.type in ("response.failed", "error"):
                    raise AssertionError(event)
        else:
            items = (await create(**asked)).output
        kept = [item.model_dump(exclude_unset=True, exclude_none=True) for item in items]
        self.history += [{k: v for k, v in one.items() if k != "status"} for one in kept]
        texts = [part["text"] for one in kept for part in _said(one)]
        calls = tuple(
            Call(one["name"], one["arguments"], one["call_id"])
            for one in kept
            if one["type"] == "function_call"
        )
        return Heard("\n\n".join(texts), calls)

    def results(self, results: Sequence[tuple[Call, str]]) -> list[Json]:
        return [
            {"type": "function_call_output", "call_id": call.id, "output": text}
            for call, text in results
        ]


def _said(item: Json) -> list[Json]:
    return item["content"] if item["type"] == "message" else []


AGENTS: dict[str, type[Agent]] = {
    "chat": ChatAgent,
    "messages": MessagesAgent,
    "responses": ResponsesAgent,
}


class Sdks:
    """The SDKs' clients at a proxy, each made once."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._openai = openai_client(url, key="k")
        self._anthropic = anthropic_client(url, key="k")

    def agent(self, entry: BackEnd, session: str, model: str, *, streamed: bool) -> Agent:
        """Begin a conversation."""
        base = f"{self._url}/s/{session}"
        client: Any = (
            self._anthropic.with_options(base_url=base)
            if entry.api == "messages"
            else self._openai.with_options(base_url=f"{base}/v1")
        )
        return AGENTS[entry.api](entry, client, model, streamed=streamed)

    async def close(self) -> None:
        """Close them."""
        await self._openai.close()
        await self._anthropic.close()

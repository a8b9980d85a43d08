"""Answers put together as a client of each dialect would, to be compared with what was said."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from modegate.core.errors import DialectName


@dataclass
class Got:
    """An answer as a client of its dialect would put it together."""

    thought: str = ""
    text: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    finish: str = ""
    usage: tuple[int, int] = (0, 0)


def events(content: bytes) -> list[dict[str, Any]]:
    found = []
    for block in content.decode().split("\n\n"):
        data = block.rpartition("data: ")[2]
        if data and data != "[DONE]":
            event = json.loads(data)
            found.append(event)
            if block.startswith("event: "):
                assert block.startswith(f"event: {event['type']}\n")
    return found


def got_chat(content: bytes, *, streamed: bool) -> Got:
    got, calls = Got(), dict[int, list[str]]()
    objects = events(content) if streamed else [json.loads(content)]
    if streamed:
        assert content.endswith(b"data: [DONE]\n\n")
    kind = "chat.completion.chunk" if streamed else "chat.completion"
    for one in objects:
        assert one["object"] == kind
        assert one.keys() <= {"id", "object", "created", "model", "choices", "usage"}
        for choice in one["choices"]:
            said = choice["delta" if streamed else "message"]
            got.thought += said.get("reasoning_content") or ""
            got.text += said.get("content") or ""
            got.finish = choice["finish_reason"] or got.finish
            for place, call in enumerate(said.get("tool_calls", ())):
                parts = calls.setdefault(call.get("index", place), ["", "", ""])
                parts[0] += call.get("id") or ""
                parts[1] += call["function"].get("name") or ""
                parts[2] += call["function"]["arguments"]
        if "usage" in one:
            got.usage = (one["usage"]["prompt_tokens"], one["usage"]["completion_tokens"])
    got.ids = [parts[0] for parts in calls.values()]
    got.calls = [(parts[1], json.loads(parts[2])) for parts in calls.values()]
    return got


def got_responses(content: bytes, *, streamed: bool) -> Got:
    got, response, deltas = Got(), None if streamed else json.loads(content), ""
    done: dict[int, dict[str, Any]] = {}
    for number, event in enumerate(events(content) if streamed else []):
        assert event["sequence_number"] == number
        if event["type"] == "response.output_text.delta":
            deltas += event["delta"]
        elif event["type"] == "response.output_item.done":
            done[event["output_index"]] = event["item"]
        elif event["type"] == "response.completed":
            response = event["response"]
    assert response is not None
    items = [done[index] for index in sorted(done)] if streamed else response["output"]
    if streamed:
        assert [item["id"] for item in items] == [item["id"] for item in response["output"]]
    for item in items:
        assert "provider_specific_fields" not in item
        if item["type"] == "reasoning":
            got.thought += "".join(part["text"] for part in item["summary"])
        elif item["type"] == "message":
            got.text += item["content"][0]["text"]
        else:
            assert item["type"] == "function_call"
            got.ids.append(item["call_id"])
            got.calls.append((item["name"], json.loads(item["arguments"])))
    assert not streamed or got.text == deltas
    got.finish = response["status"]
    got.usage = (response["usage"]["input_tokens"], response["usage"]["output_tokens"])
    return got


def got_messages(content: bytes, *, streamed: bool) -> Got:
    blocks: dict[int, dict[str, Any]] = {}
    got, message = Got(), None if streamed else json.loads(content)
    for event in events(content) if streamed else []:
        if event["type"] == "message_start":
            message = event["message"]
        elif event["type"] == "content_block_start":
            blocks[event["index"]] = event["content_block"] | {"json": ""}
        elif event["type"] == "content_block_delta":
            block = blocks[event["index"]]
            for key, value in event["delta"].items():
                if key != "type":
                    block["json" if key == "partial_json" else key] += value
        elif event["type"] == "message_delta":
            assert message is not None
            message |= event["delta"]
            message["usage"] |= event["usage"]
    assert message is not None
    for block in blocks.values() if streamed else message["content"]:
        assert "provider_specific_fields" not in block
        got.thought += block.get("thinking", "")
        got.text += block.get("text", "")
        if block["type"] == "tool_use":
            got.ids.append(block["id"])
            given = json.loads(block["json"]) if streamed else block["input"]
            got.calls.append((block["name"], given))
    got.finish = message["stop_reason"]
    got.usage = (message["usage"]["input_tokens"], message["usage"]["output_tokens"])
    return got


GOT: dict[DialectName, Callable[..., Got]] = {
    "chat": got_chat,
    "responses": got_responses,
    "messages": got_messages,
}

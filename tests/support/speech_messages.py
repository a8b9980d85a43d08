"""The Messages API as its clients and models read it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from modegate.core.dialects.messages.dialect import MESSAGES
from modegate.core.step.dialect import AnyDialect
from modegate.scripted.messages import MESSAGES as SCRIPT
from support.speech import SYSTEM, Called, Entry, Heard, History, Json, named_events, pairs

FINISHES = {
    "end_turn": "stop",
    "tool_use": "calls",
    "max_tokens": "length",
    "refusal": "filter",
}
DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


class MessagesApi:
    """Messages."""

    script = SCRIPT

    def dialect(self) -> AnyDialect:
        """Return the dialect under test."""
        return MESSAGES

    def request(self, history: History, tools: Sequence[str], *, streamed: bool) -> Json:
        """Return a request."""
        body: Json = {"model": "m", "max_tokens": 99, "system": SYSTEM, "messages": history}
        if tools:
            schema = {"type": "object", "properties": {}}
            body["tools"] = [{"name": name, "input_schema": schema} for name in tools]
        return body | ({"stream": True} if streamed else {})

    def user(self, text: str) -> Json:
        """Return a user's message."""
        return {"role": "user", "content": [{"type": "text", "text": text}]}

    def results(self, results: Sequence[tuple[Called, str]]) -> History:
        """Return one message with all results."""
        blocks = [
            {"type": "tool_result", "tool_use_id": call.id, "content": text}
            for call, text in results
        ]
        return [{"role": "user", "content": blocks}]

    def heard(self, body: bytes, *, streamed: bool) -> Heard:
        """Read an answer."""
        return _Stream().read(named_events(body)) if streamed else _heard(json.loads(body))

    def told(self, request: Json) -> list[Entry]:
        """Read a request; the message behind calls begins with all their results."""
        entries = [Entry("system", _text(request["system"]))] if "system" in request else []
        calls: list[Entry] = []
        for message in [*request["messages"], {"role": "end", "content": []}]:
            blocks = message["content"]
            if isinstance(blocks, str):
                blocks = [{"type": "text", "text": blocks}]
            assert blocks or message["role"] == "end", "a message without content"
            results = [block for block in blocks if block["type"] == "tool_result"]
            assert blocks[: len(results)] == results, "results come first"
            found = {block["tool_use_id"]: _text(block["content"]) for block in results}
            assert len(found) == len(results), "two results of one call"
            entries += pairs(calls, found)
            says = {"user": "user", "assistant": "says"}.get(message["role"], "system")
            told = [_entry(block, says) for block in blocks[len(results) :]]
            calls = [entry for entry in told if entry.kind == "call"]
            entries += told
        return entries

    def tools(self, request: Json) -> list[str]:
        """Return the names of the tools that a request declares."""
        return [tool["name"] for tool in request.get("tools", ())]

    def without_reasoning(self, kept: Sequence[Json]) -> History:
        """Return the message with the blocks of other kinds."""
        return [
            {**one, "content": [block for block in one["content"] if block["type"] != "thinking"]}
            for one in kept
        ]


def _entry(block: Json, says: str) -> Entry:
    match block["type"]:
        case "text":
            assert block["text"].strip(), "a text that is empty"
            return Entry(says, block["text"])
        case "thinking":
            assert block["signature"].startswith("signed-")
            return Entry("thinks", block["thinking"], id=block["signature"])
        case kind:
            assert (kind, says) == ("tool_use", "says")
            assert isinstance(block["input"], dict)
            return Entry("call", json.dumps(block["input"]), block["name"], block["id"])


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content)


def _heard(message: Json) -> Heard:
    assert (message["type"], message["role"]) == ("message", "assistant")
    blocks = message["content"]
    entries = [
        _entry(block, "says") for block in blocks if isinstance(block.get("input", {}), dict)
    ]
    assert len(entries) == len(blocks), "a call whose input is no object"
    calls = tuple(
        Called(entry.name, entry.text, entry.id) for entry in entries if entry.kind == "call"
    )
    ended = FINISHES[message["stop_reason"]] if message["stop_reason"] else ""
    assert calls or ended != "calls", "a stop reason that tells of calls, and there are none"
    usage = message["usage"]
    return Heard(
        id=message["id"],
        text="\n\n".join(entry.text for entry in entries if entry.kind == "says"),
        reasoning="".join(entry.text for entry in entries if entry.kind == "thinks"),
        calls=calls,
        finish=ended,
        usage=(usage["input_tokens"], usage["output_tokens"]),
        kept=({"role": "assistant", "content": blocks},) if blocks else (),
    )


class _Stream:
    """A client's state while it reads a stream."""

    def __init__(self) -> None:
        self.blocks: list[Json] = []
        self.open = False
        self.json = ""

    def read(self, events: list[Json]) -> Heard:
        events = [event for event in events if event["type"] != "ping"]
        assert events[0]["type"] == "message_start"
        message = events[0]["message"]
        assert message["content"] == []
        error = ""
        ended = False
        for event in events[1:]:
            assert not ended, "something follows the end"
            assert not error, "something follows the error"
            kind = event["type"]
            if kind == "error":
                error = event["error"]["message"]
            elif kind == "message_delta":
                assert not self.open, "a block is still open"
                assert message["stop_reason"] is None, "two stop reasons"
                message |= event["delta"]
                message["usage"] = message["usage"] | event["usage"]
            elif kind == "message_stop":
                ended = True
            else:
                assert message["stop_reason"] is None, "something follows the stop reason"
                self._inside(event)
        assert ended is (message["stop_reason"] is not None and not error)
        if not ended:
            # Cut: a client runs no call of it.
            said = "\n\n".join(block["text"] for block in self.blocks if block["type"] == "text")
            return Heard(id=message["id"], text=said, error=error)
        return _heard({**message, "content": self.blocks})

    def _inside(self, event: Json) -> None:
        kind = event["type"]
        if kind == "content_block_start":
            assert not self.open, "two blocks are open"
            assert event["index"] == len(self.blocks), "blocks do not follow one another"
            self.blocks.append(dict(event["content_block"]))
            self.open, self.json = True, ""
            return
        assert self.open, "no block is open"
        assert event["index"] == len(self.blocks) - 1
        block = self.blocks[-1]
        if kind == "content_block_stop":
            self.open = False
            if block["type"] == "tool_use":
                assert block["input"] == {}, "a block begins empty"
                block["input"] = json.loads(self.json or "{}")
            return
        assert kind == "content_block_delta", kind
        delta = event["delta"]
        if delta["type"] == "input_json_delta":
            self.json += delta["partial_json"]
        else:
            field = DELTAS[delta["type"]]
            block[field] += delta[field]

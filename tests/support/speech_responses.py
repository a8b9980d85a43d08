"""The Responses API as its clients and models read it; nothing is stored, so the history is sent whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from modegate.core.dialects.responses.dialect import RESPONSES
from modegate.core.step.dialect import AnyDialect
from modegate.scripted.responses import RESPONSES as SCRIPT
from support.speech import SYSTEM, Called, Entry, Heard, History, Json, named_events, pairs

SEALED = "reasoning.encrypted_content"
CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
RESULTS = ("function_call_output", "custom_tool_call_output")
REASONS = {"max_output_tokens": "length", "content_filter": "filter"}
CLOSINGS = ("response.completed", "response.incomplete", "response.failed", "error")


class ResponsesApi:
    """Responses."""

    script = SCRIPT

    def dialect(self) -> AnyDialect:
        """Return the dialect under test."""
        return RESPONSES

    def request(self, history: History, tools: Sequence[str], *, streamed: bool) -> Json:
        """Return a request."""
        body: Json = {"model": "m", "instructions": SYSTEM, "input": history}
        body |= {"store": False, "include": [SEALED]}
        if tools:
            parameters = {"type": "object", "properties": {}}
            body["tools"] = [
                {"type": "function", "name": name, "parameters": parameters} for name in tools
            ]
        return body | ({"stream": True} if streamed else {})

    def user(self, text: str) -> Json:
        """Return a user's message."""
        content = [{"type": "input_text", "text": text}]
        return {"type": "message", "role": "user", "content": content}

    def results(self, results: Sequence[tuple[Called, str]]) -> History:
        """Return one item for each result."""
        return [
            {
                "type": "custom_tool_call_output" if call.custom else "function_call_output",
                "call_id": call.id,
                "output": text,
            }
            for call, text in results
        ]

    def heard(self, body: bytes, *, streamed: bool) -> Heard:
        """Read an answer."""
        if streamed:
            return _Stream().read(named_events(body))
        return heard(json.loads(body))

    def told(self, request: Json) -> list[Entry]:
        """Read a request; each call has its result behind it, and reasoning what it led to."""
        entries = [Entry("system", request["instructions"])] if "instructions" in request else []
        items = request["input"]
        if isinstance(items, str):
            return [*entries, Entry("user", items)]
        outputs: dict[str, str] = {}
        for at, item in enumerate(items):
            entry = _entry(item)
            if entry.kind == "result":
                assert entry.id not in outputs, "two results of one call"
                assert any(_entry(one).id == entry.id for one in items[:at] if one["type"] in CALLS)
                outputs[entry.id] = entry.text
            if entry.kind == "thinks":
                assert item.get("encrypted_content"), "nothing is stored and it is not sealed"
                assert _entry(items[at + 1]).kind in ("says", "call", "thinks")
            entries.append(entry)
        pairs([entry for entry in entries if entry.kind == "call"], outputs)
        return entries

    def tools(self, request: Json) -> list[str]:
        """Return the names of the tools that a request declares."""
        return [tool["name"] for tool in request.get("tools", ())]

    def without_reasoning(self, kept: Sequence[Json]) -> History:
        """Return the items of other kinds."""
        return [item for item in kept if item["type"] != "reasoning"]


def _entry(item: Json) -> Entry:
    kind = item.get("type", "message")
    if kind == "message":
        role = {"user": "user", "assistant": "says"}.get(item["role"], "system")
        return Entry(role, _text(item["content"]))
    if kind == "reasoning":
        return Entry("thinks", "".join(part["text"] for part in item["summary"]))
    if kind in CALLS:
        return Entry("call", item[CALLS[kind]], item["name"], item["call_id"])
    assert kind in RESULTS, kind
    return Entry("result", _text(item["output"]), id=item["call_id"])


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content)


def heard(response: Json) -> Heard:
    """Read a whole response."""
    assert response["object"] == "response"
    items = response["output"]
    ids = [item["id"] for item in items]
    assert len(set(ids)) == len(ids), "two items with one id"
    entries = [_entry(item) for item in items]
    calls = tuple(
        Called(item["name"], item[CALLS[item["type"]]], item["call_id"], item["type"][0] == "c")
        for item in items
        if item["type"] in CALLS
    )
    usage = response.get("usage")
    return Heard(
        id=response["id"],
        text="\n\n".join(entry.text for entry in entries if entry.kind == "says"),
        reasoning="".join(entry.text for entry in entries if entry.kind == "thinks"),
        calls=calls,
        finish=_finish(response, called=bool(calls)),
        usage=(usage["input_tokens"], usage["output_tokens"]) if usage else None,
        error=(response.get("error") or {}).get("message", ""),
        kept=tuple(items),
    )


def _finish(response: Json, *, called: bool) -> str:
    if response["status"] == "completed":
        return "calls" if called else "stop"
    reason = (response.get("incomplete_details") or {}).get("reason", "")
    return REASONS.get(reason, "")


class _Stream:
    """A client's state while it reads a stream."""

    def __init__(self) -> None:
        self.items: list[Json] = []
        """Those that are done."""
        self.item: Json | None = None
        """The one that is open."""
        self.parts: list[Json] = []
        self.part: Json | None = None
        self.said = ""
        self.id = ""

    def read(self, events: list[Json]) -> Heard:
        numbers = [event["sequence_number"] for event in events]
        failed = events[-1]["type"] == "response.failed"
        # What was to be said when something failed has used up numbers of its own.
        wanted = [*range(len(events) - 1), numbers[-1] if failed else len(events) - 1]
        assert numbers == wanted, "events are not numbered one by one"
        assert numbers == sorted(set(numbers))
        assert [event["type"] for event in events[:1]] == ["response.created"]
        self.id = events[0]["response"]["id"]
        events = [event for event in events if event["type"] != "keepalive"]
        last = events[-1]
        for event in events:
            closes = event["type"] in CLOSINGS
            assert not closes or event is last, "something follows the end"
            if event["type"] != "error" and "response" in event:
                assert event["response"]["id"] == self.id, "an answer has one id"
            elif not closes:
                self._inside(event)
        if last["type"] == "error":
            return Heard(id=self.id, error=last["message"])
        if last["type"] not in CLOSINGS:
            # Cut: a client has the items that are done, and runs none of their calls.
            return Heard(id=self.id, text="\n\n".join(self._texts()))
        if last["type"] == "response.failed":
            return Heard(id=self.id, error=last["response"]["error"]["message"])
        assert self.item is None, "an item is still open"
        assert last["response"]["output"] == self.items, "the last event tells another answer"
        return heard(last["response"])

    def _texts(self) -> list[str]:
        return [_text(item["content"]) for item in self.items if item["type"] == "message"]

    def _inside(self, event: Json) -> None:
        kind = event["type"].removeprefix("response.")
        assert event["output_index"] == len(self.items), "items do not follow one another"
        if kind == "output_item.added":
            assert self.item is None, "two items are open"
            self.item = event["item"]
            self.parts, self.said = [], ""
            return
        assert self.item is not None, "no item is open"
        if kind == "output_item.done":
            self._done(event["item"])
            return
        assert event["item_id"] == self.item["id"]
        name, _, what = kind.rpartition(".")
        if name in ("content_part", "reasoning_summary_part"):
            self._bound(event, what)
        elif what == "delta":
            self.said += event["delta"]
        else:
            assert what == "done", kind
            (full,) = [event[key] for key in ("text", "arguments", "input") if key in event]
            assert full == self.said, "the deltas tell another text"

    def _bound(self, event: Json, what: str) -> None:
        at = event.get("content_index", event.get("summary_index"))
        assert at == len(self.parts), "parts do not follow one another"
        if what == "added":
            assert self.part is None, "two parts are open"
            self.part, self.said = event["part"], ""
            return
        assert self.part is not None, "no part is open"
        assert event["part"]["text"] == self.said
        self.parts.append(event["part"])
        self.part = None

    def _done(self, item: Json) -> None:
        assert self.item is not None
        assert self.part is None, "a part is still open"
        assert (item["id"], item["type"]) == (self.item["id"], self.item["type"])
        if item["type"] in CALLS:
            assert item[CALLS[item["type"]]] == self.said, "the deltas tell other arguments"
            assert (item["name"], item["call_id"]) == (self.item["name"], self.item["call_id"])
        else:
            assert item["content" if item["type"] == "message" else "summary"] == self.parts
        self.items.append(item)
        self.item = None

"""Answers of the Responses API in short, and what several kinds of clients make of one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from modegate.core.dialects.responses.dialect import RESPONSES
from modegate.core.policy.model import Policy
from support.playbook import JSON, POLICY, Reply, Session

Json = dict[str, Any]

ARGUMENTS = {"function_call": "arguments", "custom_tool_call": "input", "mcp_call": "arguments"}
EVENTS = {
    "function_call": "response.function_call_arguments",
    "custom_tool_call": "response.custom_tool_call_input",
    "mcp_call": "response.mcp_call_arguments",
}


def session(mode: str = "plan", rules: Policy = POLICY) -> Session:
    """Return a session that speaks this API."""
    return Session(mode, rules, RESPONSES)


def tool(name: str) -> Json:
    """Return a tool definition."""
    return {"type": "function", "name": name, "parameters": {"type": "object"}}


def request(*tools: str, history: Sequence[Json] | str = "hi", **more: Any) -> Json:
    """Return a request that declares these tools."""
    body: Json = {"model": "m", "input": history, "store": False, **more}
    return body | ({"tools": [tool(name) for name in tools]} if tools else {})


def message(text: str, name: str = "msg_1") -> Json:
    """Return a message of the assistant."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "type": "message",
        "id": name,
        "status": "completed",
        "role": "assistant",
        "content": [part],
    }


def call(name: str, arguments: str = "{}", at: int = 1, **more: Any) -> Json:
    """Return a call."""
    ids = {"id": f"fc_{at}", "call_id": f"call_of_this_answer_{at}", "status": "completed"}
    return {"type": "function_call", **ids, "name": name, "arguments": arguments, **more}


def custom(name: str, text: str = "", at: int = 1) -> Json:
    """Return a call of a tool that takes free text."""
    ids = {"id": f"ctc_{at}", "call_id": f"call_of_this_answer_{at}", "status": "completed"}
    return {"type": "custom_tool_call", **ids, "name": name, "input": text}


def reasoning(text: str = "hm", name: str = "rs_1", *, sealed: bool = True) -> Json:
    """Return reasoning."""
    item: Json = {"type": "reasoning", "id": name}
    item["summary"] = [{"type": "summary_text", "text": text}]
    return item | ({"encrypted_content": f"sealed {name}"} if sealed else {})


def response(items: Sequence[Json], status: str = "completed", n: int = 1, **more: Any) -> Json:
    """Return a whole response."""
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    value: Json = {"id": f"resp_{n}", "object": "response", "created_at": n, "status": status}
    return {**value, "model": "m", "output": list(items), "usage": usage, **more}


def whole(*items: Json, **more: Any) -> Reply:
    """Return a response as a body."""
    return Reply(json.dumps(response(items, **more)).encode(), list(JSON))


def begin(n: int = 1) -> Json:
    """Return the first event."""
    value = response((), "in_progress", n) | {"usage": None}
    return {"type": "response.created", "response": value}


def added(item: Json, at: int) -> Json:
    """Announce an item."""
    empty: Json = {"arguments": "", "input": "", "content": [], "summary": []}
    begun = {key: empty.get(key, value) for key, value in item.items()}
    begun |= {"status": "in_progress"} if "status" in item else {}
    return {"type": "response.output_item.added", "output_index": at, "item": begun}


def done(item: Json, at: int) -> Json:
    """End an item."""
    return {"type": "response.output_item.done", "output_index": at, "item": item}


def inside(item: Json, at: int) -> list[Json]:
    """Return what comes between an item's begin and its end."""
    place: Json = {"item_id": item.get("id"), "output_index": at}
    kind = item["type"]
    if kind == "message":
        part, place = item["content"][0], {**place, "content_index": 0}
        text = part["text"]
        halves = [half for half in (text[:3], text[3:]) if half]
        name = "response.output_text"
        return [
            {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
            *({"type": f"{name}.delta", **place, "delta": half} for half in halves),
            {"type": f"{name}.done", **place, "text": text},
            {"type": "response.content_part.done", **place, "part": part},
        ]
    if kind in EVENTS:
        text = item[ARGUMENTS[kind]]
        halves = [half for half in (text[:1], text[1:]) if half]
        pieces = [{"type": f"{EVENTS[kind]}.delta", **place, "delta": half} for half in halves]
        return [*pieces, {"type": f"{EVENTS[kind]}.done", **place, ARGUMENTS[kind]: text}]
    return []


def item_events(item: Json, at: int) -> list[Json]:
    """Return all events of an item."""
    return [added(item, at), *inside(item, at), done(item, at)]


def end(items: Sequence[Json], status: str = "completed", n: int = 1, **more: Any) -> Json:
    """Return the last event."""
    return {"type": f"response.{status}", "response": response(items, status, n, **more)}


def events(*items: Json, n: int = 1, status: str = "completed", **more: Any) -> list[Json]:
    """Return all events of an answer."""
    inner = [event for at, item in enumerate(items) for event in item_events(item, at)]
    return [begin(n), *inner, end(items, status, n, **more)]


def frame(event: Json, number: int | None = None) -> bytes:
    """Frame an event; it may give a name and numbers of its own."""
    value = dict(event)
    name = value.pop("EVENT", value["type"])
    if number is not None:
        value.setdefault("sequence_number", number)
    return f"event: {name}\ndata: {json.dumps(value)}\n\n".encode()


def stream(found: Iterable[Json]) -> bytes:
    """Return a stream of these events, numbered."""
    return b"".join(frame(event, number) for number, event in enumerate(found))


def answer(*items: Json, **more: Any) -> bytes:
    """Return a streamed answer of these items."""
    return stream(events(*items, **more))


def read(body: bytes) -> list[Json]:
    """Return the events of a stream."""
    return [json.loads(line[6:]) for line in body.split(b"\n") if line.startswith(b"data: {")]


def kinds(body: bytes) -> list[str]:
    """Return the types of a stream's events, without `response.`."""
    return [event["type"].removeprefix("response.") for event in read(body)]


def last(body: bytes) -> Json:
    """Return the response at the end of a stream, or the error there."""
    event = read(body)[-1]
    found: Json = event.get("response", event)
    return found


@dataclass(frozen=True)
class Built:
    """A call as a client would run it."""

    name: str
    arguments: str
    kind: str
    namespace: str = ""


def _built(item: Json) -> Built:
    arguments = item.get("arguments", item.get("input", item.get("action", "")))
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return Built(item.get("name") or item["type"], text, item["type"], item.get("namespace") or "")


def _runs(items: Iterable[Json]) -> list[Built]:
    acting = ("_call", "approval_request", "program")
    return [_built(item) for item in items if str(item.get("type")).endswith(acting)]


def by_ends(body: bytes) -> list[Built]:
    """Take each item at its end, as Codex does."""
    ends = [one["item"] for one in read(body) if one["type"] == "response.output_item.done"]
    return _runs(ends)


def by_snapshot(body: bytes) -> list[Built]:
    """Take what stands in a response, wherever there is one."""
    return _runs(
        item for event in read(body) for item in (event.get("response") or {}).get("output") or ()
    )


def _by_pieces(body: bytes, key: str) -> list[Built]:
    items: dict[Any, Json] = {}
    for event in read(body):
        kind = event["type"]
        if kind == "response.output_item.added":
            at = event["item"].get("id") if key == "item_id" else event.get("output_index")
            items[at] = dict(event["item"])
        elif kind.endswith((".arguments.delta", "_arguments.delta", "_input.delta")):
            item = items.get(event.get(key), {})
            member = "input" if "input" in kind else "arguments"
            item[member] = (item.get(member) or "") + (event["delta"] or "")
    return _runs(items.values())


def by_index(body: bytes) -> list[Built]:
    """Put arguments together by the item's index, as the official SDKs do."""
    return _by_pieces(body, "output_index")


def by_id(body: bytes) -> list[Built]:
    """Put arguments together by the item's id."""
    return _by_pieces(body, "item_id")


def by_whole_arguments(body: bytes) -> list[Built]:
    """Take the arguments from the event that has them whole."""
    items: dict[Any, Json] = {}
    for event in read(body):
        if event["type"] == "response.output_item.added":
            items[event.get("output_index")] = dict(event["item"])
        elif event["type"].endswith(("_arguments.done", "_input.done")):
            member = "input" if "input" in event["type"] else "arguments"
            items.setdefault(event.get("output_index"), {"type": "x"})[member] = event[member] or ""
    return _runs(items.values())


CLIENTS = {one.__name__: one for one in (by_ends, by_snapshot, by_index, by_id, by_whole_arguments)}

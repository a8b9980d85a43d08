"""Models of clients without an SDK: five ways to cut lines, three to read keys, and ways to join calls."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from modegate.core.errors import DialectName
from support.differential.trees import READERS

Call = tuple[str, Any]
"""A name, and arguments as a text, or as an object in a dict under `value`."""

Event = tuple[str, str]
"""The name of an event, and its data."""

_LINES = re.compile(r"\r\n|\n|\r")


def _standard(text: str) -> Iterator[Event]:
    name, data = "", list[str]()
    for line in [*_LINES.split(text.removeprefix("\ufeff")), ""]:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            if data:
                yield name, "\n".join(data)
            name, data = "", []
        elif field == "data":
            data.append(value)
        elif field == "event":
            name = value


def _by_line(lines: Iterable[str]) -> Iterator[Event]:
    name = ""
    for line in lines:
        if line.startswith("event:"):
            name = line[6:].strip()
        elif line.startswith("data:"):
            yield name, line[5:].strip()
        elif not line.strip():
            name = ""


def _by_block(text: str) -> Iterator[Event]:
    for block in text.replace("\r\n", "\n").split("\n\n"):
        yield from _by_line(block.split("\n"))


def _by_mark(text: str) -> Iterator[Event]:
    for piece in re.split(r"data: ?", text)[1:]:
        yield "", _LINES.split(piece)[0].strip()


CUTTERS: tuple[Callable[[bytes], Iterator[Event]], ...] = (
    lambda body: _standard(body.decode(errors="replace")),
    lambda body: _by_line(line.strip() for line in body.decode(errors="replace").split("\n")),
    lambda body: _by_line(body.decode(errors="replace").splitlines()),
    lambda body: _by_line(body.decode("latin-1").splitlines()),
    lambda body: _by_block(body.decode(errors="replace")),
    lambda body: _by_mark(body.decode(errors="replace")),
)
"""By the standard, at line feeds, at what Unicode or Latin-1 ends lines with, at blank lines, at `data:`."""


def streams(body: bytes) -> list[list[tuple[str, Any]]]:
    """Give each way to read a stream once: events' names and data as values."""
    texts: list[list[Event]] = []
    for cutter in CUTTERS:
        found = list(cutter(body))
        if found not in texts:
            texts.append(found)
    values: list[list[tuple[str, Any]]] = []
    for events in texts:
        for reader in READERS:
            found_ = [(name, value) for name, data in events for value in _value(data, reader)]
            if found_ not in values:
                values.append(found_)
    return values


def _value(data: str, reader: Callable[[list[tuple[str, Any]]], dict[str, Any]]) -> list[Any]:
    try:
        value = json.loads(data, object_pairs_hook=reader)
    except (ValueError, RecursionError):
        return []
    return [value] if isinstance(value, dict) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


class _Joined:
    """Calls that come in pieces, found again by some key, of which the name grows in some way."""

    def __init__(self, names: str) -> None:
        self._names = names
        self.calls: dict[Any, list[Any]] = {}

    def add(self, key: Any, name: Any, arguments: Any) -> None:
        call = self.calls.setdefault(key, ["", ""])
        if isinstance(name, str) and name:
            if self._names == "join":
                call[0] += name
            elif self._names == "overwrite" or not call[0]:
                call[0] = name
        if isinstance(arguments, str):
            call[1] = call[1] + arguments if isinstance(call[1], str) else call[1]
        elif isinstance(arguments, dict):
            call[1] = {"value": arguments}

    def run(self) -> Iterator[Call]:
        for name, arguments in self.calls.values():
            if name:
                yield name, arguments


def _chat_stream(events: list[Any]) -> Iterator[Call]:
    for names in ("overwrite", "keep", "join"):
        for key in ("index", "id", "last"):
            for apart in (True, False):
                yield from _chat_joined(events, names, key, apart=apart)


def _chat_joined(events: list[Any], names: str, key: str, *, apart: bool) -> Iterator[Call]:
    joined = _Joined(names)
    last: Any = None
    for _, value in events:
        for place, choice in enumerate(_dicts(value.get("choices"))):
            where = choice.get("index", place) if apart else 0
            where = where if isinstance(where, int | float | str) else 0
            delta = _dict(choice.get("delta")) or _dict(choice.get("message"))
            yield from _parts(delta)
            for at, piece in enumerate(_dicts(delta.get("tool_calls"))):
                inner = _dict(piece.get("function")) or _dict(piece.get("custom"))
                if key == "index":
                    index = piece.get("index", at)
                    last = index if isinstance(index, int | float | str) else None
                elif piece.get("id") or (key == "last" and inner.get("name")):
                    last = piece.get("id") if key == "id" else (piece.get("id"), len(joined.calls))
                    last = last if key == "last" or isinstance(last, str) else None
                name = inner.get("name")
                joined.add((where, _key(last)), name, inner.get("arguments", inner.get("input")))
            legacy = _dict(choice.get("delta")).get("function_call")
            if isinstance(legacy, dict):
                joined.add((where, "legacy"), legacy.get("name"), legacy.get("arguments"))
            if choice.get("finish_reason"):
                yield from joined.run()
    yield from joined.run()


def _key(last: Any) -> Any:
    return json.dumps(last) if isinstance(last, list | dict) else last


def _parts(message: dict[str, Any]) -> Iterator[Call]:
    """Yield calls that stand in content, where LangChain looks for them."""
    for part in _dicts(message.get("content")):
        if part.get("type") in ("tool_call", "tool_use", "function_call"):
            inner = part.get("args", part.get("input", part.get("arguments")))
            yield str(part.get("name")), {"value": inner} if isinstance(inner, dict) else inner


def _chat_whole(value: dict[str, Any]) -> Iterator[Call]:
    for choice in _dicts(value.get("choices")):
        message = _dict(choice.get("message")) or _dict(choice.get("delta"))
        yield from _parts(message)
        for call in _dicts(message.get("tool_calls")):
            for shape in ("function", "custom"):
                inner = _dict(call.get(shape))
                if inner.get("name"):
                    given = inner.get("arguments", inner.get("input", ""))
                    yield str(inner["name"]), given if isinstance(given, str) else {"value": given}
        legacy = _dict(message.get("function_call"))
        if legacy.get("name"):
            yield str(legacy["name"]), legacy.get("arguments", "")


_FREE = {
    "shell_call": "action",
    "local_shell_call": "action",
    "computer_call": "action",
    "apply_patch_call": "operation",
}


def _item(item: Any) -> Iterator[Call]:
    item = _dict(item)
    kind = item.get("type")
    if kind == "function_call":
        yield str(item.get("name")), item.get("arguments", "")
    elif kind == "custom_tool_call":
        yield str(item.get("name")), {"value": {"input": item.get("input")}}
    elif isinstance(kind, str) and kind in _FREE:
        yield kind.removesuffix("_call"), {"value": item.get(_FREE[kind])}


def _responses_stream(events: list[Any]) -> Iterator[Call]:
    for key in ("output_index", "item_id", "last"):
        for named in (True, False):
            joined: dict[Any, list[Any]] = {}
            last: Any = None
            for name, value in events:
                kind = name if named and name else value.get("type")
                item = _dict(value.get("item"))
                if kind == "response.output_item.added":
                    last = item.get("id") if key == "item_id" else value.get(key)
                    joined[_key(last)] = [item, item.get("arguments") or item.get("input") or ""]
                where = last if key == "last" else value.get(key, item.get("id") or last)
                mine = joined.get(_key(where))
                if mine is not None and isinstance(kind, str) and "_call_" in kind:
                    whole = value.get("arguments", value.get("input"))
                    if kind.endswith(".delta") and isinstance(value.get("delta"), str):
                        mine[1] = str(mine[1]) + value["delta"]
                    elif kind.endswith(".done"):
                        mine[1] = whole
                        if value.get("name"):
                            yield str(value["name"]), whole
                if kind == "response.output_item.done":
                    yield from _item(item)
                    if mine is not None and mine[0].get("type") in (
                        "function_call",
                        "custom_tool_call",
                    ):
                        text = (
                            mine[1]
                            if mine[0]["type"] == "function_call"
                            else {"value": {"input": mine[1]}}
                        )
                        yield str(mine[0].get("name")), text
                for out in _dicts(_dict(value.get("response")).get("output")):
                    yield from _item(out)


def _messages_stream(events: list[Any]) -> Iterator[Call]:
    for key in ("index", "count", "last"):
        for named in (True, False):
            yield from _blocks_joined(events, key, named=named)


def _blocks_joined(events: list[Any], key: str, *, named: bool) -> Iterator[Call]:
    blocks: dict[Any, list[Any]] = {}
    last: Any = None
    for name, value in events:
        kind = name if named and name else value.get("type")
        if kind == "message_start":
            for block in _dicts(_dict(value.get("message")).get("content")):
                yield from _block(block)
        elif kind == "content_block_start":
            last = len(blocks) if key == "count" else _key(value.get("index"))
            blocks[last] = [_dict(value.get("content_block")), ""]
        elif kind in ("content_block_delta", "content_block_stop"):
            mine = blocks.get(_key(value.get("index")) if key == "index" else last)
            if mine is None:
                continue
            delta = _dict(value.get("delta"))
            if isinstance(delta.get("partial_json"), str):
                mine[1] += delta["partial_json"]
            if kind == "content_block_stop" and mine[0].get("type") == "tool_use":
                yield str(mine[0].get("name")), mine[1] or {"value": mine[0].get("input")}


def _block(block: Any) -> Iterator[Call]:
    block = _dict(block)
    if block.get("type") == "tool_use":
        yield str(block.get("name")), {"value": block.get("input")}


def _responses_whole(value: dict[str, Any]) -> Iterator[Call]:
    for item in _dicts(value.get("output")):
        yield from _item(item)


def _messages_whole(value: dict[str, Any]) -> Iterator[Call]:
    for block in _dicts(value.get("content")):
        yield from _block(block)


_STREAMED: dict[DialectName, Callable[[list[Any]], Iterator[Call]]] = {
    "chat": _chat_stream,
    "responses": _responses_stream,
    "messages": _messages_stream,
}
_WHOLE: dict[DialectName, Callable[[dict[str, Any]], Iterator[Call]]] = {
    "chat": _chat_whole,
    "responses": _responses_whole,
    "messages": _messages_whole,
}


def raw_calls(api: DialectName, body: bytes, *, streamed: bool) -> Iterator[Call]:
    """Yield every call that some client without an SDK could run."""
    if streamed:
        for events in streams(body):
            yield from _STREAMED[api](events)
        return
    for reader in READERS:
        for value in _value(body.decode(errors="replace"), reader):
            yield from _WHOLE[api](value)

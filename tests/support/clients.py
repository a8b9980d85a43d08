"""Ways in which clients put the calls of a streamed chat completions answer together.

Each is a small model of a kind of accumulator that is in use: SDKs and agents differ in what they go by
and in what they do with a name that comes twice. What any of them could run, the gate answers for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass
class Built:
    """A call as a client has it at the end."""

    name: str = ""
    arguments: str = ""
    id: str = ""
    custom: bool = False

    def grow(self, piece: dict[str, Any], *, join: bool = False) -> None:
        """Take one piece of it."""
        inner = piece.get("function") or piece.get("custom") or {}
        self.custom = self.custom or bool(piece.get("custom"))
        name = inner.get("name")
        if isinstance(name, str) and name:
            self.name = self.name + name if join else name
        more = inner.get("arguments", inner.get("input"))
        if more is not None:
            self.arguments += more if isinstance(more, str) else json.dumps(more)
        self.id = self.id or piece.get("id") or ""


def lines(body: bytes) -> Iterator[str]:
    """Yield the data lines of a stream up to its end, as a client that goes line by line does."""
    text = body.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    for line in text.split("\n"):
        if line.startswith("data:"):
            data = line.removeprefix("data:").strip()
            if data.startswith("[DONE]"):
                return
            yield data


def pieces(body: bytes) -> Iterator[tuple[Any, int, str, dict[str, Any]]]:
    """Yield each piece of a call: its choice, its place in the list, `tool` or `legacy`, and itself."""
    for data in lines(body):
        try:
            value = json.loads(data)
        except ValueError:
            continue
        for choice in (value.get("choices") or ()) if isinstance(value, dict) else ():
            delta = choice.get("delta") or choice.get("message") or {}
            for at, piece in enumerate(delta.get("tool_calls") or ()):
                yield choice.get("index"), at, "tool", piece
            if delta.get("function_call"):
                yield choice.get("index"), 0, "legacy", {"function": delta["function_call"]}


Client = Callable[[bytes], list[Built]]


def _by_index(body: bytes, *, join: bool, missing: int | None, choices: bool) -> list[Built]:
    built: dict[Any, Built] = {}
    for choice, at, kind, piece in pieces(body):
        place = piece.get("index")
        if place is None:
            place = at if missing is None else missing
        key = (choice if choices else 0, kind, int(place))
        built.setdefault(key, Built()).grow(piece, join=join)
    return list(built.values())


def by_index(body: bytes) -> list[Built]:
    """Go by index; a later name takes the place of an earlier one."""
    return _by_index(body, join=False, missing=None, choices=True)


def by_index_joining(body: bytes) -> list[Built]:
    """Go by index and join names as arguments are joined, as a generic merge of deltas does."""
    return _by_index(body, join=True, missing=None, choices=True)


def by_index_or_first(body: bytes) -> list[Built]:
    """Go by index; a piece without one goes to the first place. Choices are not told apart."""
    return _by_index(body, join=False, missing=0, choices=False)


def by_id(body: bytes) -> list[Built]:
    """Go by id; a piece without one goes on with the call of the piece before."""
    built: dict[Any, Built] = {}
    current: Any = None
    for _, _, kind, piece in pieces(body):
        if kind == "legacy":
            built.setdefault("legacy", Built()).grow(piece, join=True)
            continue
        current = piece.get("id") or current
        built.setdefault(current, Built()).grow(piece)
    return list(built.values())


def last_call(body: bytes) -> list[Built]:
    """Begin a call where a new id or another name comes; everything else goes on with the last one."""
    built: list[Built] = []
    legacy = Built()
    for _, _, kind, piece in pieces(body):
        if kind == "legacy":
            legacy.grow(piece, join=True)
            continue
        inner = piece.get("function") or piece.get("custom") or {}
        id_, name = piece.get("id") or "", inner.get("name") or ""
        last = built[-1] if built else None
        if (
            last is None
            or (id_ and last.id not in ("", id_))
            or (name and last.name not in ("", name))
        ):
            built.append(Built())
        built[-1].grow(piece)
    return [*built, legacy]


CLIENTS: dict[str, Client] = {
    "by-index": by_index,
    "by-index-joining": by_index_joining,
    "by-index-or-first": by_index_or_first,
    "by-id": by_id,
    "last-call": last_call,
}

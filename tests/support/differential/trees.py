"""JSON as clients in different languages read it: objects keep every key, so that a key can come twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(eq=False)
class Obj:
    """An object with its members in order."""

    pairs: list[tuple[str, Any]]

    def get(self, key: str) -> Any:
        """Return the last value under a key; None if there is none."""
        return next((value for name, value in reversed(self.pairs) if name == key), None)

    def put(self, key: str, value: Any) -> None:
        """Replace the values of a key, or add it."""
        at = [place for place, (name, _) in enumerate(self.pairs) if name == key]
        if at:
            self.pairs[at[-1]] = (key, value)
        else:
            self.pairs.append((key, value))


@dataclass(frozen=True)
class Literal:
    """A value that is written as it stands, such as a number that no language can hold."""

    text: str


def load(text: str | bytes) -> Any:
    """Read JSON; raises ValueError if it is none."""
    return json.loads(text, object_pairs_hook=Obj)


def dump(value: Any) -> str:
    """Write it."""
    if isinstance(value, Obj):
        return "{" + ",".join(f"{json.dumps(k)}:{dump(v)}" for k, v in value.pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(dump, value)) + "]"
    return value.text if isinstance(value, Literal) else json.dumps(value)


def objects(value: Any) -> Iterator[Obj]:
    """Yield every object in it, outermost first."""
    if isinstance(value, Obj):
        yield value
        for _, inner in value.pairs:
            yield from objects(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from objects(inner)


def _last(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(pairs)


def _first(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(reversed(pairs))


def _folded(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {key.casefold(): value for key, value in pairs}


READERS: tuple[Callable[[list[tuple[str, Any]]], dict[str, Any]], ...] = (_last, _first, _folded)
"""Which of two equal keys counts, and whether `Name` is `name`."""


def readings(text: str) -> list[Any]:
    """Return what clients make of a JSON text, each reading once; empty if it is none."""
    found: list[Any] = []
    for reader in READERS:
        try:
            value = json.loads(text, object_pairs_hook=reader)
        except (ValueError, RecursionError):
            return []
        if value not in found:
            found.append(value)
    return found

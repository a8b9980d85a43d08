"""Chat completions as loose servers announce calls: ids again, placeholders, the message once more."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from support.differential.trees import Obj

Frames = list[Any]


def _deltas(frames: Frames) -> Iterator[tuple[int, Obj]]:
    for at, frame in enumerate(frames):
        for choice in (frame.data.get("choices") or ()) if isinstance(frame.data, Obj) else ():
            if isinstance(delta := choice.get("delta"), Obj):
                yield at, delta


def _pieces(frames: Frames) -> list[tuple[int, Obj]]:
    return [(at, piece) for at, delta in _deltas(frames) for piece in delta.get("tool_calls") or ()]


def _later(frames: Frames) -> Iterator[tuple[Obj, Obj]]:
    """Yield each later piece of a call with the first."""
    first: dict[Any, Obj] = {}
    for _, piece in _pieces(frames):
        begun = first.setdefault(piece.get("index"), piece)
        if begun is not piece:
            yield piece, begun


def _name_of(piece: Obj) -> Any:
    return piece.get("function").get("name")


def _ids_again(frames: Frames, rng: Random) -> None:
    for piece, first in _later(frames):
        if rng.random() < 0.8:
            piece.put("id", first.get("id"))


def _new_ids(frames: Frames, rng: Random) -> None:
    same = rng.random() < 0.5
    for number, (piece, _) in enumerate(_later(frames)):
        piece.put("id", f"new_{0 if same else number}")


def _names_again(frames: Frames, rng: Random) -> None:
    for piece, first in _later(frames):
        if rng.random() < 0.8:
            piece.get("function").put("name", _name_of(first))


def _empty(frames: Frames, rng: Random) -> None:
    for piece, _ in _later(frames):
        blank = rng.choice(["", None])
        piece.put("id", blank)
        piece.put("type", blank)
        piece.get("function").put("name", blank)


def _one_index(frames: Frames, rng: Random) -> None:
    gone = rng.random() < 0.3
    for _, piece in _pieces(frames):
        if gone:
            piece.pairs[:] = [pair for pair in piece.pairs if pair[0] != "index"]
        else:
            piece.put("index", 0)


def _placeholder(frames: Frames, rng: Random) -> None:
    found = _pieces(frames)
    if not found:
        return
    at, piece = rng.choice(found)
    frame = copy.deepcopy(frames[at])
    for _, delta in _deltas([frame]):
        blank = Obj([("name", ""), ("arguments", "")])
        id_ = rng.choice(["tmp", piece.get("id"), None])
        one = Obj(
            [("index", rng.choice([0, piece.get("index")])), ("id", id_), ("function", blank)]
        )
        delta.put("tool_calls", [one])
    frames.insert(rng.randrange(at + 1), frame)


def _stub(frames: Frames, rng: Random) -> None:
    for _, delta in _deltas(frames):
        if rng.random() < 0.5:
            delta.put("function_call", Obj([("name", ""), ("arguments", "")]))


def _closing(frames: Frames, rng: Random) -> None:
    deltas = list(_deltas(frames))
    if not deltas:
        return
    text = "".join(delta.get("content") or "" for _, delta in deltas)
    calls: dict[Any, Obj] = {}
    for _, piece in _pieces(frames):
        begun = calls.setdefault(piece.get("index"), copy.deepcopy(piece))
        if piece.get("id") != begun.get("id"):
            both = [one.get("function").get("arguments") or "" for one in (begun, piece)]
            begun.get("function").put("arguments", "".join(both))
    message = Obj([("role", "assistant"), ("content", text), ("tool_calls", list(calls.values()))])
    finish = rng.choice(["tool_calls", "stop", None])
    choice = Obj([("index", 0), ("finish_reason", finish), ("message", message)])
    frame = copy.deepcopy(frames[deltas[-1][0]])
    frame.data.put("object", "chat.completion")
    frame.data.put("choices", [choice])
    end = deltas[-1][0]
    if rng.random() < 0.5:
        # The finish stands in it alone.
        del frames[end]
        end -= 1
    frames.insert(end + 1, frame)


WAYS: tuple[Callable[[Frames, Random], None], ...] = (
    _ids_again,
    _new_ids,
    _names_again,
    _empty,
    _one_index,
    _placeholder,
    _stub,
    _closing,
)


def loosen(frames: Frames, rng: Random) -> None:
    """Announce the calls of a stream in another way, or in two."""
    for _ in range(rng.choice([1, 1, 2])):
        rng.choice(WAYS)(frames, rng)

"""Streams of Messages and Responses as loose servers send them: side by side, one index, no ends."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from random import Random
from typing import Any

from support.differential.trees import Obj

Frames = list[Any]
_PLACES = ("index", "output_index")
_IDS = ("id", "item_id", "call_id")
_BEGINS = ("content_block_start", "response.output_item.added")
_ENDS = ("content_block_stop", "response.output_item.done")
_OUTER = (
    *("message_start", "message_delta", "message_stop", "response.created"),
    *("response.in_progress", "response.completed", "response.incomplete"),
)


def _kind(frame: Any) -> str:
    return str(frame.data.get("type")) if isinstance(frame.data, Obj) else ""


def _place(frame: Any) -> Any:
    found = [frame.data.get(key) for key in _PLACES] if isinstance(frame.data, Obj) else []
    return next((at for at in found if at is not None), None)


def _inner(frames: Frames) -> list[int]:
    return [at for at, frame in enumerate(frames) if _place(frame) is not None]


def _without(one: Obj, *keys: str) -> None:
    one.pairs[:] = [pair for pair in one.pairs if pair[0] not in keys]


def _woven(frames: Frames, rng: Random) -> None:
    """Let blocks take turns, each in its order."""
    places = _inner(frames)
    if not places:
        return
    runs: dict[Any, Frames] = {}
    for at in places:
        runs.setdefault(str(_place(frames[at])), []).append(frames[at])
    rows = [list(run) for run in runs.values()]
    mixed: Frames = []
    while rows := [row for row in rows if row]:
        mixed.append(rng.choice(rows).pop(0))
    for at, frame in zip(places, mixed, strict=True):
        frames[at] = frame


def _no_ends(frames: Frames, rng: Random) -> None:
    all_ = rng.random() < 0.6
    frames[:] = [
        one for one in frames if _kind(one) not in _ENDS or (not all_ and rng.random() < 0.5)
    ]


def _no_begins(frames: Frames, rng: Random) -> None:
    frames[:] = [one for one in frames if _kind(one) not in _BEGINS or rng.random() < 0.5]


def _one_index(frames: Frames, rng: Random) -> None:
    how = rng.choice(["none", 0, "next", "same"])
    for at in _inner(frames):
        data = frames[at].data
        key = next(key for key in _PLACES if data.get(key) is not None)
        if how == "none":
            _without(data, key)
        elif how != "same" or rng.random() < 0.3:
            data.put(key, 0 if how == 0 else data.get(key) + rng.choice([0, 1]))


def _ids(frames: Frames, rng: Random) -> None:
    """Take ids away, give all the same, or each event one of its own."""
    how, keys = rng.choice(["none", "one", "own"]), rng.sample(_IDS, rng.choice([1, 1, 2]))
    number = itertools.count()
    for frame in frames:
        if not isinstance(frame.data, Obj) or _kind(frame) in _OUTER:
            continue
        inner = [frame.data.get("item"), frame.data.get("content_block")]
        for one in (frame.data, *(one for one in inner if isinstance(one, Obj))):
            for key in keys:
                if one.get(key) is None:
                    continue
                if how == "none":
                    _without(one, key)
                else:
                    one.put(key, "one" if how == "one" else f"own_{next(number)}")


def _pieces_gone(frames: Frames, rng: Random) -> None:
    """Let arguments stand in some forms alone."""
    words = (".delta", "content_block_delta", ".arguments.done", "_arguments.done")
    gone = rng.choice(words)
    frames[:] = [one for one in frames if not _kind(one).endswith(gone) or rng.random() < 0.2]


def _moved(frames: Frames, rng: Random) -> None:
    """Let a block's event come late: behind its end, behind the answer's."""
    places = _inner(frames)
    if places:
        at = rng.choice(places)
        frames.insert(rng.randrange(at, len(frames)), frames.pop(at))


def _again(frames: Frames, rng: Random) -> None:
    places = _inner(frames)
    if places:
        at = rng.choice(places)
        frames.insert(rng.randrange(at, len(frames) + 1), copy.deepcopy(frames[at]))


def _swapped(frames: Frames, rng: Random) -> None:
    """Give the events of one block the place or the ids of another."""
    places = _inner(frames)
    if len(places) < 2:
        return
    one, other = rng.sample(places, 2)
    for key in rng.choice([_PLACES, _IDS, (*_PLACES, *_IDS)]):
        value = frames[other].data.get(key)
        if value is not None and frames[one].data.get(key) is not None:
            frames[one].data.put(key, value)


def _placeholder(frames: Frames, rng: Random) -> None:
    """Announce a call without a name in front of another, which may have its index or its id."""
    begins = [at for at, frame in enumerate(frames) if _kind(frame) in _BEGINS]
    if not begins:
        return
    at = rng.choice(begins)
    blank = copy.deepcopy(frames[at])
    for key in ("item", "content_block"):
        inner = blank.data.get(key)
        if isinstance(inner, Obj):
            inner.put("name", rng.choice(["", None]))
            if rng.random() < 0.5:
                inner.put("id", rng.choice(["tmp", ""]))
    frames.insert(rng.choice([at, at + 1]), blank)


def _nameless(frames: Frames, rng: Random) -> None:
    """Leave out what events are called, or what they are in their data."""
    how = rng.choice(["event", "type", "message"])
    for frame in frames:
        if how == "event":
            frame.event = ""
        elif how == "message":
            frame.event = "message"
        elif isinstance(frame.data, Obj) and frame.event:
            _without(frame.data, "type")


WAYS: tuple[Callable[[Frames, Random], None], ...] = (
    _woven,
    _woven,
    _no_ends,
    _no_begins,
    _one_index,
    _one_index,
    _ids,
    _pieces_gone,
    _moved,
    _again,
    _swapped,
    _placeholder,
    _nameless,
)


def loosen_items(frames: Frames, rng: Random) -> None:
    """Send the blocks or items of a stream in another way, or in several."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        rng.choice(WAYS)(frames, rng)

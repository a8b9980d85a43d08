"""Streams of loose servers, brought into the one form that every client reads alike.

Servers leave blocks open, let items stand side by side, leave out an index, an id, an end. A straightener
stands in front of all that reads an answer: it takes frames as they come and gives them in the API's own
form, one block or item behind the other. What was straight leaves as it came. It decides nothing: what it
gives is read, judged and written like any answer, so that a client gets what was judged and nothing else.
A call of which servers could mean two things is given with a doubt, and refused for it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from modegate.core.step.answer.calls import SIGNATURE, digest
from modegate.core.wire.json_spans import (
    Edit,
    apply,
    elements,
    members,
    without,
    without_lone_surrogates,
)
from modegate.core.wire.sse import Frame
from modegate.core.wire.weight import ANSWER_VALUES, is_dense


@dataclass(frozen=True, slots=True)
class Straight(Frame):
    """A frame that came in another form, or not at all."""

    doubt: str = ""
    """Why the call that it is of cannot be read; empty if it can."""


class Straightener(Protocol):
    """What a dialect has in front of its reader, for one hop."""

    @property
    def waiting(self) -> int:
        """Bytes of calls that are not complete, and of what stands behind them."""
        ...

    def take(self, frame: Frame) -> list[Frame]:
        """Take a frame, and give those that may be read now.

        Raises:
            TooLarge: more would wait than may be held back.
        """
        ...

    def passed(self) -> None:
        """Take that the client has all that came so far, as it came."""
        ...

    def end(self) -> list[Frame]:
        """Take the end of the stream, and give what is left of it."""
        ...


class Ids:
    """Ids of our own, for calls that have none, or that of another call."""

    def __init__(self, seed: str, taken: Collection[str], *, renames: bool = True) -> None:
        """Begin a hop: `seed` tells it from others, `taken` are the ids of calls in its history.

        Without `renames` each stays as it is: a provider that keeps the answer goes by it.
        """
        self._seed = seed
        self._renames = renames
        self._taken = set(taken)
        self._made = 0

    def own(self, given: Any, prefix: str) -> str | None:
        """Return the id that a call needs in the place of the given one; None if that will do."""
        if not self._renames or (given not in (None, "") and not isinstance(given, str)):
            return None  # what is no id at all is refused for it
        if given and given not in self._taken:
            self._taken.add(given)
            return None
        self._made += 1
        # A signature in an id is wanted back as it was.
        _, sign, signature = (given or "").partition(SIGNATURE)
        name = f"{prefix}{digest(f'{self._seed}/{self._made}')}{sign}{signature}"
        self._taken.add(name)
        return name


def made(value: dict[str, Any], *, named: bool, doubt: str = "") -> Straight:
    """Return a frame of our own, of an event of this type."""
    event = str(value["type"]).encode() if named else b""
    return framed(msgspec.json.encode(value), event, doubt)


def framed(data: bytes, event: bytes, doubt: str = "") -> Straight:
    """Return a frame of our own with this data."""
    name = b"event: " + event + b"\n" if event else b""
    return Straight(name + b"data: " + data + b"\n\n", data, event, doubt=doubt)


def with_member(data: bytes, value: bytes, *keys: str) -> bytes:
    """Return an object in which the member under a path of keys has this value, be it there or not."""
    text = without_lone_surrogates(data)
    found, span = members(text), None
    for key in keys[:-1]:
        span = next(member.value for member in found if member.key == key)
        found = members(text, span)
    spans = [member.value for member in found if member.key == keys[-1]]
    if spans:
        return apply(data, [Edit(*one, value) for one in spans])
    at = (span.start if span else data.index(b"{")) + 1
    comma = b"," if found else b""
    return apply(data, [Edit(at, at, b'"%b":%b%b' % (keys[-1].encode(), value, comma))])


def unreadable(frame: Frame) -> Frame:
    """Return a frame that ends the answer: what it says does not fit what came before."""
    return Frame(frame.raw, frame.data, frame.event, odd=True)


def bare(frame: Frame) -> bytes:
    """Return a frame's data as it is read, in UTF-8 and without halves of characters.

    Raises:
        ValueError: it holds more values than an answer can have, of which nothing may be made.
    """
    data = frame.data or b""
    if is_dense(data, ANSWER_VALUES):
        raise ValueError("too many values")
    return without_lone_surrogates(data)


class _Call(msgspec.Struct):
    type: Any = None
    id: Any = None
    call_id: Any = None
    name: Any = None
    toolset_name: Any = None
    input: Any = None
    arguments: Any = None


_read_call = msgspec.json.Decoder(_Call).decode


@dataclass(frozen=True, slots=True)
class Listed:
    """Where a whole answer has its calls."""

    key: str
    """The member that lists them, among other things."""
    kinds: frozenset[str]
    id: str
    """The member of a call that is its id."""
    prefix: str

    def straight(self, body: bytes, ids: Ids) -> bytes:
        """Return an answer in which each call has an id of its own, and none is a placeholder."""
        if is_dense(body, ANSWER_VALUES):
            return body  # who reads it says what is wrong, and makes nothing of it either
        try:
            text = without_lone_surrogates(body)
            (span,) = [one.value for one in members(text) if one.key == self.key]
            places = elements(text, span)
            found = [_read_call(text[start:stop]) for start, stop in places]
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return body  # who reads it says what is wrong
        drop: set[int] = set()
        edits: list[Edit] = []
        for at, call in enumerate(found):
            if not isinstance(call.type, str) or call.type not in self.kinds:
                continue
            if not (call.name or call.toolset_name or call.input or call.arguments):
                drop.add(at)
            elif (own := ids.own(getattr(call, self.id), self.prefix)) is not None:
                start, stop = places[at]
                whole = with_member(body[start:stop], msgspec.json.encode(own), self.id)
                edits.append(Edit(start, stop, whole))
        return apply(body, [*edits, *without(places, drop)]) if edits or drop else body

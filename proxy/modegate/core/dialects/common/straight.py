"""What the straighteners of all dialects have in common: limits, types of events, errors, places, ids."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from modegate.core.dialects.common.call_members import is_index
from modegate.core.dialects.common.frames import OwnFrames, framed, readable_data, with_member
from modegate.core.step.answer.hold import over
from modegate.core.step.answer.straightener import Ids
from modegate.core.step.reasons import Reason
from modegate.core.wire.json_spans import Edit, apply, elements, members, without
from modegate.core.wire.sse import BLANK, DONE, Frame
from modegate.core.wire.surrogates import without_lone_surrogates
from modegate.core.wire.weight import ANSWER_VALUES, is_dense

AMBIGUOUS = Reason.PIECES_OF_ANOTHER
"""The doubt about a call of which servers could mean two things."""

MAX_WORDS = 300
"""Characters of an error that is plain text."""

_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


class LooseEvent(msgspec.Struct):
    """What is read of an event in front of its reader."""

    type: Any = None
    error: msgspec.Raw = msgspec.Raw(b"")


E = TypeVar("E", bound=LooseEvent)


class BaseStraightener(ABC, Generic[E]):
    """Straightens one hop's stream; a dialect says what its events mean."""

    INDEX: ClassVar[str]
    """The key under which an event has its index."""

    def __init__(self, limit: int, ids: Ids, read: Callable[[bytes], E]) -> None:
        """Begin; at most `limit` bytes may wait. `read` decodes an event."""
        self._read = read
        self._limit = limit
        self._ids = ids
        self._over = False
        self._own = OwnFrames()
        self._last = -1
        """The highest place that was given."""
        self.waiting = 0

    def take(self, frame: Frame) -> list[Frame]:
        data = frame.data
        if data is None or frame.odd or self._over or self._flows(frame, data):
            return [frame]
        data = data.strip(BLANK)
        if data.startswith(DONE):
            return self._foreign_end(frame)
        if frame.event == b"error" and not data.startswith(b"{"):
            return self._error(self._failure(data.decode("utf-8", "replace")[:MAX_WORDS]))
        try:
            event = self._read(readable_data(frame))
        except _UNREADABLE:
            return [frame]  # who reads it says what is wrong
        try:
            return self._event(self._normal(frame, event), event)
        except _UNREADABLE:
            return [Frame(frame.raw, frame.data, frame.event, odd=True)]

    @abstractmethod
    def _flows(self, frame: Frame, data: bytes) -> bool:
        """Return whether a frame is text that surely leaves as it came, as almost always."""

    @abstractmethod
    def _foreign_end(self, frame: Frame) -> list[Frame]:
        """Take the mark with which streams of another API end."""

    @abstractmethod
    def _failure(self, words: str) -> Frame:
        """Return the error of this API that says these words."""

    @abstractmethod
    def _knows(self, name: str) -> bool:
        """Return whether an event may be known by its name alone."""

    @abstractmethod
    def _normal(self, frame: Frame, event: E) -> Frame:
        """Return an event whose name and type agree, as far as it is known what it is."""

    @abstractmethod
    def _event(self, frame: Frame, event: E) -> list[Frame]:
        """Take an event; give what may leave."""

    def _error(self, frame: Frame) -> list[Frame]:
        self._over = True
        return [frame]

    def _with_type(self, frame: Frame, event: E) -> Frame:
        """Return an event that says what it is by its name alone with the type that it lacks."""
        if event.type is not None:
            return frame
        name = frame.event.decode("ascii", "replace")
        if event.error and name in ("", "message", "error"):
            name = "error"
        if not self._knows(name):
            return frame
        event.type = name
        data = with_member(frame.data or b"", msgspec.json.encode(name), "type")
        return framed(data, frame.event)

    def _new_place(self, index: Any) -> int:
        """Return the index with which a new block or item leaves: its own, if that fits."""
        fits = index is not msgspec.UNSET and index > self._last
        self._last = index if fits else self._last + 1
        return self._last

    def _at(self, place: int, frame: Frame, index: Any) -> Frame:
        """Return an event with the index of the block or item that it is of."""
        if index == place:
            return frame
        return framed(with_member(frame.data or b"", b"%d" % place, self.INDEX), frame.event)

    def _wait(self, frame: Frame) -> None:
        self.waiting += len(frame.raw)
        if self.waiting > self._limit:
            raise over(self._limit)


def may_be_index(index: Any) -> bool:
    """Return whether an event has an index that every client reads alike, or none."""
    return index is msgspec.UNSET or is_index(index)


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
class CallList:
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

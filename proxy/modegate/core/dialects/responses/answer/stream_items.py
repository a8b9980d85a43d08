"""The events of a stream, and the items that they are of, found again by their index or their id."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from modegate.core.dialects.common.answer_json import members_in
from modegate.core.dialects.common.call_members import is_index
from modegate.core.dialects.common.strict_json import exactly
from modegate.core.dialects.responses.answer import parsing
from modegate.core.dialects.responses.answer.answer_items import OutputItem
from modegate.core.dialects.responses.answer.call_consistency import ARGUMENT_EVENTS, COMMAND
from modegate.core.dialects.responses.answer.calls import ItemCall
from modegate.core.errors import AnswerUnreadable
from modegate.core.wire.json_spans import Span


@dataclass(eq=False, slots=True)
class EventFrame:
    raw: bytes
    data: bytes
    value: dict[str, Any] = field(default_factory=dict)
    type: str = ""
    name: bytes = b""
    """What its `event:` says; empty where it has none."""
    own: bool = False
    """It came in another form, so that its lines are ours."""
    number: int = 0
    """How many events of the hop came before it."""
    out: OutputItem | None = None
    """The item that it is about."""
    listed: list[ItemCall | None] = field(default_factory=list)
    """For the end: what each item of its snapshot is; None for text and reasoning."""
    _places: dict[str, Span] = field(default_factory=dict)

    @property
    def exact(self) -> dict[str, Any]:
        """What it says, with halves of characters as they are."""
        return exactly(self.data, self.value)

    @property
    def places(self) -> dict[str, Span]:
        """Where each member's value stands."""
        if not self._places:
            self._places = {member.key: member.value for member in members_in(self.data)}
        return self._places


MAX_NAMES = 4 * parsing.MAX_ITEMS
"""Ids of items in one answer; some servers have several for each."""

_OF_ITEMS = (
    parsing.DONE,
    COMMAND,
    *parsing.INERT_EVENTS,
    *(begins for begins, _ in ARGUMENT_EVENTS.values()),
)
"""Events that are of an item also where they do not say of which."""


class StreamItems:
    def __init__(self) -> None:
        self._by_index: dict[int, OutputItem] = {}
        self._names: dict[str, int] = {}
        """Every item id that was seen, and the index that it goes with."""

    def _open(self) -> list[OutputItem]:
        return [out for out in self._by_index.values() if not out.ended]

    def new_index(self, event: EventFrame) -> int:
        """Return the index of an item that begins.

        Some servers send none (llama.cpp issue 20607): then one item comes behind the other.
        """
        if "output_index" not in event.value:
            if self._open():
                raise AnswerUnreadable("the upstream sent items side by side without an index")
            return max(self._by_index, default=-1) + 1
        index = _index(event)
        if index in self._by_index:
            raise AnswerUnreadable("the upstream sent two items with one index")
        return index

    def add(self, out: OutputItem) -> None:
        self._by_index[out.index] = out

    def name(self, name: str, index: int) -> None:
        """Note under which id an item goes: clients look for it by that or by the index."""
        if name and self._names.setdefault(name, index) != index:
            raise AnswerUnreadable("the upstream sent one id for two items")
        if len(self._names) > MAX_NAMES:
            raise AnswerUnreadable(f"the upstream sent over {MAX_NAMES} ids of items")

    def find(self, event: EventFrame) -> OutputItem | None:
        """Find the item that an event is about."""
        name = parsing.text_in(event.value, "item_id")
        if "output_index" in event.value:
            index = _index(event)
            out = self._by_index.get(index)
            if out is None and event.type != parsing.DONE:
                raise AnswerUnreadable("the upstream sent a piece of an item that has not begun")
            self.name(name, index)
            return out
        if name in self._names:
            return self._by_index[self._names[name]]
        if not name and not event.type.startswith(_OF_ITEMS):
            return None
        able = self._open()
        if len(able) > 1 or (name and not able):
            raise AnswerUnreadable("the upstream sent a piece of an item that cannot be told")
        return able[0] if able else None


def _index(event: EventFrame) -> int:
    index = event.value.get("output_index")
    if not is_index(index):
        raise AnswerUnreadable("the upstream sent an index that is not a whole number")
    return index

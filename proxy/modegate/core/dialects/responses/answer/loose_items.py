"""The items of a loose stream, found again by what its events say of them: an index, an id, or neither."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from modegate.core.dialects.common.straight import AMBIGUOUS
from modegate.core.dialects.responses.answer.calls import CALLS
from modegate.core.dialects.responses.answer.loose_item import Event, Head, LooseItem
from modegate.core.dialects.responses.answer.output import listed_places
from modegate.core.dialects.responses.answer.parsing import INERT, MAX_ITEMS
from modegate.core.wire.json_spans import Edit, apply, without

_MAX_OPEN = 64
"""Items that are under way at one time, of which an event that has no index could be."""


class LooseItems:
    """All items of one hop."""

    def __init__(self) -> None:
        self.all: list[LooseItem] = []
        self._open: list[LooseItem] = []
        """Those that have not ended, and some that have."""
        self._by_index: dict[int, LooseItem] = {}
        self._shared: set[int] = set()
        """Indices that several items have."""
        self._by_id: dict[str, LooseItem] = {}

    def add(self, item: LooseItem, index: Any) -> None:
        """Take a new item, with the index that the stream says, if it says one."""
        if len(self.all) >= MAX_ITEMS:
            raise ValueError("too many items")
        self.all.append(item)
        self._open.append(item)
        if index is not msgspec.UNSET:
            if index in self._by_index:
                self._shared.add(index)
            self._by_index[index] = item
        if item.head.id:
            self._by_id[item.head.id] = item

    def announced(self, head: Head, index: Any) -> LooseItem | None:
        """Return the item that is announced again, or whose index is used again."""
        return self._by_id.get(head.id) or self._by_index.get(index)

    def find(self, event: Event, name: Any, *, is_call: bool | None) -> LooseItem | None:
        """Find the item that an event is of; where that could be two, both are in doubt."""
        by_id = self._by_id.get(name) if isinstance(name, str) else None
        by_index = self._by_index.get(event.output_index)
        if by_id and by_index and by_id is not by_index:
            if event.output_index in self._shared:
                return by_id
            _doubt(by_id, by_index)
            return by_index
        found = by_index or by_id
        if found is not None or event.output_index is not msgspec.UNSET:
            return found
        self._open = [one for one in self._open if one.is_open]
        if len(self._open) > _MAX_OPEN:
            raise ValueError("too many items are under way")
        able = [one for one in self._open if is_call in (None, one.is_call)]
        if name and not able:
            return None
        if len(able) > 1:
            _doubt(*able)
        return able[0] if able else None

    def _alike(self, head: Head) -> list[LooseItem]:
        return [one for one in self.all if one.head.type == head.type]

    def lack(self, head: Head, item: bytes) -> bool:
        """Return whether an item of the snapshot at the end never came before."""
        alike = self._alike(head)
        if head.type in CALLS:
            return not any(one.repeats(head, item) for one in alike)
        return not alike and head.type in INERT

    def repeated(self, head: Head, heads: Sequence[Head | None]) -> LooseItem | None:
        """Find the item that the snapshot at the end repeats; `heads` are all that it lists."""
        mine = self._alike(head)
        found = next((one for one in mine if head.id and one.head.id == head.id), None)
        if found is None and head.call_id:
            found = next((one for one in mine if head.call_id in one.call_ids), None)
        if found is None and mine and head.type in INERT:
            # Some servers make a new id each time.
            alike = [one for one in heads if one is not None and one.type == head.type]
            at = next(at for at, one in enumerate(alike) if one is head)
            found = mine[at] if len(alike) == len(mine) else None
        return found


def with_snapshot(data: bytes, listed: Sequence[LooseItem | None]) -> bytes:
    """Return an event that ends an answer with each item as it was given."""
    if not any(item and item.changed for item in listed):
        return data
    places = listed_places(data)
    drop = {at for at, item in enumerate(listed) if item is not None and item.dropped}
    edits = [
        Edit(*places[at], item.final)
        for at, item in enumerate(listed)
        if item is not None and item.changed and not item.dropped
    ]
    return apply(data, [*edits, *without(places, drop)])


def _doubt(*items: LooseItem) -> None:
    for one in items:
        one.doubt = one.doubt or AMBIGUOUS

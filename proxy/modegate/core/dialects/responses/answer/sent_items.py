"""The items of one continuous answer as the client has them: their indices, their ids, what has not ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from modegate.core.dialects.responses.answer import parsing
from modegate.core.dialects.responses.answer.answer_items import OutputItem
from modegate.core.dialects.responses.answer.open_item import OpenItem
from modegate.core.dialects.responses.answer.output import with_id


class SentItems:
    """Every item that went to the client, in all hops."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        """All of them, for the last snapshot."""
        self._kept = 0
        self._ids: set[str] = set()
        self._index = -1
        """The highest index of an item that went."""
        self._moves = False
        """Whether items get other indices than the upstream gave them."""
        self._hop = 0
        self._begin_hop()

    def _begin_hop(self) -> None:
        self._places: dict[OutputItem, int] = {}
        """The index of each item that has begun and not ended, as the client sees it."""
        self._begun = 0
        """Items of this hop that went."""
        self.renamed: dict[str, str] = {}
        """Item ids that an earlier hop had as well."""
        self._open: dict[OutputItem, OpenItem] = {}
        """In a later hop, what the client has of items that have not ended."""
        self._first = len(self.sent)
        self.own: list[bytes] = []
        """Items of our own in this hop."""

    def next_hop(self) -> None:
        """Take that the items of another hop follow."""
        self._hop += 1
        self._moves = True
        self._begin_hop()

    @property
    def earlier(self) -> list[bytes]:
        """Those of earlier hops."""
        return self.sent[: self._first]

    def add_own(self, name: str, item: bytes) -> int:
        """Take an item of our own, and return its index."""
        self._moves = True
        self._index += 1
        self._keep(name, item)
        self.own.append(self.sent[-1])
        return self._index

    def index_of(self, out: OutputItem) -> int:
        """Return an item's index: the upstream's own as long as every item in front of it went."""
        if out not in self._places:
            self._moves = self._moves or out.place != self._begun
            index = self._index + 1 if self._moves else out.index
            self._places[out] = index
            self._index = max(self._index, index)
            self._begun += 1
            if self._hop and out.id in self._ids:
                self.renamed[out.id] = f"{out.id}_{self._hop + 1}"
        return self._places[out]

    def note(self, out: OutputItem, kind: str, value: dict[str, Any]) -> None:
        """Take an event of an item that goes to the client."""
        self._open.setdefault(out, OpenItem()).note(kind, value)

    def end(self, out: OutputItem) -> None:
        """Take that the client has all of an item."""
        del self._places[out]
        self._open.pop(out, None)
        name = self.renamed.get(out.id)
        self._keep(name or out.id, with_id(out.raw, name) if name else out.raw)

    def _keep(self, name: str, item: bytes) -> None:
        if name:
            self._ids.add(name)
        self._kept += len(item)
        # Over the limit there is no further hop, and so no snapshot that needs it.
        if self._kept <= parsing.MAX_KEPT:
            self.sent.append(item)

    def close(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the events that end what a hop that failed has left open: their types and members."""
        for out, unended in list(self._open.items()):
            name = self.renamed.get(out.id, out.id)
            at: dict[str, Any] = {"item_id": name, "output_index": self._places[out]}
            for kind, more in unended.ends():
                if kind == parsing.DONE:
                    del at["item_id"]
                    item = {**more["item"], "id": name}
                    more, out.raw, out.id = {"item": item}, msgspec.json.encode(item), name
                yield kind, {**at, **more}
            self.end(out)

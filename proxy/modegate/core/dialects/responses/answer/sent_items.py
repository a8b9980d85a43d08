"""The items of one continuous answer as the client has them: their indices, their ids, what has not ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from modegate.core.dialects.responses.answer import parsing
from modegate.core.dialects.responses.answer.answer_items import OutputItem
from modegate.core.dialects.responses.answer.output import with_id
from modegate.core.dialects.responses.answer.parsing import ADDED, DONE
from modegate.core.step.answer.parts import MAX_TEXT

_PARTS = {
    "response.content_part": ("content", "content_index"),
    "response.reasoning_summary_part": ("summary", "summary_index"),
}
"""Events of parts, the member of the item that holds such parts, and the key that counts them."""

_TEXTS = {
    "output_text": "response.output_text",
    "refusal": "response.refusal",
    "reasoning_text": "response.reasoning_text",
    "summary_text": "response.reasoning_summary_text",
}
"""Types of parts, and the events of their text."""

MAX_KEPT = 4 * MAX_TEXT
"""Characters kept of one item: what is over is not told again at an end of our own, as an item may have
parts without an end."""


class OpenItem:
    """What the client has of an item that its hop may never end: then we do, as the client waits for it."""

    def __init__(self) -> None:
        self._item: dict[str, Any] = {}
        self._holds: dict[str, list[dict[str, Any]]] = {}
        self._part: dict[str, Any] | None = None
        self._kind = ""
        self._pieces: list[str] = []
        self._size = 0
        self._kept = 0

    def note(self, kind: str, value: dict[str, Any]) -> None:
        """Take an event of the item that goes to the client."""
        begins, _, what = kind.rpartition(".")
        if kind == ADDED:
            self._item = value["item"]
        elif begins in _PARTS and what == "added" and isinstance(value.get("part"), dict):
            self._part, self._kind, self._pieces = value["part"], begins, []
        elif begins in _PARTS and what == "done" and self._part is not None:
            self._close(value.get("part"))
        elif what == "delta" and isinstance(value.get("delta"), str):
            self._size += len(value["delta"])
            if self._size <= MAX_TEXT:
                self._pieces.append(value["delta"])

    def _close(self, part: Any) -> None:
        member, _ = _PARTS[self._kind]
        self._kept += len(str(part))
        if self._kept <= MAX_KEPT:
            self._holds.setdefault(member, []).append(part)
        self._part = None

    def ends(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the events that end it: their types, and what they hold beside id and place."""
        if self._part is not None:
            member, counter = _PARTS[self._kind]
            at = {counter: len(self._holds.get(member, ()))}
            key = "refusal" if self._part.get("type") == "refusal" else "text"
            part = {**self._part, key: "".join(self._pieces)}
            texts = _TEXTS.get(str(part.get("type")))
            if texts is not None:
                more: dict[str, Any] = {"logprobs": []} if texts == "response.output_text" else {}
                yield f"{texts}.done", {**at, key: part[key], **more}
            yield f"{self._kind}.done", {**at, "part": part}
            self._close(part)
        yield DONE, {"item": self.item()}

    def item(self) -> dict[str, Any]:
        """Return the item as the client has it."""
        status = {"status": "completed"} if "status" in self._item else {}
        return {**self._item, **status, **self._holds}


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
        self._hop += 1
        self._moves = True
        self._begin_hop()

    @property
    def earlier(self) -> list[bytes]:
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

"""An item that a hop began and never ended, brought to an end by us, as a client waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
    """What the client has of one item."""

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

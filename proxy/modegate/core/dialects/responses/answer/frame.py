"""One event of a stream, with what was read of it and where its members stand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from modegate.core.dialects.common.strict_json import exactly
from modegate.core.dialects.responses.answer.answer_items import OutputItem
from modegate.core.dialects.responses.answer.calls import ItemCall
from modegate.core.wire.json_spans import Span, members
from modegate.core.wire.surrogates import without_lone_surrogates


@dataclass(eq=False, slots=True)
class EventFrame:
    """One frame."""

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
            found = members(without_lone_surrogates(self.data))
            self._places = {member.key: member.value for member in found}
        return self._places

"""One frame of a stream, with what was read of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from modegate.core.dialects.chat.answer import parsing
from modegate.core.dialects.chat.answer.calls import CallDeltas, call_deltas_of
from modegate.core.dialects.common.strict_json import exactly
from modegate.core.step.answer.parts import Part


@dataclass(eq=False, slots=True)
class ChatFrame:
    """One frame and its parts."""

    raw: bytes
    """Empty for an end that is written anew."""
    data: bytes
    value: dict[str, Any]
    choices: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    again: set[int] = field(default_factory=set)
    """Choices that it says whole again, under `message`, after their deltas (MiniMax)."""
    left_out: bool = False
    """Something of those is not to go again."""
    _exact: list[tuple[int, dict[str, Any]]] | None = None

    def exact(self, at: int, found: CallDeltas) -> CallDeltas:
        """Return the pieces of calls of a choice again, with halves of characters as they are."""
        if self._exact is None:
            # Read once, however many choices hold calls.
            value = exactly(self.data, self.value)
            self._exact = self.choices if value is self.value else parsing.choices_of(value)
        if self._exact is self.choices:
            return found
        _, choice = self._exact[at]
        return call_deltas_of(parsing.body_of(choice))

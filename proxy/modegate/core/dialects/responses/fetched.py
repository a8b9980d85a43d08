"""A response that was stored, fetched whole: shown under the client's id, without what was not released."""

from __future__ import annotations

import msgspec

from modegate.core.calls import Gathered
from modegate.core.dialects.responses.output import value_of
from modegate.core.dialects.responses.whole import ResponsesWhole
from modegate.core.spans import Edit, apply


class FetchedResponse:
    """One body."""

    def __init__(self, body: bytes) -> None:
        """Read it.

        Raises:
            AnswerUnreadable: it cannot be read with no doubt left.
        """
        self._whole = ResponsesWhole(body)

    @property
    def calls(self) -> list[Gathered]:
        """Its calls."""
        return self._whole.choices[0].calls

    def write(self, name: str) -> bytes:
        """Give it without the calls that were not released, under this id."""
        body = self._whole.write(before=(), closing={}, stop=frozenset(), usage=())
        span = value_of(body, "id")
        return apply(body, [Edit(*span, msgspec.json.encode(name))]) if span else body

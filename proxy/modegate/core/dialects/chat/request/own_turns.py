"""How an agent writes the turns of its model, so that those which modegate puts in are written likewise.

Only what stands up to a place counts there: else a turn that was put in would change its bytes when the agent
goes on in another way, and the provider would have to read all that follows anew (it caches by prefix).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from modegate.core.dialects.chat.answer.answer_items import THOUGHTS
from modegate.core.dialects.chat.request.parsing import calls_of
from modegate.core.step.request.request_form import Thoughts


class OwnTurns:
    """The turns of a history."""

    def __init__(self, history: Sequence[dict[str, Any]]) -> None:
        """Look at each once."""
        turns = [(at, one) for at, one in enumerate(history) if one.get("role") == "assistant"]
        shown = (at for at, one in turns if any(one.get(key) is not None for key in THOUGHTS))
        never = len(history) + 1
        self._first = next((at for at, _ in turns), never)
        self._shows = next(shown, never)
        silent = [(at, one) for at, one in turns if calls_of(one) and not one.get("content")]
        self._silent = [at for at, _ in silent]
        self._empty = [one.get("content") == "" for _, one in silent]

    def show_thoughts(self, until: int) -> Thoughts:
        """Return whether what its model thought is sent back, so that its provider takes and may want it.

        None where no turn stands up to that index, which counts too.
        """
        return None if self._first > until else self._shows <= until

    def empty(self, until: int) -> bool:
        """Return whether turns up to an index that only call have an empty text; the last of them decides."""
        before = bisect_right(self._silent, until)
        return before > 0 and self._empty[before - 1]

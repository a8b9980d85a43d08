"""Where the calls of a streamed choice stand once some of them were refused."""

from __future__ import annotations

from modegate.core.step.answer.calls import Gathered


class CallIndices:
    """The indices that a client sees of one choice's calls: each is decided once, and never given twice.

    The accumulator of OpenAI's SDK takes an index for a place in its list of calls and fails at a gap, so
    behind a refused call the others move up. A call that moves gets an index that no other has: under one
    that another call has, a client would make one call of two, which nobody has judged.
    """

    def __init__(self) -> None:
        self._calls: dict[Gathered, None] = {}
        self._given: dict[Gathered, int | None] = {}
        self._next = 0
        """Above every index that was given."""
        self._moved: set[int] = set()

    def seen(self, call: Gathered) -> None:
        """Note a call, though nothing of it may go yet."""
        # What comes behind a verdict goes nowhere, and leaves no gap.
        if call.pending:
            self._calls[call] = None

    def new(self, call: Gathered) -> int | None:
        """Return the index of a call that goes; None where it keeps what the upstream said."""
        if call not in self._given:
            self._given[call] = self._decide(call)
        return self._given[call]

    def _decide(self, call: Gathered) -> int | None:
        own = {place for place in call.places if place is not None}
        if not own:
            return None  # clients find it in other ways, which were judged together with all others
        refused = any(one.withheld for one in self._calls)
        if not refused and not own & self._moved:
            self._next = max(self._next, *(place + 1 for place in own))
            return None
        index, self._next = self._next, self._next + 1
        self._moved.add(index)
        return None if list(call.places) == [index] else index

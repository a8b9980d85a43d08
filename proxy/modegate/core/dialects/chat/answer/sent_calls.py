"""The calls of one continuous streamed answer as the client has them: under which indices, in which form."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from modegate.core.step.answer.calls import Gathered
from modegate.core.wire.json_spans import Edit, Member, elements, members, without


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


class SentCalls:
    """What became of the calls in all choices."""

    def __init__(self) -> None:
        self._indices: dict[int, CallIndices] = {}
        """By choice: where the calls of this hop stand."""
        self._written: set[Gathered] = set()
        """Calls that have gone in one piece."""

    def seen(self, call: Gathered) -> None:
        if call.kind != "legacy":
            self._indices.setdefault(call.choice, CallIndices()).seen(call)

    def next_hop(self) -> None:
        self._indices = {}

    def goes_as_it_came(self, call: Gathered) -> bool:
        """Return whether all pieces of a call go, and each under its own index."""
        return call.released and not call.rewritten and self._new_index(call) is None

    def is_due(self, call: Gathered) -> bool:
        """Return whether a piece of a call goes, or the call in its place."""
        return call.released and call not in self._written

    def edits(
        self, data: bytes, found: list[Member], calls: Sequence[Gathered], drop: set[str]
    ) -> list[Edit]:
        """Return the edits of the calls in a delta with these members; add to `drop` the members that go."""
        lists = [m.value for m in found if m.key == "tool_calls"]
        pieces = elements(data, lists[0]) if lists and data[lists[0].start] == 0x5B else []
        edits: list[Edit] = []
        gone: set[int] = set()
        for at, place in enumerate(pieces):
            call = calls[at]
            if not self.is_due(call):
                gone.add(at)
            elif call.rewritten:
                self._written.add(call)
                edits.append(Edit(*place, self._in_one_piece(call)))
            elif (index := self._new_index(call)) is not None:
                inner = members(data, place)
                edits += [Edit(*m.value, b"%d" % index) for m in inner if m.key == "index"]
        if pieces and len(gone) == len(pieces):
            drop.add("tool_calls")
            gone = set()
        if len(calls) > len(pieces) and not calls[-1].released:
            drop.add("function_call")
        return without(pieces, gone) + edits

    def _in_one_piece(self, call: Gathered) -> bytes:
        """Write a call in one piece: its own say something twice, which clients read in different ways."""
        index = self._new_index(call)
        if index is None:
            index = next(iter(call.places))
        key = "input" if call.kind == "custom" else "arguments"
        head = {"index": index, "id": call.id or None, "type": call.kind}
        body = {call.kind: {"name": call.name, key: call.arguments}}
        told = {name: value for name, value in head.items() if value is not None}
        return msgspec.json.encode({**told, **body, **call.extra})

    def _new_index(self, call: Gathered) -> int | None:
        indices = self._indices.get(call.choice)
        return None if indices is None or call.kind == "legacy" else indices.new(call)

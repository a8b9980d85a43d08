"""Withheld exchanges: recorded when a step ends, found again in the history the agent sends next.

The anchor is a pair of keys: of the item in front of the answer and of the answer as the client got
it. A history that was edited or compacted there no longer matches, and then nothing is put in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from modegate.core.calls import digest
from modegate.core.dialects.base import ChoiceRead, Item
from modegate.core.events import Segment, TurnWithheld, WithheldHop
from modegate.core.ids import StepId

MAX_BLOB = 256 * 1024
"""Bytes kept of one hop. A larger one is not stored, and then nothing of its answer is put back."""


@dataclass(slots=True)
class Recording:
    """The hops of one choice, until its answer is complete."""

    hops: list[WithheldHop] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)

    def add(self, step: StepId, choice: ChoiceRead, blob: bytes) -> None:
        """Note one hop; an empty blob is one of which nothing was withheld."""
        ref = f"{step}-{digest(blob)}" if blob else ""
        if ref and len(blob) <= MAX_BLOB:
            self.blobs[ref] = blob
        self.hops.append(WithheldHop(tuple(choice.segments()), ref))

    def event(self, step: StepId, place: tuple[str, int], answer: str) -> TurnWithheld:
        """Give the event for the whole answer."""
        before, at = place
        return TurnWithheld(step, before, answer, tuple(self.hops), at)


def match(items: Sequence[Item], withheld: Sequence[TurnWithheld]) -> dict[int, TurnWithheld]:
    """Find the answers to which something belongs, the newest turn first.

    Of several places the one where the answer stood at first, so that it stays there while the history
    grows; else the last.
    """
    places: dict[tuple[str, str], list[int]] = {}
    for index, item in enumerate(items):
        if item.answer:
            before = items[index - 1].key if index else ""
            places.setdefault((before, item.key), []).append(index)
    found: dict[int, TurnWithheld] = {}
    moved: list[TurnWithheld] = []
    for turn in reversed(withheld):
        at = places.get((turn.before, turn.answer), [])
        if turn.at in at:
            at.remove(turn.at)
            found[turn.at] = turn
        elif at:
            moved.append(turn)
    for turn in moved:
        at = places[turn.before, turn.answer]
        if at:
            found[at.pop()] = turn
    return found


def refs(found: Mapping[int, TurnWithheld]) -> tuple[str, ...]:
    """Give the stored bodies that these turns need."""
    return tuple(
        dict.fromkeys(hop.blob for turn in found.values() for hop in turn.hops if hop.blob)
    )


Found = dict[int, tuple[list[tuple[Segment, ...]], list[bytes]]]

Lost = Mapping[int, Sequence[WithheldHop]]
"""By index, the hops of turns of which a stored body is gone, so that nothing is put back."""


def lost(found: Mapping[int, TurnWithheld], ready: Mapping[int, object]) -> Lost:
    """Give the turns that were found and cannot be put back."""
    return {
        index: turn.hops
        for index, turn in found.items()
        if index not in ready and any(hop.blob for hop in turn.hops)
    }


@runtime_checkable
class Forgets(Protocol):
    """A dialect whose API takes no reasoning of which the call that it led to is gone."""

    def forget(
        self, request: Any, found: Found, notices: Mapping[int, Sequence[str]], lost: Lost
    ) -> bytes:
        """Put back what there is, and take out reasoning that nothing follows any more."""
        ...


def complete(found: Mapping[int, TurnWithheld], blobs: Mapping[str, bytes]) -> Found:
    """Give what can be put back: turns of which every stored body is still there."""
    ready: Found = {}
    for index, turn in found.items():
        needed = [hop.blob for hop in turn.hops if hop.blob]
        if needed and all(ref in blobs for ref in needed):
            ready[index] = ([hop.segments for hop in turn.hops], [blobs[ref] for ref in needed])
    return ready

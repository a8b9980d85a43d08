"""Withheld exchanges: recorded when a step ends, found again in the history the agent sends next.

The anchor is a pair of keys: of the item in front of the answer and of the answer as the client got
it. A history that was edited or compacted there no longer matches, and then nothing is put in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

import msgspec

from modegate.core.ids import StepId
from modegate.core.log.events import Segment, TurnWithheld, WithheldHop
from modegate.core.step.answer.calls import digest, other_id
from modegate.core.step.answer.parts import ChoiceRead
from modegate.core.step.dialect import AnyDialect, Item, Lost
from modegate.core.wire.json_spans import Edit, apply, quote, values_at
from modegate.core.wire.surrogates import without_lone_surrogates

MAX_BLOB = 256 * 1024
"""Bytes kept of one hop. A larger one is not stored, and then nothing of its answer is put back."""


@dataclass(slots=True)
class Recording:
    """The hops of one choice, until its answer is complete."""

    said: list[ChoiceRead] = field(default_factory=list)
    hops: list[WithheldHop] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)

    def add(self, step: StepId, choice: ChoiceRead, blob: bytes) -> None:
        """Note one hop; an empty blob is one of which nothing was withheld."""
        self.said.append(choice)
        ref = f"{step}-{digest(blob)}" if blob else ""
        if ref and len(blob) <= MAX_BLOB:
            self.blobs[ref] = blob
        self.hops.append(WithheldHop(tuple(choice.segments()), ref))

    def event(
        self, step: StepId, place: tuple[str, int], answer: str, model: str = ""
    ) -> TurnWithheld:
        before, at = place
        return TurnWithheld(step, before, answer, tuple(self.hops), at, model)


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


def notes(items: Sequence[Item], found: Mapping[int, TurnWithheld]) -> dict[int, list[str]]:
    """Find where the notes on answers stand: each in the item after its answer, its first result."""
    placed: dict[int, list[str]] = {}
    for index, turn in found.items():
        behind = (at for at in range(index + 1, len(items)) if not items[at].answer)
        if turn.note and (at := next(behind, None)) is not None:
            placed.setdefault(at, []).append(turn.note)
    return placed


def refs(found: Mapping[int, TurnWithheld]) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(hop.blob for turn in found.values() for hop in turn.hops if hop.blob)
    )


Found = dict[int, tuple[list[tuple[Segment, ...]], list[bytes]]]


def lost(found: Mapping[int, TurnWithheld], ready: Mapping[int, object]) -> Lost:
    """Return the turns that were found and cannot be put back."""
    return {
        index: turn.hops
        for index, turn in found.items()
        if index not in ready and any(hop.blob for hop in turn.hops)
    }


def unbound(
    dialect: AnyDialect, ready: Found, turns: Mapping[int, TurnWithheld], model: str
) -> Found:
    """Return what can be put back for a model: of others without what is theirs alone."""
    if (unbind := dialect.unbound) is None:
        return ready
    others = {at for at, turn in turns.items() if turn.model not in ("", model)}
    return {
        at: (hops, [unbind(one) for one in bodies] if at in others else bodies)
        for at, (hops, bodies) in ready.items()
    }


def complete(
    found: Mapping[int, TurnWithheld],
    blobs: Mapping[str, bytes],
    taken: Set[str] = frozenset(),
    id_paths: Sequence[str] = (),
) -> Found:
    """Return what can be put back: turns of which every stored body is still there.

    `taken` are ids of the client's own calls, which no withheld call may bear beside them.
    """
    ready: Found = {}
    for index, turn in found.items():
        needed = [hop.blob for hop in turn.hops if hop.blob]
        if needed and all(ref in blobs for ref in needed):
            bodies = [_apart(blobs[ref], ref, taken, id_paths) for ref in needed]
            ready[index] = ([hop.segments for hop in turn.hops], bodies)
    return ready


def _apart(blob: bytes, ref: str, taken: Set[str], id_paths: Sequence[str]) -> bytes:
    """Return a stored body in which no withheld call bears the id of a call that the client got later (S5).

    The provider would refuse this request and each later one. Only ids are touched, of calls and of our
    answers to them, and the same body gets the same ids each time.
    """
    if not taken:
        return blob
    text = without_lone_surrogates(blob)
    edits = [
        Edit(*span, quote(other_id(name, digest(ref + name))))
        for span in values_at(text, id_paths)
        if (name := msgspec.json.decode(text[span.start : span.end])) in taken
    ]
    return apply(blob, edits)

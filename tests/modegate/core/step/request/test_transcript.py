"""Where a withheld turn belongs in a history, and when nothing is put in."""

from __future__ import annotations

import pytest

from modegate.core.ids import StepId
from modegate.core.log.events import Segment, TurnWithheld, WithheldHop
from modegate.core.step.answer.calls import CallState, Gathered, digest
from modegate.core.step.answer.parts import ChoiceRead
from modegate.core.step.dialect import Item
from modegate.core.step.request.transcript import MAX_BLOB, Recording, complete, match, refs


def turn(step: str, before: str, answer: str, at: int = -1, *blobs: str) -> TurnWithheld:
    """Return a withheld turn."""
    hops = tuple(WithheldHop((), blob) for blob in blobs)
    return TurnWithheld(StepId(step), before, answer, hops, at)


def history(keys: str) -> list[Item]:
    """Return items: a small letter for a message, a capital for an answer."""
    return [Item(key, key.isupper()) for key in keys]


@pytest.mark.parametrize(("keys", "turns", "wanted"), [
    ("uA", [turn("1", "u", "A")], {1: "1"}),
    ("A", [turn("1", "", "A")], {0: "1"}),
    ("uB", [turn("1", "u", "A")], {}),
    ("vA", [turn("1", "u", "A")], {}),
    ("ua", [turn("1", "u", "a")], {}),
    ("", [turn("1", "u", "A")], {}),
    ("uAuA", [turn("1", "u", "A")], {3: "1"}),
    ("uAuA", [turn("1", "u", "A", 1)], {1: "1"}),
    ("uAuA", [turn("1", "u", "A", 9)], {3: "1"}),
    ("uAuA", [turn("1", "u", "A"), turn("2", "u", "A")], {1: "1", 3: "2"}),
    ("uAuA", [turn("1", "u", "A", 3), turn("2", "u", "A", 1)], {3: "1", 1: "2"}),
    ("uAuA", [turn("1", "u", "A", 7), turn("2", "u", "A", 3)], {1: "1", 3: "2"}),
    ("uA", [turn("1", "u", "A"), turn("2", "u", "A")], {1: "2"}),
    ("uA", [turn("1", "u", "A", 1), turn("2", "u", "A", 1)], {1: "2"}),
    ("uA", [turn("1", "u", "A", 1), turn("2", "u", "A", 5)], {1: "1"}),
    ("uAuBuA", [turn("1", "u", "B"), turn("2", "u", "A", 1)], {3: "1", 1: "2"}),
])  # fmt: skip
def test_match(keys: str, turns: list[TurnWithheld], wanted: dict[int, str]) -> None:
    """Both keys must be there; of several places the old one, else the last; of several turns the new."""
    assert {at: one.step for at, one in match(history(keys), turns).items()} == wanted


def test_refs() -> None:
    """Each body once, and none of a hop of which nothing was withheld."""
    found = {1: turn("1", "u", "A", 1, "x", "", "y"), 3: turn("2", "u", "A", 3, "x", "z")}
    assert refs(found) == ("x", "y", "z")


@pytest.mark.parametrize(("stored", "ready"), [
    ({"x": b"1", "y": b"2"}, True), ({"x": b"1"}, False), ({}, False),
])  # fmt: skip
def test_complete(stored: dict[str, bytes], ready: bool) -> None:
    """All bodies of a turn, or nothing of it."""
    found = complete({1: turn("1", "u", "A", 1, "x", "y", "")}, stored)
    assert found == ({1: ([(), (), ()], [b"1", b"2"])} if ready else {})
    assert complete({1: turn("1", "u", "A", 1, "")}, stored) == {}


def test_a_recording() -> None:
    """What the client got of each hop, and which bodies are stored."""
    recording = Recording()
    step = StepId("s")
    choice = ChoiceRead({"reasoning": ["t", "h"], "text": ["a", "bc"], "empty": []})
    calls = [Gathered(0, "function", name, state=CallState.RELEASED) for name in ("c1", "c2")]
    recording.add(step, choice, b"body")
    recording.add(
        step,
        ChoiceRead(calls=[*calls, Gathered(0, "function", "c3", state=CallState.WITHHELD)]),
        b"",
    )
    recording.add(step, ChoiceRead(), b"x" * (MAX_BLOB + 1))
    event = recording.event(step, ("before", 4), "answer")
    assert (event.before, event.answer, event.at) == ("before", "answer", 4)
    one, two, three = event.hops
    assert one.segments == (
        Segment("reasoning", 2, digest("th")),
        Segment("text", 3, digest("abc")),
    )
    assert two.segments == (Segment("calls", 2, digest("c1\nc2"), ("c1", "c2")),)  # type: ignore[arg-type]
    assert two.blob == ""
    assert recording.blobs == {one.blob: b"body"}
    # A body that is too large is named but not stored, so that its turn is never complete.
    assert three.blob

"""Streams of which the items are counted by their place: a call is judged at its end, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from modegate.core.errors import TooLarge
from modegate.core.step.answer.calls import Gathered
from modegate.core.step.answer.gate import release_all, withhold_all
from modegate.core.step.answer.hold import Hold
from modegate.core.step.answer.parts import ChoiceRead, Kind, Part
from modegate.core.wire.sse import Frame


class Reader:
    """Parts that stand ready: `t` is text, `a` a piece of call a, `A` its end, `f` a finish, `.` the end."""

    ordered = True
    usage: dict[str, Any] | None = None

    def __init__(self) -> None:
        self.named: dict[str, Gathered] = {}
        self.choice = ChoiceRead()
        self.choices = {0: self.choice}

    def read(self, frame: Frame) -> list[Part]:
        return [self.part(letter) for letter in frame.raw.decode()]

    def part(self, letter: str) -> Part:
        frame = SimpleNamespace(letter=letter)
        if letter in "tf.":
            kind = {"t": Kind.LIVE, "f": Kind.FINISH, ".": Kind.DONE}[letter]
            return Part(frame, kind, size=1)
        name = letter.lower()
        if name not in self.named:
            self.named[name] = Gathered(0, "function", name, [name])
            self.choice.calls.append(self.named[name])
        call = self.named[name]
        return Part(frame, Kind.CALL, 0, (call,), 1, ends=(call,) if letter.isupper() else ())


def run(hold: Hold, letters: str, refused: str = "") -> Iterator[str]:
    """Yield what goes after each letter."""
    for letter in letters:
        hold.take(hold.reader.read(Frame(letter.encode(), None)))
        out = hold.advance()
        while calls := hold.to_judge():
            for gathered in calls:
                (release_all if gathered.id not in refused else withhold_all)((gathered,))
            out += hold.advance()
        yield _letters(out)


def _letters(parts: Sequence[Part]) -> str:
    return "".join(part.frame.letter for part in parts)


@pytest.mark.parametrize(("letters", "refused", "out"), [
    ("tatA", "", ["t", "", "", "atA"]),
    ("tatA", "a", ["t", "", "", "t"]),
    ("aAbB", "", ["", "aA", "", "bB"]),
    ("aAbB", "a", ["", "", "", "bB"]),
    ("abAB", "", ["", "", "a", "bAB"]),
    ("abBtA", "", ["", "", "", "", "abBtA"]),
    ("abBtA", "a", ["", "", "", "", "bBt"]),
    ("abAtB", "b", ["", "", "a", "", "At"]),
    ("aAt", "", ["", "aA", "t"]),
    ("aAa", "a", ["", "", ""]),
    ("af", "", ["", "af"]),
    ("a.", "", ["", "a"]),
], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
def test_order_is_kept(letters: str, refused: str, out: list[str]) -> None:
    """What follows a held call waits; a refused one leaves no gap that anything waits behind."""
    hold = Hold(Reader(), 100, defer=False)
    assert list(run(hold, letters, refused)) == out
    assert hold.size == sum(part.size for part in hold.deferred)


def test_what_waits_is_bounded() -> None:
    """Text behind a call that never ends is counted as held."""
    hold = Hold(Reader(), 10, defer=False)
    with pytest.raises(TooLarge, match="held back"):
        list(run(hold, "a" + "t" * 20))

"""Questions on their way to the one person at a terminal: one at a time, and none that is over. Pure.

What happens goes in, and the actions to take come out. `watch` reads and writes the terminal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modegate.cli.formatting import first_words

Question = Mapping[str, Any]

TOO_SOON_S = 1.0
"""Where one question takes the place of another, a line that comes sooner was meant for the other one."""


@dataclass(frozen=True, slots=True)
class Show:
    """Show a question and ask for an answer: from now on a person sees it."""

    question: Question
    fresh: bool = True
    """It is on the screen for the first time."""


@dataclass(frozen=True, slots=True)
class Ask:
    prompt: str


@dataclass(frozen=True, slots=True)
class Say:
    """Tell the person something; `dropped` if what they have typed so far is for nothing."""

    text: str
    dropped: bool = False


@dataclass(frozen=True, slots=True)
class Leave:
    """Leave a question to others: this person sees it no longer."""

    question: Question


@dataclass(frozen=True, slots=True)
class Settle:
    question: Question
    option: str
    comment: str = ""


Action = Show | Ask | Say | Leave | Settle

ANSWER = "Your answer"
REASON = "Reason for the model"


class QuestionQueue:
    """The questions that wait, and the one in front of the person."""

    def __init__(self) -> None:
        self._waiting: dict[str, Question] = {}
        self._current: Question | None = None
        self._rejecting = False
        self._skipped: set[str] = set()
        self._ignore_until = 0.0

    def opened(self, questions: Sequence[Question], now: float) -> list[Action]:
        """Take all that is open, as a connection begins; what is not among it is over."""
        is_open = {one["id"]: one for one in questions}
        done: list[Action] = []
        if self._current is not None:
            if self._current["id"] in is_open:
                self._current = is_open[self._current["id"]]
                # The proxy of before may have taken us for gone.
                done.append(Show(self._current, fresh=False))
            else:
                done += self._over("it is over", now)
        self._waiting = {}
        for one in questions:
            self._take(one)
        if self._current is None and len(self._waiting) > 1:
            names = [f"  {one['id']}  {first_words(one)}" for one in self._waiting.values()]
            done.append(Say(f"{len(names)} questions wait:"))
            done += [Say(name) for name in names]
        return [*done, *self._make_way(now), *self._next()]

    def changed(self, question: Question, now: float) -> list[Action]:
        name = question["id"]
        if question["open"]:
            self._take(question)
            return [*self._make_way(now), *self._next()]
        self._waiting.pop(name, None)
        self._skipped.discard(name)
        if self._current is None or self._current["id"] != name:
            return []
        return [*self._over(how_it_ended(question), now), *self._next()]

    def line(self, text: str, now: float) -> list[Action]:
        question, text = self._current, text.strip()
        if question is None:
            return []
        if now < self._ignore_until:
            too_soon = Say("That came too soon to be meant for this question.")
            return [too_soon, Ask(ANSWER)]
        if self._rejecting:
            return self._settled(question, _rejection(question)["id"], text)
        chosen = keys(question).get(text)
        if text == "s":
            self._skipped.add(question["id"])
            self._current = None
            told = Say(f"left open: modegate approve {question['id']}")
            return [Leave(question), told, *self._next()]
        if chosen is None:
            names = ", ".join([*keys(question), "s"])
            return [Say(f"Error: {text!r} is not one of {names}."), Ask(ANSWER)]
        if chosen["kind"] == "reject":
            self._rejecting = True
            return [Ask(REASON)]
        return self._settled(question, chosen["id"])

    def _settled(self, question: Question, option: str, comment: str = "") -> list[Action]:
        self._current, self._rejecting = None, False
        # It is not shown again, if its answer is on its way when the next connection begins.
        self._skipped.add(question["id"])
        return [Settle(question, option, comment), *self._next()]

    def _take(self, question: Question) -> None:
        name = question["id"]
        if self._current is not None and self._current["id"] == name:
            self._current = question
        elif name not in self._skipped:
            self._waiting[name] = question

    def _make_way(self, now: float) -> list[Action]:
        """Set aside a question for which no request waits, if one waits for another: it would go on unasked.

        Not while a person writes a reason.
        """
        aside = self._current
        if aside is None or _urgent(aside) or self._rejecting:
            return []
        if not any(map(_urgent, self._waiting.values())):
            return []
        self._current, self._ignore_until = None, now + TOO_SOON_S
        self._waiting[aside["id"]] = aside
        return [Say("set aside: an agent waits for the next one", dropped=True), Leave(aside)]

    def _over(self, why: str, now: float) -> list[Action]:
        """Drop the question in front of the person: somebody else was faster."""
        self._current, self._rejecting = None, False
        self._ignore_until = now + TOO_SOON_S
        return [Say(f"settled elsewhere: {why}", dropped=True)]

    def _next(self) -> list[Action]:
        if self._current is not None or not self._waiting:
            return []
        first = next(filter(_urgent, self._waiting.values()), None)
        name = next(iter(self._waiting)) if first is None else first["id"]
        self._current = self._waiting.pop(name)
        return [Show(self._current)]


def _urgent(question: Question) -> bool:
    """Return whether a request waits for the answer, or soon goes on as if nobody were there."""
    return bool(question["status"] != "detached")


def keys(question: Question) -> dict[str, Mapping[str, Any]]:
    ways = [way for way in question["options"] if way["kind"] != "reject"]
    names = ["y"] if len(ways) == 1 else [str(n) for n in range(1, len(ways) + 1)]
    return {**dict(zip(names, ways, strict=True)), "n": _rejection(question)}


def _rejection(question: Question) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(w for w in question["options"] if w["kind"] == "reject")
    return found


def how_it_ended(question: Question) -> str:
    if "option" in question:
        return f"answered with {question['option']!r} by {question.get('by', 'somebody')}"
    return f"{question['status']}: {question.get('why', '')}".rstrip(": ")

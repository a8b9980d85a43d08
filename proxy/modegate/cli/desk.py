"""Questions on their way to the one person at a terminal: one at a time, and none that is over. Pure.

What happens goes in, what is to be done comes out; `watch` reads and writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modegate.cli.plan import first_words

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
    """Ask for a line."""

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
    """Send the person's answer."""

    question: Question
    option: str
    comment: str = ""


Do = Show | Ask | Say | Leave | Settle

ANSWER = "Your answer"
REASON = "Reason for the model"


class Desk:
    """What waits, and what lies in front of the person."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._waiting: dict[str, Question] = {}
        self._now: Question | None = None
        self._rejecting = False
        self._left: set[str] = set()
        self._deaf_until = 0.0

    def opened(self, questions: Sequence[Question], now: float) -> list[Do]:
        """Take all that is open, as a connection begins; what is not among it is over."""
        is_open = {one["id"]: one for one in questions}
        done: list[Do] = []
        if self._now is not None:
            if self._now["id"] in is_open:
                self._now = is_open[self._now["id"]]
                # The proxy of before may have taken us for gone.
                done.append(Show(self._now, fresh=False))
            else:
                done += self._over("it is over", now)
        self._waiting = {}
        for one in questions:
            self._take(one)
        if self._now is None and len(self._waiting) > 1:
            names = [f"  {one['id']}  {first_words(one)}" for one in self._waiting.values()]
            done.append(Say(f"{len(names)} questions wait:"))
            done += [Say(name) for name in names]
        return [*done, *self._make_way(now), *self._next()]

    def changed(self, question: Question, now: float) -> list[Do]:
        """Take a question that is new, or that has changed."""
        name = question["id"]
        if question["open"]:
            self._take(question)
            return [*self._make_way(now), *self._next()]
        self._waiting.pop(name, None)
        self._left.discard(name)
        if self._now is None or self._now["id"] != name:
            return []
        return [*self._over(how(question), now), *self._next()]

    def line(self, text: str, now: float) -> list[Do]:
        """Take what the person typed."""
        question, text = self._now, text.strip()
        if question is None:
            return []
        if now < self._deaf_until:
            too_soon = Say("That came too soon to be meant for this question.")
            return [too_soon, Ask(ANSWER)]
        if self._rejecting:
            return self._settled(question, _rejection(question)["id"], text)
        chosen = keys(question).get(text)
        if text == "s":
            self._left.add(question["id"])
            self._now = None
            told = Say(f"left open: modegate approve {question['id']}")
            return [Leave(question), told, *self._next()]
        if chosen is None:
            names = ", ".join([*keys(question), "s"])
            return [Say(f"Error: {text!r} is not one of {names}."), Ask(ANSWER)]
        if chosen["kind"] == "reject":
            self._rejecting = True
            return [Ask(REASON)]
        return self._settled(question, chosen["id"])

    def _settled(self, question: Question, option: str, comment: str = "") -> list[Do]:
        self._now, self._rejecting = None, False
        # It is not shown again, if its answer is on its way when the next connection begins.
        self._left.add(question["id"])
        return [Settle(question, option, comment), *self._next()]

    def _take(self, question: Question) -> None:
        name = question["id"]
        if self._now is not None and self._now["id"] == name:
            self._now = question
        elif name not in self._left:
            self._waiting[name] = question

    def _make_way(self, now: float) -> list[Do]:
        """Set aside a question for which no request waits, if one waits for another: it would go on unasked.

        Not while a person writes a reason.
        """
        aside = self._now
        if aside is None or _urgent(aside) or self._rejecting:
            return []
        if not any(map(_urgent, self._waiting.values())):
            return []
        self._now, self._deaf_until = None, now + TOO_SOON_S
        self._waiting[aside["id"]] = aside
        return [Say("set aside: an agent waits for the next one", dropped=True), Leave(aside)]

    def _over(self, why: str, now: float) -> list[Do]:
        """Drop the question in front of the person: somebody else was faster."""
        self._now, self._rejecting = None, False
        self._deaf_until = now + TOO_SOON_S
        return [Say(f"settled elsewhere: {why}", dropped=True)]

    def _next(self) -> list[Do]:
        if self._now is not None or not self._waiting:
            return []
        first = next(filter(_urgent, self._waiting.values()), None)
        name = next(iter(self._waiting)) if first is None else first["id"]
        self._now = self._waiting.pop(name)
        return [Show(self._now)]


def _urgent(question: Question) -> bool:
    """Return whether a request waits for the answer, or soon goes on as if nobody were there."""
    return bool(question["status"] != "detached")


def keys(question: Question) -> dict[str, Mapping[str, Any]]:
    """Return what can be typed, and the option that it means."""
    ways = [way for way in question["options"] if way["kind"] != "reject"]
    names = ["y"] if len(ways) == 1 else [str(n) for n in range(1, len(ways) + 1)]
    return {**dict(zip(names, ways, strict=True)), "n": _rejection(question)}


def _rejection(question: Question) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(w for w in question["options"] if w["kind"] == "reject")
    return found


def how(question: Question) -> str:
    """Say how a question ended."""
    if "option" in question:
        return f"answered with {question['option']!r} by {question.get('by', 'somebody')}"
    return f"{question['status']}: {question.get('why', '')}".rstrip(": ")

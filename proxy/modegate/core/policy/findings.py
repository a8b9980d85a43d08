"""What is found of a condition on an argument, and what all forms of condition have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from modegate.core.argument.javascript import InnerCall
    from modegate.core.argument.shell.programs import Programs


class Answer(Enum):
    """What is found of a condition."""

    MET = auto()
    UNMET = auto()
    UNCLEAR = auto()
    """The value is of another type than the form reads, or is not understood completely."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An answer, and why: a phrase that can follow the argument's name and a colon.

    One that is `MET` says why only under `not`: what the argument would have to be.
    """

    answer: Answer
    why: str = ""


MET = Finding(Answer.MET)


def unmet(why: str) -> Finding:
    return Finding(Answer.UNMET, why)


def unclear(why: str) -> Finding:
    return Finding(Answer.UNCLEAR, why)


def all_of(findings: Iterable[Finding]) -> Finding:
    """Return what is found of several values, each of which must meet one condition.

    Where some do and some do not, neither "it is met" nor "it is not" would be right for a `deny`.
    """
    found = list(findings)
    wrong = [one for one in found if one.answer is not Answer.MET]
    if not wrong:
        return next((one for one in found if one.why), MET)
    vague = next((one for one in wrong if one.answer is Answer.UNCLEAR), None)
    return vague or (unclear(wrong[0].why) if len(wrong) < len(found) else wrong[0])


MOST_WORDS = 4096
"""Words of all shell commands of one step, each of which takes some 0.03 ms.

32 characters count as one more, two of a program that calls tools as well.
"""


class Commands(dict[str, str]):
    """What was found of commands so far, in one mode and one step: many calls may have many of them."""

    def __init__(self) -> None:
        super().__init__()
        self.words = 0
        self.programs: dict[str, tuple[InnerCall, ...] | str] = {}
        """The calls of each program that was read, or why it is not understood."""

    def may_read(self, words: int) -> bool:
        """Count words that are to be read; return whether they are not too many."""
        self.words += words
        return self.words <= MOST_WORDS


class Scope(Protocol):
    """What a condition may ask of the mode that it stands in, and of the call."""

    @property
    def programs(self) -> Programs:
        """What is known of each program that a shell command can run."""

    @property
    def commands(self) -> Commands:
        """What was found of commands so far: several rules, and several calls, may ask the same."""

    def why_not_released(self, call: InnerCall) -> str:
        """Return why a call that a program makes is not released; empty if it is."""


class Condition(Protocol):
    """One form of condition."""

    def judge(self, value: Any, scope: Scope) -> Finding:
        """Judge one value of an argument that is there."""

    def written(self) -> Mapping[str, Any]:
        """Return the condition as the file has it, for the policy's hash."""


def not_a(kind: str, value: Any) -> Finding:
    """Say that a value is of another type; null stands for what is left out, so that is known."""
    return unmet(f"must be {kind}") if value is None else unclear(f"must be {kind}")

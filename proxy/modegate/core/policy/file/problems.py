"""What is wrong with a policy file: every problem at once, each with its line and what was found there.

A file with a problem is not used. A file with a warning is used, but says something that cannot be meant.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to mend, or to look at."""

    path: str
    """Where in the document: `modes.plan.tools[2]`; empty for the document itself."""
    line: int
    """Counted from 1; 0 where no line is to blame, as when the file is missing."""
    message: str
    found: str = ""
    """What was read there, shortened; empty where that says nothing."""

    def __str__(self) -> str:
        """One line for a log or a terminal."""
        where = ", ".join(filter(None, (f"line {self.line}" if self.line else "", self.path)))
        found = f" (found {self.found})" if self.found else ""
        return f"{where}: {self.message}{found}" if where else f"{self.message}{found}"


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Sort by line; what an alias or a merge key shows twice is told once."""
    unique = {(p.line, p.message, p.found): p for p in reversed(list(problems))}
    return tuple(sorted(unique.values(), key=lambda p: (p.line, p.path)))


class PolicyProblems(ValueError):
    """A policy that cannot be used; `problems` lists all that is wrong with it, in the file's order.

    Never shown to a model's client: whoever loads a policy prints it or keeps the last good one.
    """

    def __init__(self, problems: Iterable[Problem], warnings: Iterable[Problem] = ()) -> None:
        self.problems = in_order(problems)
        self.warnings = in_order(warnings)
        """What else to look at."""
        super().__init__("\n".join(str(problem) for problem in self.problems))

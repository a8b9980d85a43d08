"""Text from outside on its way to a terminal or a log: it is data, and must not control the terminal."""

from __future__ import annotations

from pathlib import Path

from modegate.core.policy.file.problems import Problem


def printable(text: str) -> str:
    """Return the text with control, bidirectional and other invisible characters and line ends as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def problem_line(path: Path, problem: Problem, kind: str = "") -> str:
    """Return a problem as compilers do, so that editors can jump to it: `FILE:LINE: KIND: PLACE: MESSAGE`."""
    place = f"{path}:{problem.line}" if problem.line else str(path)
    where = ": ".join(filter(None, (place, kind, problem.path)))
    found = f" (found {problem.found})" if problem.found else ""
    return printable(f"{where}: {problem.message}{found}")

"""Where an argument stands in a call, as `when` names it: `path`, `options.force`, `edits[].file_path`.

A dot leads into an object, and `[]` behind a name stands for each entry of a list. A backslash takes a dot, a
bracket or a backslash for itself: `a\\.b` is an argument whose name has a dot.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from functools import lru_cache
from typing import Any

from modegate.core.policy.findings import Finding, unclear

MAX_STEPS = 8
"""Names and `[]` in one path; the deepest of an agent's tool that is known has three."""
MAX_VALUES = 1024
"""Values that one path may stand for in one call."""


class Mark(Enum):
    """What is no name or no value."""

    EACH = auto()
    """A step of a path: each entry of a list."""
    MISSING = auto()
    """The argument is not there."""
    IN_NULL = auto()
    """What it would stand in is null."""
    IN_EMPTY = auto()
    """What it would stand in is a list without entries."""


Step = str | Mark
Path = tuple[Step, ...]

_STEP = re.compile(r"((?:[^\\.\[\]]|\\.)+)((?:\[\])*)(\.|\Z)", re.DOTALL)


@lru_cache(maxsize=4096)
def parse_path(text: str) -> Path:
    """Read a path.

    Raises:
        ValueError: it is none; the message says what is wrong with it.
    """
    steps: list[Step] = []
    at, joined = 0, True
    while joined:
        match = _STEP.match(text, at)
        if match is None:
            raise ValueError(
                "is no path of an argument: write `name`, `name.inner` or `name[].inner`, "
                r"and `\.` for a dot in a name"
            )
        steps.append(re.sub(r"\\(.)", r"\1", match[1], flags=re.DOTALL))
        steps += [Mark.EACH] * (len(match[2]) // 2)
        at, joined = match.end(), match[3] == "."
    if len(steps) > MAX_STEPS:
        raise ValueError(f"is a path of more than {MAX_STEPS} names and []")
    return tuple(steps)


def written(path: Sequence[Step]) -> str:
    """Return the text that `parse_path` reads as this path."""
    text = ""
    for step in path:
        if isinstance(step, Mark):
            text += "[]"
        else:
            text += ("." if text else "") + re.sub(r"[\\.\[\]]", r"\\\g<0>", step)
    return text


def values_at(path: Path, arguments: Mapping[str, Any]) -> list[Any] | Finding:
    """Return all values that a path stands for, marks among them; or why it cannot stand for any.

    Each value has its own mark: one entry that is null says nothing of those beside it.
    """
    reached: list[Any] = [arguments]
    for step in path:
        found: list[Any] = []
        for value in reached:
            if isinstance(value, Mark):
                found.append(value)
            elif value is None:
                found.append(Mark.IN_NULL)
            elif isinstance(step, Mark):
                if not isinstance(value, list | tuple):
                    return unclear("stands in what must be a list")
                found += value or [Mark.IN_EMPTY]
            elif isinstance(value, Mapping):
                found.append(value.get(step, Mark.MISSING))
            else:
                return unclear("stands in what must be an object")
        if len(found) > MAX_VALUES:
            return unclear(f"has more than {MAX_VALUES} entries")
        reached = found
    return reached

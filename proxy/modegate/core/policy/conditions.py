"""The conditions of a rule on a call's arguments, and whether they are met.

A new form of condition is a field of `Condition`, a case of `Condition.met_by`, and its key in `modes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modegate.core.policy.names import glob_matches
from modegate.core.wire.arguments import spelling


@dataclass(frozen=True, slots=True)
class Condition:
    """What one argument must be: `one_of` or `glob` if set, else `equals` (where None means null)."""

    equals: Any = None
    one_of: tuple[Any, ...] | None = None
    glob: str | None = None

    def met_by(self, value: Any) -> bool:
        if self.glob is not None:
            return isinstance(value, str) and glob_matches(self.glob, value)
        if self.one_of is not None:
            return any(_same(wanted, value) for wanted in self.one_of)
        return _same(self.equals, value)


@dataclass(frozen=True, slots=True)
class When:
    """Conditions on the arguments; an argument without one means no match, unless `others_any`."""

    conditions: Mapping[str, Condition]
    others_any: bool = False

    def met_by(self, arguments: Mapping[str, Any] | None) -> bool:
        """Return whether the arguments can be read and meet every condition."""
        if arguments is None or not (self.others_any or arguments.keys() <= self.conditions.keys()):
            return False
        return all(
            name in arguments and condition.met_by(arguments[name])
            for name, condition in self.conditions.items()
        )

    def doubtful_for(self, arguments: Mapping[str, Any] | None) -> bool:
        """Return whether an argument with a condition cannot be read, or has its name in another spelling.

        Some programs, such as those in Go, take `Path` for `path`.
        """
        if arguments is None:
            return True
        known = self.conditions
        return not arguments.keys() <= known.keys() and not set(map(spelling, known)).isdisjoint(
            spelling(key) for key in arguments if key not in known
        )


def _same(wanted: Any, value: Any) -> bool:
    """Compare as JSON does: 1 and 1.0 are one number; true is not 1, and "1" is not 1."""
    if isinstance(wanted, bool) or isinstance(value, bool):
        return wanted is value
    if isinstance(wanted, int | float) and isinstance(value, int | float):
        return wanted == value
    return type(wanted) is type(value) and bool(wanted == value)

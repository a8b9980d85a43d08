"""The forms of a condition that compare an argument's value.

A form is a frozen dataclass, and its reader is in `file.conditions`. Its answer has three values, so that
what is not understood opens nothing: it is no "yes" for `allow`, no "no" for `deny` and `ask`, and stays
what it is under `not`. The forms that read what a value says are in `understood`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from modegate.core.argument.globs import glob_matches
from modegate.core.argument.understanding import NotUnderstood
from modegate.core.policy.findings import (
    MET,
    Answer,
    Condition,
    Finding,
    Scope,
    not_a,
    unclear,
    unmet,
)

MAX_WORK = 2**24
"""Characters that the globs of one condition look at: a text's length times their number."""


@dataclass(frozen=True, slots=True)
class Equals:
    """`equals`: exactly this; None means null."""

    value: Any = None

    def judge(self, value: Any, scope: Scope) -> Finding:
        return _compared((self.value,), value, f"must be {_shown(self.value)}")

    def written(self) -> Mapping[str, Any]:
        return {"equals": self.value}


@dataclass(frozen=True, slots=True)
class OneOf:
    """`one_of`: exactly one of these."""

    values: tuple[Any, ...]

    def judge(self, value: Any, scope: Scope) -> Finding:
        return _compared(self.values, value, f"must be one of {_listed(map(_shown, self.values))}")

    def written(self) -> Mapping[str, Any]:
        return {"one_of": self.values}


@dataclass(frozen=True, slots=True)
class Glob:
    """`glob`: a string that one of these globs matches whole."""

    patterns: tuple[str, ...]

    def judge(self, value: Any, scope: Scope) -> Finding:
        if not isinstance(value, str):
            return not_a("a string", value)
        if len(value) * len(self.patterns) > MAX_WORK:
            return unclear("is too long")
        if any(glob_matches(pattern, value) for pattern in self.patterns):
            return MET
        return unmet(f"must match {_listed(map(_shown, self.patterns))}")

    def written(self) -> Mapping[str, Any]:
        return {"glob": self.patterns[0] if len(self.patterns) == 1 else self.patterns}


@dataclass(frozen=True, slots=True)
class Matches:
    """`matches`: a string that this regular expression matches whole."""

    pattern: str

    def judge(self, value: Any, scope: Scope) -> Finding:
        if not isinstance(value, str):
            return not_a("a string", value)
        from modegate.core.argument.expression import compiled

        try:
            if compiled(self.pattern).fullmatch(value):
                return MET
        except NotUnderstood as error:
            return unclear(str(error))
        return unmet(f"must match the expression {_shown(self.pattern)}")

    def written(self) -> Mapping[str, Any]:
        return {"matches": self.pattern}


@dataclass(frozen=True, slots=True)
class Range:
    """`range`: a number within these bounds, which belong to it; None means no bound."""

    least: float | None = None
    most: float | None = None

    def judge(self, value: Any, scope: Scope) -> Finding:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return not_a("a number", value)
        if self.least is not None and not value >= self.least:
            return unmet(f"must be {self.least} at least")
        if self.most is not None and not value <= self.most:
            return unmet(f"must be {self.most} at most")
        return MET

    def written(self) -> Mapping[str, Any]:
        bounds = {"min": self.least, "max": self.most}
        return {"range": {key: bound for key, bound in bounds.items() if bound is not None}}


@dataclass(frozen=True, slots=True)
class Absent:
    """`absent`: the argument is not there. `When` finds that; where it is there, this is not met."""

    def judge(self, value: Any, scope: Scope) -> Finding:
        return unmet("must be left out")

    def written(self) -> Mapping[str, Any]:
        return {"absent": True}


@dataclass(frozen=True, slots=True)
class Not:
    """`not`: the argument is there, and is understood, and does not meet the other condition."""

    condition: Condition

    def judge(self, value: Any, scope: Scope) -> Finding:
        found = self.condition.judge(value, scope)
        if found.answer is Answer.MET:
            return unmet("has a value that is excepted")
        return Finding(Answer.MET, found.why) if found.answer is Answer.UNMET else found

    def written(self) -> Mapping[str, Any]:
        return {"not": self.condition.written()}


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _listed(shown: Iterable[str]) -> str:
    *first, last = (*shown,)
    return f"{', '.join(first)} or {last}" if first else last


def _compared(wanted: tuple[Any, ...], value: Any, why: str) -> Finding:
    """Compare a value; one of another type is not clear, as a lenient program takes "true" for true."""
    if any(_same(one, value) for one in wanted):
        return MET
    kinds = {_kind(one) for one in wanted if one is not None}
    return unmet(why) if value is None or not kinds or _kind(value) in kinds else unclear(why)


def _kind(value: Any) -> type:
    return float if type(value) is int else type(value)


def _same(wanted: Any, value: Any) -> bool:
    """Compare as JSON does: 1 and 1.0 are one number; true is not 1, and "1" is not 1."""
    if isinstance(wanted, bool) or isinstance(value, bool):
        return wanted is value
    if isinstance(wanted, int | float) and isinstance(value, int | float):
        return wanted == value
    return type(wanted) is type(value) and bool(wanted == value)

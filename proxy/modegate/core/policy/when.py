"""What `when` says of a call's arguments: its conditions, and which other arguments may be there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from modegate.core.argument.understanding import quoted
from modegate.core.policy.argument_path import (
    MAX_VALUES,
    Mark,
    Path,
    Step,
    parse_path,
    values_at,
    written,
)
from modegate.core.policy.conditions import Absent
from modegate.core.policy.findings import (
    MET,
    Answer,
    Condition,
    Finding,
    Scope,
    all_of,
    unclear,
    unmet,
)
from modegate.core.wire.arguments import spelling

MAX_TEXT = 1 << 20
"""Characters of all values of a path into a list: each may be a command or a patch, which takes its time."""
WORD = 16
"""Characters that a word counts more than it has, where a value is a list: a command of a thousand words."""

_LACKING = unmet("is not there")


@dataclass(frozen=True, slots=True)
class Match:
    """How a call's arguments stand to a `when`."""

    conditions: Finding
    """Of all conditions together."""
    met: int = 0
    """How many of them are met."""
    others: str = ""
    """Why an argument must not be there that has no condition; looked for if the conditions are met."""
    lacking: int = 0
    """How many arguments are not there and must be: the rule is likely about another agent's tool."""


@dataclass(frozen=True, slots=True)
class When:
    """Conditions on the arguments, by the path of each; and which other arguments may be there."""

    conditions: Mapping[str, Condition]
    others_any: bool = False
    """Whether all others may be there."""
    others: tuple[str, ...] | None = None
    """Paths of others that may be there, each with all that is in it; None: nothing was written."""
    optional: tuple[str, ...] = ()
    """Those of the conditions that are met where the argument is not there."""

    def match(self, arguments: Mapping[str, Any] | None, scope: Scope) -> Match:
        """Compare a call's arguments; None stands for some that cannot be read."""
        if arguments is None:
            return Match(unclear("the arguments cannot be read"))
        known = _known(tuple(self.conditions), self.others or ())
        if twin := next(_twins(known, arguments), ""):
            return Match(unclear(twin))
        found = {path: self._judged(path, arguments, scope) for path in self.conditions}
        wrong = [(path, one) for path, one in found.items() if one.answer is not Answer.MET]
        strays = () if self.others_any or wrong else _strays(known, arguments)
        met = len(found) - len(wrong)
        lacking = sum(one is _LACKING for _, one in wrong)
        conditions = _worst(wrong) if wrong else _all_met(found)
        return Match(conditions, met, next(iter(strays), ""), lacking)

    def _judged(self, path: str, arguments: Mapping[str, Any], scope: Scope) -> Finding:
        values = values_at(parse_path(path), arguments)
        if isinstance(values, Finding):
            return values
        if len(values) > 1 and sum(map(_size, values)) > MAX_TEXT:
            return unclear("is too long")
        condition = self.conditions[path]
        may_lack = path in self.optional or isinstance(condition, Absent)
        return all_of(_judged(value, condition, scope, may_lack=may_lack) for value in values)

    def meaning(self) -> dict[str, Any]:
        """Return what the policy's hash is made of; a key that is newer counts only where it is written."""
        content: dict[str, Any] = {
            "conditions": {
                path: _meaning(self.conditions[path]) for path in sorted(self.conditions)
            },
            "others_any": self.others_any,
        }
        if self.others:
            content["others"] = sorted(self.others)
        if self.optional:
            content["optional"] = sorted(self.optional)
        return content


def _size(value: Any) -> int:
    if isinstance(value, list | tuple):
        return sum(WORD + (len(one) if isinstance(one, str) else 0) for one in value)
    return len(value) if isinstance(value, str) else 0


def _judged(value: Any, condition: Condition, scope: Scope, *, may_lack: bool) -> Finding:
    """Judge one value; where it may be left out, null could mean that it is."""
    if value is Mark.MISSING:
        return MET if may_lack else _LACKING
    if value is Mark.IN_EMPTY:
        return unmet("stands in a list without entries")
    found = (
        unmet("stands in what is null") if value is Mark.IN_NULL else condition.judge(value, scope)
    )
    if may_lack and (value is None or value is Mark.IN_NULL) and found.answer is Answer.UNMET:
        return unclear(f"{found.why}, and null may mean that it is left out")
    return found


def _meaning(condition: Condition) -> Mapping[str, Any]:
    """Return a condition as the first hashes had it: all three forms of that time, in this order."""
    said = condition.written()
    first: dict[str, Any] = {"equals": None, "one_of": None, "glob": None}
    return {**first, **said} if first.keys() >= said.keys() else said


def _worst(wrong: Iterable[tuple[str, Finding]]) -> Finding:
    """Return what is found of all conditions where some are not met: one that surely is not settles it."""
    named = [Finding(one.answer, f"argument {quoted(path)}: {one.why}") for path, one in wrong]
    surely = next((one for one in named if one.answer is Answer.UNMET), None)
    return surely or named[0]


def _all_met(found: Mapping[str, Finding]) -> Finding:
    """Say which conditions are met, for what is told of a `deny`."""
    for path, one in found.items():
        if one.why:
            return Finding(Answer.MET, f"argument {quoted(path)}: {one.why}")
    paths = ", ".join(quoted(path) for path in found)
    return Finding(Answer.MET, f"because of argument {paths}" if paths else "")


@dataclass(slots=True)
class _Known:
    """What a `when` knows of one place in the arguments."""

    inner: dict[Step, _Known] = field(default_factory=dict)
    whole: bool = False
    """It has a condition, or stands in `others`: what is in it is not looked at."""
    judged: bool = False
    """A condition is here or further in."""
    spelled: dict[str, str] = field(default_factory=dict)
    """The names in here that lead to a condition, by their most lenient spelling."""


@lru_cache(maxsize=4096)
def _known(conditions: tuple[str, ...], others: tuple[str, ...]) -> _Known:
    root = _Known()
    for text in (*conditions, *others):
        place = root
        for step in parse_path(text):
            if isinstance(step, str) and text in conditions:
                place.spelled[spelling(step)] = step
            place = place.inner.setdefault(step, _Known())
            place.judged = place.judged or text in conditions
        place.whole = True
    return root


def _twins(known: _Known, value: Any, path: Path = ()) -> Iterator[str]:
    """Find arguments whose name is that of one with a condition, in another spelling.

    Some programs, such as those in Go, take `Path` for `path`. A list that is too long for any
    condition is not searched.
    """
    if isinstance(value, list | tuple) and len(value) > MAX_VALUES:
        return
    for place, entry, inner in _entries(known, value, path):
        step = inner[-1]
        if place is not None:
            if place.judged:
                yield from _twins(place, entry, inner)
        elif isinstance(step, str) and (meant := known.spelled.get(spelling(step))):
            yield f"argument {quoted(written(inner))} is another spelling of {quoted(meant)}"


def _strays(known: _Known, value: Any, path: Path = ()) -> Iterator[str]:
    """Find arguments that have neither a condition nor a place in `others`."""
    if known.whole:
        return
    if path and not _walked(known, value):
        yield f"argument {quoted(written(path))} must not be there"
    for place, entry, inner in _entries(known, value, path):
        if place is None:
            yield f"argument {quoted(written(inner))} must not be there"
        else:
            yield from _strays(place, entry, inner)


def _walked(known: _Known, value: Any) -> bool:
    """Return whether a value is what the paths through it take it for: an object, or a list."""
    if isinstance(value, list | tuple):
        return Mark.EACH in known.inner
    return isinstance(value, Mapping) and any(step is not Mark.EACH for step in known.inner)


def _entries(
    known: _Known, value: Any, path: Path
) -> Iterator[tuple[_Known | None, Any, tuple[Step, ...]]]:
    """Walk the members of an object, or the entries of a list that is known to be looked into."""
    if isinstance(value, Mapping):
        for name, member in value.items():
            yield known.inner.get(name), member, (*path, name)
    elif isinstance(value, list | tuple) and Mark.EACH in known.inner:
        for entry in value:
            yield known.inner[Mark.EACH], entry, (*path, Mark.EACH)

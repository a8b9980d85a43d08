"""How `when` is read from policies.yaml: its conditions, and which other arguments may be there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from modegate.core.policy.argument_path import parse_path
from modegate.core.policy.conditions import (
    Absent,
    Equals,
    Glob,
    Matches,
    Not,
    OneOf,
    Range,
)
from modegate.core.policy.file.document import YamlValue, suggestion
from modegate.core.policy.file.schema import (
    SCALAR,
    TEXT,
    Field,
    Form,
    Reader,
    Section,
    choice,
    listed,
    one_or_more,
)
from modegate.core.policy.findings import Condition
from modegate.core.policy.understood import Calls, PatchUnder, ReadOnly, Under
from modegate.core.policy.when import When

MAX_CONDITIONS = 64
"""Conditions of one rule."""
MAX_LISTED = 1024
"""Entries of a list in `when`: values, globs, names, folders."""

CONDITION: Form = {"$ref": "#/definitions/condition"}
"""Stands for what a condition is, since one may stand within another."""

Read = Callable[[YamlValue], Any]


def read_when(value: YamlValue) -> When | None:
    """Read the conditions of a rule."""
    arguments = value.mapping()
    if arguments is None:
        return None
    others, optional = arguments.pop("others", None), arguments.pop("optional", None)
    if not arguments:
        value.problem("needs a condition on at least one argument")
    if len(arguments) > MAX_CONDITIONS:
        value.problem(f"has more than {MAX_CONDITIONS} conditions")
        return None
    read = {
        path: condition
        for path, argument in arguments.items()
        if (condition := _condition(argument)) is not None and _is_path(argument, path)
    }
    any_other = others is not None and others.plain() == "any"
    return When(
        read,
        any_other,
        _others(others, arguments) if others is not None and not any_other else None,
        _optional(optional, arguments) if optional is not None and arguments else (),
    )


def _is_path(value: YamlValue, path: str) -> bool:
    """Check the name behind which a condition stands."""
    try:
        parse_path(path)
    except ValueError as error:
        value.key_problem(str(error))
        return False
    return True


def _others(value: YamlValue, conditions: dict[str, YamlValue]) -> tuple[str, ...]:
    if value.plain() is not None:
        value.problem(
            "'others' says which arguments may be there that have no condition: "
            "'any', or a list of their names"
        )
        return ()
    names = _listed(value, YamlValue.string, empty=True)
    for name, entry in names:
        if _is_path(entry, name) and name in conditions:
            entry.problem("has a condition; 'others' lists arguments that have none")
    return tuple(name for name, _ in names)


def _optional(value: YamlValue, conditions: dict[str, YamlValue]) -> tuple[str, ...]:
    names = _listed(value, YamlValue.string)
    for name, entry in names:
        if name not in conditions:
            entry.problem(
                "has no condition; 'optional' lists arguments with a condition that may be left out, "
                f"and 'others' those without one; {suggestion(name, conditions)}"
            )
        elif "absent" in (conditions[name].mapping() or ()):
            entry.problem("has the condition 'absent', which it meets by being left out")
    return tuple(name for name, _ in names)


def _listed(value: YamlValue, read: Read, *, empty: bool = False) -> list[tuple[Any, YamlValue]]:
    """Read the entries of a list, each with its place; what has a problem is left out."""
    entries = value.sequence(empty=empty) or []
    if len(entries) > MAX_LISTED:
        value.problem(f"has more than {MAX_LISTED} entries")
        return []
    return [(found, entry) for entry in entries if (found := read(entry)) is not None]


def _condition(value: YamlValue) -> Condition | None:
    if not value.is_mapping():
        value.problem("must be a condition, such as {equals: …} or {glob: …}")
        return None
    values = _CONDITION.open(value) or {}
    form = _CONDITION.one_of(value, values, _CONDITION.keys)
    return _CONDITION.read(values).get(form) if form else None


def _equals(value: YamlValue) -> Equals | None:
    scalar = value.json_scalar()
    return None if scalar is None else Equals(*scalar)


def _one_of(value: YamlValue) -> OneOf | None:
    found = tuple(scalar for (scalar,), _ in _listed(value, YamlValue.json_scalar))
    return OneOf(found) if found else None


def _glob(value: YamlValue) -> Glob | None:
    patterns = _strings(value)
    return Glob(tuple(pattern for pattern, _ in patterns)) if patterns else None


def _strings(value: YamlValue) -> list[tuple[str, YamlValue]]:
    """Read a string, or a list of them, each with its place."""
    if value.is_sequence():
        return _listed(value, YamlValue.string)
    text = value.string()
    return [] if text is None else [(text, value)]


def _word(word: str, condition: Condition) -> Reader[Condition | None]:
    """Return a reader of a form that so far takes one word alone."""

    chosen = choice(word)
    return Reader(lambda value: condition if chosen(value) else None, chosen.form)


def _absent(value: YamlValue) -> Absent | None:
    if value.plain() == "true":
        return Absent()
    value.problem("must be true; for an argument that must be there write a condition on its value")
    return None


def _not(value: YamlValue) -> Not | None:
    inner = value.mapping() or {}
    if len(inner) == 1 and (key := next(iter(inner))) in _NO_NOT:
        inner[key].key_problem(_NO_NOT[key])
        return None
    condition = _condition(value)
    return None if condition is None else Not(condition)


_UNDERSTOOD = (
    "cannot stand under not: that a command is not understood says nothing of it; "
    "write a rule without this condition behind the one that allows"
)
_NO_NOT = {
    "not": "cannot stand under not: write what it negates",
    "absent": "cannot stand under not: an argument with any condition must be there",
    "shell": _UNDERSTOOD,
    "calls": _UNDERSTOOD,
}


def _bound(value: YamlValue) -> float | None:
    scalar = value.json_scalar()
    if scalar is None:
        return None
    (number,) = scalar
    if isinstance(number, bool) or not isinstance(number, int | float):
        value.problem("must be a number")
        return None
    return number


_BOUND = Reader(_bound, {"type": "number"})
_RANGE = Section(
    "modes.*.tools[].when.*.range",
    Field("min", _BOUND, about="The least number that it may be."),
    Field("max", _BOUND, about="The greatest number that it may be."),
)


def _range(value: YamlValue) -> Range | None:
    found = _RANGE.read(_RANGE.open(value) or {})
    least, most = found.get("min"), found.get("max")
    if value.is_mapping() and not (value.mapping() or {}):
        value.problem("needs min, max or both")
    if least is not None and most is not None and least > most:
        value.problem("can never be met: min is greater than max")
    return Range(least, most) if found else None


def _matches(value: YamlValue) -> Matches | None:
    from modegate.core.argument.expression import compiled

    pattern = value.string()
    if pattern is None:
        return None
    try:
        compiled(pattern)
    except ValueError as error:
        value.problem(str(error))
        return None
    return Matches(pattern)


def _folders(value: YamlValue) -> tuple[str, ...] | None:
    from modegate.core.argument.path import problem

    folders = _strings(value)
    for folder, place in folders:
        if wrong := problem(folder):
            place.problem(f"is no folder that a path can be in: {wrong}")
    return tuple(folder for folder, _ in folders) or None


_TEXTS = one_or_more(TEXT)
_FOLDERS = Reader(_folders, _TEXTS)
_PATH = Section(
    "modes.*.tools[].when.*.path",
    Field("under", _FOLDERS, required=True, about="Folders; the path must be in one of them."),
)
_PATCH = Section(
    "modes.*.tools[].when.*.patch",
    Field("under", _FOLDERS, required=True, about="Folders; each file must be in one of them."),
)


def _path(value: YamlValue) -> Under | None:
    folders = _PATH.read(_PATH.open(value) or {}).get("under")
    return Under(folders) if folders else None


def _patch(value: YamlValue) -> PatchUnder | None:
    folders = _PATCH.read(_PATCH.open(value) or {}).get("under")
    return PatchUnder(folders) if folders else None


_CONDITION = Section(
    "modes.*.tools[].when.*",
    Field("equals", Reader(_equals, SCALAR), about="Exactly this value."),
    Field("one_of", Reader(_one_of, listed(SCALAR)), about="One of these values."),
    Field("glob", Reader(_glob, _TEXTS), about="A text that one of these globs matches whole."),
    Field(
        "matches", Reader(_matches, TEXT), about="A text that this RE2 expression matches whole."
    ),
    Field("range", Reader(_range, _RANGE.form()), about="A number within bounds."),
    Field("shell", _word("read-only", ReadOnly()), about="A command that surely only reads."),
    Field("calls", _word("javascript", Calls()), about="A program whose calls are all released."),
    Field("path", Reader(_path, _PATH.form()), about="A path below one of these folders."),
    Field("patch", Reader(_patch, _PATCH.form()), about="A patch of files below these folders."),
    Field("absent", Reader(_absent, {"const": True}), about="The argument is left out."),
    Field("not", Reader(_not, CONDITION), about="The argument is there and does not meet this."),
)
"""The forms of condition, by their keys."""
CONDITION_FORM: Form = {**_CONDITION.form(), "minProperties": 1, "maxProperties": 1}
"""What `CONDITION` refers to."""
WHEN_FORM: Form = {
    "type": "object",
    "minProperties": 1,
    "properties": {
        "others": {
            "description": "Which arguments may be there that have no condition.",
            "anyOf": [{"const": "any"}, {"type": "array", "items": TEXT}],
        },
        "optional": {
            "description": "Which arguments with a condition may be left out.",
            **listed(TEXT),
        },
    },
    "additionalProperties": CONDITION,
}
"""What `read_when` takes."""

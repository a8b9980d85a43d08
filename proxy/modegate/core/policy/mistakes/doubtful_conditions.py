"""Conditions on arguments that no known tool has, or that no value of theirs can meet.

Only rules that name one known tool are looked at. What it may take is that of all agents with such a tool.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from modegate.core.policy.argument_path import Mark, parse_path
from modegate.core.policy.findings import Condition
from modegate.core.policy.mistakes.dead_rules import Finding, named
from modegate.core.policy.mistakes.doubtful_names import near
from modegate.core.policy.mistakes.known_tools import Argument, known_tools
from modegate.core.policy.model import Rule

_TEXT = frozenset({"string"})
_TAKES = {
    "glob": _TEXT,
    "matches": _TEXT,
    "path": _TEXT,
    "patch": _TEXT,
    "calls": _TEXT,
    "shell": frozenset({"string", "array"}),
    "range": frozenset({"integer", "number"}),
}
"""The JSON types whose values can meet a form of condition."""
_HOLDS = {
    "shell": ("c", "a command"),
    "calls": ("j", "a program in JavaScript"),
    "patch": ("p", "a patch"),
}
"""What a text must be for a form that reads it, as the table of tools has it."""
_ARTICLES = {"array": "a list", "object": "an object", "integer": "a whole number"}


def doubtful_conditions(index: int, rule: Rule) -> Iterator[Finding]:
    """Find what is wrong with the conditions of a rule."""
    tool = known_tools().get(rule.pattern)
    if rule.when is None or tool is None or tool.arguments is None:
        return
    for path, condition in rule.when.conditions.items():
        why = _doubt(path, condition, tool.arguments)
        if why:
            yield Finding(index, f"{named(rule)}: {why}", under=path)
    for path in rule.when.others or ():
        name = _head(path)
        if name not in tool.arguments and (meant := near(name, tool.arguments)):
            why = f"no known agent's tool has the argument {name!r}; did you mean {meant[0]!r}?"
            yield Finding(index, f"{named(rule)}: {why}", under="others")


def _doubt(path: str, condition: Condition, arguments: Mapping[str, Argument]) -> str:
    """Return what is wrong with one condition; empty if nothing is."""
    name, *inner = parse_path(path)
    argument = arguments.get(str(name))
    if argument is None:
        meant = near(str(name), arguments)
        what = (
            f"did you mean {meant[0]!r}?" if meant else f"known: {', '.join(arguments) or 'none'}"
        )
        return f"no known agent's tool has the argument {name!r}; {what}"
    form = next(iter(condition.written()))
    if inner:
        wanted = "array" if inner[0] is Mark.EACH else "object"
        if argument.types and wanted not in argument.types:
            return f"can never be met: {name!r} is {_kind(argument)}, and not {_named_type(wanted)}"
    elif why := _no_value(form, condition, argument):
        listed = f"; write {name}[] for its entries" if "array" in argument.types else ""
        return f"can never be met: {name!r} is {_kind(argument)}, and {form} {why}{listed}"
    return _no_such_text(form, str(name), argument, arguments)


def _no_value(form: str, condition: Condition, argument: Argument) -> str:
    """Say why no value of an argument can meet a condition."""
    types = _TAKES.get(form)
    if form == "not":
        # Another type does not meet what is compared, so it meets the negation of that.
        (inner,) = condition.written().values()
        types = _TAKES.get(next(iter(inner)))
    elif form in ("equals", "one_of"):
        (wanted,) = condition.written().values()
        values = wanted if form == "one_of" else (wanted,)
        types = frozenset(kind for value in values for kind in _types_of(value))
    if types is None or not argument.types or types & argument.types:
        return ""
    return f"takes {' or '.join(map(_named_type, sorted(types - {'integer'} or types)))}"


def _no_such_text(
    form: str, name: str, argument: Argument, arguments: Mapping[str, Argument]
) -> str:
    code, what = _HOLDS.get(form, ("", ""))
    if not code or code in argument.holds:
        return ""
    others = [other for other, one in arguments.items() if code in one.holds]
    meant = f"; did you mean {others[0]!r}?" if others else ""
    return f"{name!r} is not {what}, which {form} reads{meant}"


def _types_of(value: Any) -> tuple[str, ...]:
    match value:
        case bool():
            return ("boolean",)
        case int():
            return ("integer", "number")
        case float():
            return ("integer", "number") if value.is_integer() else ("number",)
        case str():
            return ("string",)
        case _:
            pass
    # Agents send null for what they leave out, whatever their schema says.
    return ("string", "boolean", "integer", "number", "array", "object")


def _kind(argument: Argument) -> str:
    return " or ".join(map(_named_type, sorted(argument.types)))


def _named_type(kind: str) -> str:
    return _ARTICLES.get(kind, f"a {kind}")


def _head(path: str) -> str:
    return str(parse_path(path)[0])

"""The `tools` of a mode as written, to rules: effects, globs, and conditions on arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from modegate.core.policy.conditions import Condition, When
from modegate.core.policy.document import YamlValue
from modegate.core.policy.model import EXIT_TOOL, Effect, Rule
from modegate.core.policy.schema import Field, Section, list_of

_OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Tools:
    """What a list of tools says: its rules, and whether it names the exit tool."""

    rules: tuple[Rule, ...]
    names_exit: bool


NO_TOOLS = Tools((), names_exit=False)


def read_tools(value: YamlValue) -> Tools:
    """Read a mode's `tools`; what is wrong is noted, and left out."""
    rules: list[Rule] = []
    names_exit = False
    for index, entry in enumerate(value.sequence() or ()):
        rule = _rule(entry, index)
        if rule is None:
            continue
        if rule.pattern != EXIT_TOOL:
            rules.append(rule)
        elif rule.effect is Effect.ALLOW and rule.when is None:
            names_exit = True
        else:
            entry.problem(
                f"{EXIT_TOOL} can only be named alone, which switches the exit on: "
                "each call of it asks a person"
            )
    return Tools(tuple(rules), names_exit)


def _rule(entry: YamlValue, index: int) -> Rule | None:
    if not entry.is_mapping():
        pattern = entry.string()
        return None if pattern is None else Rule(Effect.ALLOW, pattern, at=index)
    values = _RULE.open(entry) or {}
    effects = [effect for effect in Effect if effect in values]
    if len(effects) != 1:
        entry.problem("needs exactly one of allow, ask and deny")
        return None
    found = _RULE.read(values)
    (effect,) = effects
    return Rule(effect, found[effect], found.get("when"), index) if effect in found else None


def _when(value: YamlValue) -> When | None:
    arguments = value.mapping()
    if arguments is None:
        return None
    others = arguments.pop(_OTHERS, None)
    if others is not None and others.plain() != "any":
        others.problem("'others' says what becomes of arguments not listed, and can only be 'any'")
    if not arguments:
        value.problem("needs a condition on at least one argument")
    read = {name: _condition(argument) for name, argument in arguments.items()}
    return When({name: one for name, one in read.items() if one is not None}, others is not None)


def _condition(value: YamlValue) -> Condition | None:
    values = _CONDITION.open(value)
    if values is None:
        return None
    if len(values) != 1:
        value.problem("needs exactly one of equals, one_of and glob")
        return None
    found = _CONDITION.read(values)
    if "equals" in found:
        (found["equals"],) = found["equals"]
    return Condition(**found) if found else None


def _scalars(value: YamlValue) -> tuple[Any, ...]:
    return tuple(scalar for (scalar,) in list_of(YamlValue.json_scalar)(value))


_RULE = Section(
    "modes.*.tools[]",
    *(Field(effect.value, YamlValue.string) for effect in Effect),
    Field("when", _when),
)
_CONDITION = Section(
    "modes.*.tools[].when.*",
    Field("equals", YamlValue.json_scalar),
    Field("one_of", _scalars),
    Field("glob", YamlValue.string),
)
SECTIONS = (_RULE, _CONDITION)

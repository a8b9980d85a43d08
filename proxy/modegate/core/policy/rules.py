"""The `tools` of a mode as written, to rules: effects, globs, and conditions on arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from modegate.core.policy.conditions import Condition, When
from modegate.core.policy.document import YamlValue
from modegate.core.policy.model import EXIT_TOOL, Effect, Rule
from modegate.core.policy.schema import KEYS

_ENTRY = KEYS["modes.*.tools[]"]
_CONDITION = KEYS["modes.*.tools[].when.*"]
_OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Tools:
    """What a list of tools says: its rules, and whether it names the exit tool."""

    rules: tuple[Rule, ...]
    names_exit: bool


def read_tools(place: YamlValue) -> Tools:
    """Read a mode's `tools`; what is wrong is noted, and left out."""
    rules: list[Rule] = []
    names_exit = False
    for index, entry in enumerate(place.sequence() or []):
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
    keys = entry.mapping(_ENTRY) or {}
    effects = [effect for effect in Effect if effect in keys]
    if len(effects) != 1:
        entry.problem("needs exactly one of allow, ask and deny")
        return None
    pattern = keys[effects[0]].string()
    when = _when(keys["when"]) if "when" in keys else None
    return None if pattern is None else Rule(effects[0], pattern, when, index)


def _when(place: YamlValue) -> When | None:
    keys = place.mapping()
    if keys is None:
        return None
    others = keys.pop(_OTHERS, None)
    if others is not None and others.plain() != "any":
        others.problem("'others' says what becomes of arguments not listed, and can only be 'any'")
    if not keys:
        place.problem("needs a condition on at least one argument")
    conditions = {name: _condition(keys[name]) for name in keys}
    return When({n: c for n, c in conditions.items() if c is not None}, others is not None)


def _condition(place: YamlValue) -> Condition | None:
    keys = place.mapping(_CONDITION)
    if keys is None:
        return None
    if len(keys) != 1:
        place.problem("needs exactly one of equals, one_of and glob")
        return None
    if "glob" in keys:
        glob = keys["glob"].string()
        return None if glob is None else Condition(glob=glob)
    if "equals" in keys:
        value = keys["equals"].json_scalar()
        return None if value is None else Condition(equals=value[0])
    return Condition(one_of=_values(keys["one_of"]))


def _values(place: YamlValue) -> tuple[Any, ...]:
    values = [item.json_scalar() for item in place.sequence() or []]
    return tuple(value[0] for value in values if value is not None)

"""What a mode takes over: rules of packs (`use`), and what another mode says (`extends`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from modegate.core.ids import DEFAULT_MODE
from modegate.core.policy.file.document import YamlValue, suggestion
from modegate.core.policy.file.packs import Pack
from modegate.core.policy.model import Rule
from modegate.core.policy.shell_table import NO_SHELL

MAX_EXTENDED = 8
"""Modes in a chain; nobody could say what a longer one allows."""

_TAKEN_OVER = ("section", "section_in", "exit", "names_exit", "without_tools", "text_calls")
"""What a mode takes over if it does not write it. Names are its own, since people tell modes by them."""


def used(value: YamlValue, index: int) -> list[Rule]:
    """Read what stands behind `use`: the name of a pack or of a kind, or a list of such.

    Args:
        value: what stands there.
        index: of the entry in its mode's `tools`.

    Returns:
        The rules, in the order of the packs; what a pack says like one in front of it is left out.
    """
    named = value.sequence() or () if value.is_sequence() else [value]
    packs = {pack.name: pack for one in named for pack in _named(one)}
    alike: dict[str, list[Rule]] = {}
    rules: list[Rule] = []
    for pack in packs.values():
        for rule in pack.rules:
            others = alike.setdefault(rule.pattern, [])
            if rule not in others:
                others.append(rule)
                rules.append(replace(rule, at=f"use[{index}] {pack.name}"))
                value.document.visit(value.node, value.path)
    return rules


def _named(value: YamlValue) -> Sequence[Pack]:
    known = value.document.packs.by_name
    name = value.string()
    if name is not None and name not in known:
        value.problem(f"no such pack; {suggestion(name, known)}")
    return known.get(name or "", ())


@dataclass(frozen=True, slots=True)
class Written:
    """A mode as the file has it."""

    value: YamlValue
    values: Mapping[str, YamlValue]
    """By their keys."""
    says: Mapping[str, Any]
    """What they say, by the names of the attributes of `Mode`; without what has a problem."""


def mode_to_extend(value: YamlValue) -> str | None:
    """Read the name of a mode that the file defines."""
    name = value.string()
    known = [mode for mode in value.document.names["modes"] if mode != DEFAULT_MODE]
    if name is None or name in known:
        return name
    value.problem(f"no such mode to extend; {suggestion(name, known)}")
    return None


def extended(name: str, modes: Mapping[str, Written]) -> dict[str, Any]:
    """Return what a mode says with what it takes over from the one that it extends, which may extend another.

    Its own rules come first, so that they win.
    """
    own = modes[name]
    says, rules = dict(own.says), [*own.says.get("rules", ())]
    for base in _chain(name, modes):
        other = modes[base].says
        says = {key: other[key] for key in _TAKEN_OVER if key in other} | says
        if "shell" in other:
            says["shell"] = other["shell"].with_(*says.get("shell", NO_SHELL).sections)
        for rule in other.get("rules", ()):
            own.value.document.visit(own.value.node, own.value.path)
            rules.append(replace(rule, at=f"{base}.{rule.place()}"))
    return says | {"rules": tuple(rules)}


def _chain(name: str, modes: Mapping[str, Written]) -> Iterator[str]:
    """Yield the modes that a mode extends, the nearest first; note a chain that does not end."""
    seen = [name]
    while (base := modes[seen[-1]].says.get("extends")) is not None:
        if base in seen or len(seen) > MAX_EXTENDED:
            chain = " extends ".join([*seen, base])
            wrong = "in a circle" if base in seen else f"in a chain of more than {MAX_EXTENDED}"
            modes[name].values["extends"].problem(f"modes extend each other {wrong}: {chain}")
            return
        yield base
        seen.append(base)

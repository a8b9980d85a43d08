"""The text of the packs that come with modegate to `Packs`; it is held to the rules of a policy file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from modegate.core.policy.file.document import YamlValue, read_document
from modegate.core.policy.file.modes import read_tools
from modegate.core.policy.file.packs import Pack, Packs
from modegate.core.policy.file.problems import PolicyProblems
from modegate.core.policy.file.schema import NAME, Field, Section


def read_packs(text: str | bytes) -> Packs:
    """Read packs: kinds, in each the agents by their short names, in each `agent` and `tools`.

    Raises:
        PolicyProblems: with all that is wrong.
    """
    # No key of a policy: those are collected from the modules of this package, and documented.
    pack = Section(
        "packs.*.*",
        Field("agent", YamlValue.string, required=True),
        Field("tools", _rules, "rules", required=True),
    )
    root = read_document(text)
    packs = [
        Pack(f"{kind}/{agent}", **found)
        for kind, agents in _named(root).items()
        for agent, entry in _named(agents).items()
        if (found := pack.read(pack.open(entry) or {})).keys() == {"agent", "rules"}
    ]
    if root.document.problems:
        raise PolicyProblems(root.document.problems)
    return Packs(tuple(packs))


def _named(value: YamlValue) -> dict[str, YamlValue]:
    entries = value.mapping() or {}
    for name, entry in entries.items():
        if not NAME.fullmatch(name):
            entry.key_problem("must be 1 to 64 letters, digits and ._-")
    return entries


def _rules(value: YamlValue) -> Any:
    rules, names_exit = read_tools(value)
    if names_exit:
        value.problem("a pack cannot open an exit")
    return tuple(replace(rule, at=None) for rule in rules)

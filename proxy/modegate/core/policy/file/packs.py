"""Packs: rules that come with modegate, by agent, which a mode takes over with `use`.

A pack is called `KIND/AGENT`, such as `read-only/codex`; a kind alone stands for all of its packs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from modegate.core.policy.model import Rule


@dataclass(frozen=True, slots=True)
class Pack:
    """The rules for one agent's tools."""

    name: str
    """As `use` names it: `read-only/codex`."""
    agent: str
    """As people call it, with the version that was measured."""
    rules: tuple[Rule, ...]
    """Without their place in the file (`at`)."""


@dataclass(frozen=True, slots=True)
class Packs:
    """All packs, in the order of their file."""

    all: tuple[Pack, ...] = ()
    by_name: Mapping[str, tuple[Pack, ...]] = field(init=False)
    """What `use` can name: all packs of a kind, and each one alone."""

    def __post_init__(self) -> None:
        found: dict[str, tuple[Pack, ...]] = {}
        for pack in self.all:
            kind = pack.name.partition("/")[0]
            found[kind] = (*found.get(kind, ()), pack)
        object.__setattr__(self, "by_name", found | {pack.name: (pack,) for pack in self.all})


NO_PACKS = Packs()

"""The tools of agents that were measured, with their arguments: what mistakes in a rule are told by.

An operator may have any other tools, so that a tool or an argument which is not here is no mistake by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from modegate.core.policy.mistakes.known_tools_table import TABLE

_TYPES = {
    "s": "string",
    "b": "boolean",
    "i": "integer",
    "n": "number",
    "a": "array",
    "o": "object",
    "c": "string",
    "j": "string",
    "p": "string",
}


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument, over all agents that have a tool of the name."""

    types: frozenset[str]
    """Of JSON; empty: any."""
    holds: frozenset[str] = frozenset()
    """What its text is: `c` a command, `j` a program in JavaScript, `p` a patch."""


@dataclass(frozen=True, slots=True)
class Tool:
    """All tools of one name."""

    agents: tuple[str, ...]
    arguments: Mapping[str, Argument] | None
    """None: not known."""


@cache
def known_tools() -> Mapping[str, Tool]:
    """Return the tools by their names."""
    agents: dict[str, list[str]] = {}
    arguments: dict[str, dict[str, Argument] | None] = {}
    for agent, name, written in _entries():
        agents.setdefault(name, []).append(agent)
        merged = arguments.setdefault(name, {})
        if written is None or merged is None:
            arguments[name] = None
            continue
        for word in written:
            argument, _, codes = word.partition(":")
            merged[argument] = _joined(merged.get(argument), codes or "s")
    return {name: Tool(tuple(agents[name]), arguments[name]) for name in agents}


def _entries() -> Iterator[tuple[str, str, Iterable[str] | None]]:
    """Yield each agent's tools: the agent, the tool's name, and its arguments as they are written."""
    agent = ""
    for line in TABLE.replace("\n    ", " ").strip().split("\n"):
        first, *words = line.split()
        if first == "=":
            agent = " ".join(words)
        elif first == "~":
            yield from ((agent, name, None) for name in words)
        else:
            yield agent, first, words


def _joined(other: Argument | None, codes: str) -> Argument:
    types = frozenset() if "?" in codes else frozenset(_TYPES[code] for code in codes)
    holds = frozenset(codes) & frozenset("cjp")
    if other is None:
        return Argument(types, holds)
    return Argument(
        types | other.types if types and other.types else frozenset(), holds | other.holds
    )

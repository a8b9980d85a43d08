"""Names of tools that no agent has, or that no API lets a tool have."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache

from modegate.core.argument.globs import is_glob
from modegate.core.policy.mistakes.dead_rules import Finding, named
from modegate.core.policy.mistakes.known_tools import known_tools
from modegate.core.policy.model import EXIT_TOOL, Effect, Rule
from modegate.core.policy.names import folded, misspelled

LONGEST = 64
"""Characters of a name that is compared with others."""
SHORTEST = 4
"""Letters and digits of a name that is compared with others: too many short ones are alike."""

_EXITS = (EXIT_TOOL, "plan_exit")
_IMPOSSIBLE = re.compile(r"[\s()\[\]{}<>'\"`,;|&$!\\=]|[^\x20-\U0010ffff]")
_BRACKETS = re.compile(r"([\w*?.-]+)\s*\(.*\)")
_JOINED = re.compile(r"[.:/]")


def doubtful_name(index: int, rule: Rule) -> Finding | None:
    """Find what is wrong with the name or glob of a rule."""
    name = rule.pattern
    if name.startswith("exit_plan") or any(misspelled(exit_, name) for exit_ in _EXITS):
        why = f"a person does, by {EXIT_TOOL} in tools or by the key exit"
        return Finding(index, f"{named(rule)} does not decide about leaving the mode: {why}")
    if found := _IMPOSSIBLE.search(name):
        # What says that it refuses must not be without effect.
        grave = rule.effect is not Effect.ALLOW
        return Finding(index, f"{named(rule)} matches no tool: {_instead(name, found[0])}", grave)
    if not name.isascii():
        why = f"most APIs take no letter such as {next(c for c in name if not c.isascii())!r} in it"
        return Finding(index, f"{named(rule)} hardly matches a tool: {why}")
    if _JOINED.search(name):
        space, _, last = name.rpartition(_JOINED.findall(name)[-1])
        wire = last if space == "functions" else _JOINED.sub("__", name)
        why = f"hardly any API takes . : or / in a name; in requests it is {wire!r}"
        return Finding(index, f"{named(rule)} hardly matches a tool: {why}")
    known = known_tools()
    if is_glob(name) or name in known or name.startswith("mcp__"):
        return None
    if meant := near(name, known):
        listed = " or ".join(map(repr, meant))
        return Finding(
            index, f"{named(rule)}: no known agent has this tool; did you mean {listed}?"
        )
    return None


def _instead(name: str, char: str) -> str:
    """Say what to write in the place of a name that no tool can have."""
    if match := _BRACKETS.fullmatch(name):
        return f"name {match[1]!r}, and write what is in the brackets as conditions under when"
    if name.startswith("!"):
        return f"to refuse a tool write {{deny: {name[1:].strip()}}}"
    if "," in name or " " in name.strip():
        return "write one name in each entry; conditions stand under when"
    return f"no API takes {char!r} in a name"


def near(name: str, known: Collection[str]) -> list[str]:
    """Return the known names that differ from one in spelling, or by one letter or digit."""
    if len(name) > LONGEST:
        return []
    return sorted(_near(folded(name), _by_spelling(frozenset(known))))


def _near(word: str, known: dict[str, dict[str, set[str]]]) -> Iterator[str]:
    same = known.get(word, {}).get(word)
    if same:
        yield from same
    elif len(word) >= SHORTEST:
        found = {
            other: names
            for one in _with_one_gone(word)
            for other, names in known.get(one, {}).items()
            if len(other) >= SHORTEST and _one_apart(word, other)
        }
        for names in found.values():
            yield from names


@cache
def _by_spelling(names: frozenset[str]) -> dict[str, dict[str, set[str]]]:
    """Return names by their plain spelling, behind that and all spellings with one character gone."""
    found: dict[str, dict[str, set[str]]] = {}
    for name in names:
        word = folded(name)
        for one in _with_one_gone(word):
            found.setdefault(one, {}).setdefault(word, set()).add(name)
    return found


def _with_one_gone(word: str) -> set[str]:
    return {word, *(word[:at] + word[at + 1 :] for at in range(len(word)))}


def _one_apart(one: str, other: str) -> bool:
    """Return whether two neighbours changed places, or in longer words one character is another."""
    at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    if at is None:
        return len(one) > SHORTEST
    if other[at:] == one[at + 1 : at + 2] + one[at] + one[at + 2 :]:
        return True
    ends = {one[at:], one[at + 1 :]} & {other[at:], other[at + 1 :]}
    return bool(ends) and len(one) > SHORTEST

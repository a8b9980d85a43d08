"""The packs that ship: rules of which none releases, in any agent, a call that changes something."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from modegate.core.argument.globs import is_glob
from modegate.core.policy.file.packs import Pack
from modegate.core.policy.mistakes.dead_rules import dead_rules
from modegate.core.policy.mistakes.known_tools import known_tools
from modegate.core.policy.model import Effect, Rule
from modegate.core.policy.when import When
from modegate.server.packs import shipped_packs

GOLDEN = Path(__file__).parent / "golden"
GAP = yaml.safe_load((GOLDEN / "gap.yaml").read_text(encoding="utf-8"))
PACKS = shipped_packs().all
RULES = [(pack, rule) for pack in PACKS for rule in pack.rules]


@pytest.mark.parametrize("pack", PACKS, ids=lambda pack: pack.name)
def test_a_pack_allows_tools_by_their_names(pack: Pack) -> None:
    assert all(rule.effect is Effect.ALLOW and not is_glob(rule.pattern) for rule in pack.rules)
    assert list(dead_rules(pack.rules)) == []


def test_a_name_that_is_limited_in_one_pack_is_free_in_none() -> None:
    limited = {rule.pattern for _, rule in RULES if rule.when is not None}
    assert [(p.name, r.pattern) for p, r in RULES if r.when is None and r.pattern in limited] == []


def treats(when: When, argument: str) -> object:
    """Return what a rule says of an argument: its condition, `free`, or that it must not be there."""
    conditions = {path: one for path, one in when.conditions.items() if root(path) == argument}
    if conditions:
        return tuple(one.written() for one in conditions.values())
    free = when.others_any or argument in (when.others or ())
    return "free" if free else "refused"


def root(path: str) -> str:
    return path.partition(".")[0].partition("[")[0]


def pairs() -> Iterator[tuple[Pack, Rule, Pack, Rule]]:
    """Yield rules of two packs on one name."""
    for pack, rule in RULES:
        for other, same in RULES:
            if pack is not other and rule.pattern == same.pattern and rule.when is not None:
                yield pack, rule, other, same


def test_of_two_agents_with_one_name_neither_pack_frees_what_the_other_limits() -> None:
    """`use: read-only` takes both, and either may release a call of either agent."""
    compared = 0
    for pack, rule, other, same in pairs():
        assert rule.when
        assert same.when
        ours = {*map(root, rule.when.conditions), *(rule.when.others or ())}
        theirs = {*map(root, same.when.conditions), *(same.when.others or ())}
        for argument in ours & theirs:
            compared += 1
            assert treats(rule.when, argument) == treats(same.when, argument), (
                pack.name, other.name, rule.pattern, argument,
            )  # fmt: skip
        for argument in arguments_of(other, rule.pattern) - theirs:
            assert treats(rule.when, argument) == "refused", (pack.name, other.name, argument)
    assert compared > 40


def arguments_of(pack: Pack, tool: str) -> set[str]:
    """Return the arguments that an agent declares of a tool, as far as they were seen."""
    tables = [table["arguments"] for table in GAP["agents"].values() if table["pack"] == pack.name]
    return {argument for table in tables for argument in table.get(tool, ())}


def test_a_tool_that_nobody_has_seen_is_in_no_pack() -> None:
    unseen = {"execute", "shell_command"}
    assert {rule.pattern for _, rule in RULES} - known_tools().keys() == unseen


def test_the_text_is_read_once() -> None:
    assert shipped_packs() is shipped_packs()

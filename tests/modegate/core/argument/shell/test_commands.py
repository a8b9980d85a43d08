"""Every command of the golden table, as a string, as words and as what a shell is handed."""

from __future__ import annotations

from collections import defaultdict

import pytest

from modegate.core.argument.shell.programs import STANDARD
from modegate.core.argument.shell.read_only import why_not_read_only
from support.shells.golden import Golden, as_list, table

GROUPS: dict[str, list[Golden]] = defaultdict(list)
for _golden in table():
    GROUPS[_golden.group].append(_golden)
by_group = pytest.mark.parametrize("group", GROUPS)


def wrong(commands: list[tuple[Golden, object]]) -> dict[str, str]:
    """Return which commands got the other verdict, with the reason where one was refused."""
    judged = [(golden, why_not_read_only(form, STANDARD)) for golden, form in commands]
    return {
        repr(golden.command): why or "released"
        for golden, why in judged
        if golden.released is bool(why)
    }


@by_group
def test_each_command_gets_its_verdict(group: str) -> None:
    assert wrong([(golden, golden.command) for golden in GROUPS[group]]) == {}


@by_group
def test_the_words_of_a_simple_command_get_the_same_verdict(group: str) -> None:
    listed = [(golden, as_list(golden.command)) for golden in GROUPS[group]]
    assert wrong([(golden, words) for golden, words in listed if words]) == {}


@by_group
def test_a_command_handed_to_a_shell_gets_the_same_verdict(group: str) -> None:
    strings = [golden for golden in GROUPS[group] if isinstance(golden.command, str)]
    assert wrong([(golden, ["bash", "-lc", golden.command]) for golden in strings]) == {}


@by_group
def test_a_reason_is_one_line(group: str) -> None:
    reasons = [why_not_read_only(golden.command, STANDARD) for golden in GROUPS[group]]
    assert [why for why in reasons if len(why.splitlines()) > 1 or len(why) > 300] == []


def test_the_table_is_as_large_as_it_should_be() -> None:
    every = [golden for commands in GROUPS.values() for golden in commands]
    assert len({repr(golden.command) for golden in every}) == len(every) > 450
    assert sum(not golden.released for golden in every) > len(every) / 2
    assert sum(as_list(golden.command) is not None for golden in every) > 450

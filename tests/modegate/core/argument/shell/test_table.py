"""The table itself: its page, and that no entry contradicts itself."""

from __future__ import annotations

import pytest

from modegate.core.argument.shell import standard_input
from modegate.core.argument.shell.entry import Entry
from modegate.core.argument.shell.programs import STANDARD
from support.command_table import PAGE, page_with_table, walk


def test_the_page_shows_the_table_as_it_is() -> None:
    assert page_with_table() == PAGE.read_text("utf-8"), (
        "write it anew: cd tests && python -m support.command_table"
    )


ENTRIES = list(walk())


@pytest.mark.parametrize(("name", "entry"), ENTRIES, ids=[name for name, _ in ENTRIES])
def test_no_entry_contradicts_itself(name: str, entry: Entry) -> None:
    lists = (entry.options, entry.values, entry.optional)
    known = frozenset().union(*lists)
    assert sum(map(len, lists)) == len(known)
    assert known.isdisjoint(entry.refused)
    assert entry.choices.keys() <= known
    assert entry.listing <= known
    assert {option for group in entry.needs for option in group} <= known
    assert all(option.startswith("-") for option in (*known, *entry.refused))
    if entry.style == "gnu":
        assert [option for option in known if option[1] != "-" and len(option) > 2] == []
    if entry.any_options:
        assert not known
        assert entry.operands is None
    if entry.alone:
        assert entry.commands
        assert entry.operands is not None


def test_the_table_knows_no_program_that_runs_what_stands_behind_it() -> None:
    runners = {"sh", "dash", "fish", "env", "xargs", "sudo", "eval", "exec", "nohup", "less", "man"}
    assert runners.isdisjoint(STANDARD.entries)


def test_who_reads_input_knows_the_values_that_the_table_knows() -> None:
    """Else an option's value would count as the file that a program is to read: `xxd -l 5 -skip 0`."""
    lacking = {
        name: STANDARD.entries[name].values - frozenset(known.split())
        for name, known in standard_input._VALUES.items()
    }
    # Behind these jq has a variable's name, or its program is a file: `why_reads_input` counts so.
    jq = {"--arg", "--argjson", "--argfile", "--slurpfile", "--rawfile", "-f", "--from-file"}
    assert {name: left for name, left in lacking.items() if left} == {"jq": jq}

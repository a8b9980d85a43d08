"""Each dangerous option of each program in every spelling that some version of it takes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from modegate.core.argument.shell.entry import Entry
from modegate.core.argument.shell.programs import STANDARD, why_not
from modegate.core.argument.shell.words import Word
from support.command_table import walk


def spellings(entry: Entry, option: str) -> Iterator[list[str]]:
    """Yield the words behind a program's name, with the option in them."""
    needed = list(entry.needs[0]) if entry.needs else []
    for words in [[option], [option, "x"], [f"{option}=x"], *joined(entry, option)]:
        yield [*needed, *words]
        yield [*words, *needed]
        yield [*needed, "a", *words]
        yield [*needed, *words, "--", "a"]
        for value in sorted(entry.values)[:2]:
            yield [*needed, value, "1", *words]
            yield [*needed, f"{value}=1" if value.startswith("--") else f"{value}1", *words]


def joined(entry: Entry, option: str) -> Iterator[list[str]]:
    if entry.style == "one-dash":
        yield [f"-{option}", "x"]
        yield [f"-{option}=x"]
    elif option.startswith("--"):
        known = entry.options | entry.values | entry.optional
        for end in range(len("--a"), len(option)):
            if option[:end] not in known:
                yield [option[:end], "x"]
                yield [f"{option[:end]}=x"]
    else:
        yield [f"{option}x"]
        short = sorted(name for name in entry.options if len(name) == 2 and name[1] != "-")
        for flag in short[:4]:
            yield [f"{flag}{option[1]}", "x"]
            yield [f"{flag}{option[1]}x"]
            yield [f"{option}{flag[1]}", "x"]


CASES = [
    (name, entry, option)
    for name, entry in walk()
    for option in entry.refused
    if not entry.any_options
]


@pytest.mark.parametrize(
    ("name", "entry", "option"), CASES, ids=[f"{name} {option}" for name, _, option in CASES]
)
def test_a_dangerous_option_is_refused_however_it_is_written(
    name: str, entry: Entry, option: str
) -> None:
    passed = [
        words
        for words in spellings(entry, option)
        if not why_not([Word(text) for text in (*name.split(), *words)], STANDARD)
    ]
    assert passed == []


def test_there_are_many() -> None:
    assert len(CASES) > 200


@pytest.mark.parametrize(("name", "entry"), list(walk()), ids=[name for name, _ in walk()])
def test_an_option_that_nobody_knows_is_refused(name: str, entry: Entry) -> None:
    if entry.any_options:
        return
    needed = entry.needs[0] if entry.needs else ()
    for unknown in ("--no-such-option", "-\u00e9", "---", "-=", "--=x", "-\U0001f600"):
        words = [Word(text) for text in (*name.split(), *needed, unknown)]
        assert why_not(words, STANDARD) != ""

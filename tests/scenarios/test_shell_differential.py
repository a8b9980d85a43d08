"""Real shells run what is let through as a read-only command, in a folder of traps: nothing may change there.

`support.shells.trapped` says what is watched. What a filter of commands cannot see is shown at the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.argument.shell.programs import STANDARD
from modegate.core.argument.shell.read_only import why_not_read_only
from modegate.core.argument.shell.reading import simple_commands
from support.shells import folder, grammar
from support.shells.golden import table
from support.shells.trapped import SHELLS, Place, Watch, place

# A part of the command may not run, or in the background: dash takes `&` for the end in `&>`.
MAYBE = re.compile(r"\|\||!|&>|<(?! README\.md)")
NAMES = frozenset(STANDARD.entries) | {"timeout", "nice", "time", "env"}
in_each_shell = pytest.mark.parametrize("shell", SHELLS)


@pytest.fixture(scope="module")
def watch() -> Iterator[Watch]:
    with place(NAMES) as made:
        yield Watch(made)


@pytest.fixture(scope="module")
def recorded() -> Iterator[Place]:
    """Have a place in which every program only writes down its arguments."""
    with place((), stubs=NAMES) as made:
        yield made


def only_read(commands: list[str]) -> list[str]:
    return [command for command in commands if not why_not_read_only(command, STANDARD)]


@in_each_shell
def test_what_the_table_releases_changes_nothing(watch: Watch, shell: str) -> None:
    commands = [golden.command for golden in table() if isinstance(golden.command, str)]
    assert watch.guilty(shell, only_read(commands)) == {}


@in_each_shell
def test_the_traps_are_set(watch: Watch, shell: str) -> None:
    assert watch.effects(shell, ["echo a > x.txt"]) == ["work", "work/x.txt"]
    assert watch.effects(shell, ["rm README.md"]) == ["rm README.md"]
    assert watch.effects(shell, ["PATH=. git log"]) == ["git log"]
    assert watch.effects(shell, ["git x a"]) == [".stub a"]
    assert watch.effects(shell, ["git status", "ls"]) == []


@in_each_shell
@given(commands=st.lists(grammar.commands(), min_size=8, max_size=24))
def test_made_up_commands_that_are_let_through_change_nothing(
    watch: Watch, shell: str, commands: list[str]
) -> None:
    accepted = grammar.tried(only_read(commands))
    assert watch.guilty(shell, accepted) == {}


def words_of(command: str, made: Place) -> list[list[str]]:
    """Return what the reader says that programs get; nothing where this test cannot say what runs."""
    found = simple_commands(command)
    if (
        MAYBE.search(command)
        or "$?" in command
        or any(word.glob for one in found for word in one.words)
    ):
        return []
    heads = {"$HOME": made.root / "home", "$PWD": made.folder, "~": made.root / "home"}
    listed = []
    for one in found:
        words = []
        for word in one.words:
            text = word.text
            for head, path in heads.items() if word.expands else ():
                if text.startswith(head):
                    text = f"{path}{text.removeprefix(head)}"
                    break
            words.append(text)
        listed.append(words)
    return listed


@in_each_shell
@given(commands=st.lists(grammar.commands(), min_size=4, max_size=12))
def test_programs_get_the_words_that_were_judged(
    recorded: Place, shell: str, commands: list[str]
) -> None:
    for command in only_read(commands):
        expected = words_of(command, recorded)
        if expected and all(words[0] in PLAIN for words in expected):
            recorded.ran()
            recorded.run(shell, command)
            assert sorted(recorded.ran()) == sorted(expected), command


# Programs that no shell has built in.
PLAIN = NAMES - {
    *(
        "echo",
        "printf",
        "test",
        "[",
        "true",
        "false",
        "pwd",
        "cd",
        "type",
        "which",
        "command",
        "time",
    ),
}


@pytest.mark.parametrize("setting", folder.UNSEEN)
def test_what_a_repository_makes_git_run_cannot_be_seen(watch: Watch, setting: str) -> None:
    """The docs say so: whoever can write `.git/config` runs programs at the next `git status`."""
    command = folder.UNSEEN[setting]
    assert only_read([command]) == [command]
    prepared = f"git config {setting} stub; echo new > src/main.py; {command}"
    assert any(effect.split()[0] == "stub" for effect in watch.effects("bash", [prepared]))

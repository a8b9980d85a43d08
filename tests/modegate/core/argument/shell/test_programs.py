"""The table of programs: what passes, what is refused, and what a policy adds and takes away."""

from __future__ import annotations

import shlex

import pytest

from modegate.core.argument.shell.entry import ANY, entry
from modegate.core.argument.shell.programs import STANDARD, Programs, why_not
from modegate.core.argument.shell.words import Word


def words(command: str) -> list[Word]:
    """Return a command's words as its program gets them; `*`, `?` and `[` stand for themselves."""
    return [Word(text) for text in shlex.split(command)]


def why(command: str, programs: Programs = STANDARD) -> str:
    return why_not(words(command), programs)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("rm x", "`rm` is not among the programs known to only read"),
        ("/usr/bin/sort x", ""),
        ("/bin/sort x", ""),
        (
            "/usr/bin//bin/sort x",
            "`/usr/bin//bin/sort` is not among the programs known to only read",
        ),
        ("/opt/bin/sort x", "`/opt/bin/sort` is not among the programs known to only read"),
        ("sort -o x", "`sort -o` writes"),
        ("sort --out=x", "`sort --out` could be short for `--output`, which writes"),
        ("sort -no x", "`sort -o` writes"),
        ("sort --new x", "`sort --new` is not among the options known to be safe"),
        ("sort -ny x", "`sort -y` in `-ny` is not among the options known to be safe"),
        ("uniq a b", "`uniq` only reads with one operand at most"),
        ("uniq a --out", "`uniq --out` is not among the options known to be safe"),
        ("uniq a -c", "`-c` is an operand to some versions of `uniq`; write options first"),
        ("find . -delete", "`find -delete` deletes"),
        ("git push", "`git push` is not among the commands known to only read"),
        ("git", "`git` is not among the commands known to only read"),
        ("git -c a=b log", "`git -c` can make git run a program"),
        ("git log --output=x", "`git log --output` writes"),
        ("git branch x", "`git branch` only reads with no operand"),
        ("unzip a.zip", "`unzip` only reads with `-l` or `-v` or `-Z` or `-z` or `-t` or `-p`"),
        ("sort -k --output=x", "`--output=x` behind `-k` looks like an option of `sort`"),
        ("sort -n -- --output=x", "`--output=x` may be an option of `sort`"),
        ("git branch --merged", ""),
        ("git rev-parse --help", "`git rev-parse --help` opens a manual page; use `-h`"),
    ],
)
def test_a_refusal_names_what_is_wrong(command: str, reason: str) -> None:
    assert why(command) == reason


def test_a_refusal_shows_a_word_short_and_printable() -> None:
    shown = why_not([Word("sort"), Word("--" + "`\x1b[31m\u202e" + "x" * 500)], STANDARD)
    assert shown.isprintable()
    assert shown.count("`") == 2
    assert len(shown) < 120


GLOB = Word("*", glob=True, glob_at_head=True)


@pytest.mark.parametrize(
    ("command", "released"),
    [
        ([Word("cat"), GLOB], True),
        ([Word("sort"), GLOB], False),
        ([Word("sort"), Word("--"), GLOB], True),
        ([Word("sort"), Word("./*", glob=True)], True),
        ([Word("sort"), Word("-k"), Word("./*", glob=True)], False),
        ([Word("sort"), Word("-n*", glob=True, glob_at_head=True)], False),
        ([Word("sort"), Word("-k1*", glob=True, glob_at_head=True)], True),
        ([Word("uniq"), Word("./*", glob=True)], False),
        ([Word("uniq"), Word("--"), GLOB], False),
        ([Word("find"), GLOB], False),
        ([Word("find"), Word("src/*", glob=True), Word("-name"), Word("x")], True),
        ([Word("find"), Word("."), Word("-name"), Word("a*", glob=True)], False),
        ([Word("git"), Word("log"), Word("--"), GLOB], True),
        ([Word("git"), Word("-C"), Word("./*", glob=True), Word("log")], False),
        ([Word("l*", glob=True)], False),
    ],
    ids=lambda value: " ".join(w.text for w in value) if isinstance(value, list) else "",
)
def test_a_glob_is_no_way_to_an_option(command: list[Word], released: bool) -> None:
    assert (why_not(command, STANDARD) == "") is released


def test_a_policy_adds_programs_and_subcommands_and_takes_others_away() -> None:
    programs = STANDARD.with_(
        {"tokei": ANY, "git fetch": entry("--dry-run", operands=0), "make": entry("-n")},
        ["cat", "git blame", "nothing", "nothing of it"],
    )
    assert why("tokei --anything x", programs) == ""
    assert why("git fetch --dry-run", programs) == ""
    assert why("git fetch origin", programs) != ""
    assert why("git log -1", programs) == ""
    assert why("git blame x", programs) != ""
    assert why("cat x", programs) != ""
    assert why("make -n", programs) == ""
    assert why("git blame x") == ""
    assert why("git fetch --dry-run") != ""


def test_a_subcommand_of_a_new_program_is_all_that_is_known_of_it() -> None:
    programs = STANDARD.with_({"jj log": ANY})
    assert why("jj log -r x", programs) == ""
    assert why("jj", programs) != ""
    assert why("jj new", programs) != ""

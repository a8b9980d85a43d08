"""The second reading: what the parser sees must be what the strict pass saw."""

from __future__ import annotations

import pytest

from modegate.core.argument.shell.tokens import Kind, Token, tokens
from modegate.core.argument.shell.tree import check_tree
from modegate.core.argument.understanding import NotUnderstood

AGREED = {
    "words and signs": ("ls -la; (pwd) && ! id | wc", [0, 9, 19, 24]),
    "redirections": ("cat a <b 2>&1 >/dev/null c", [0]),
    "pieces that touch": ("grep 'It'\\''s'\"a\"\\* b", [0]),
    "test": ("[ -f a ] || [ a = b ]", [0, 12]),
    "assignment": ("LC_ALL=C ls", [9]),
    "odd letters in quotes": ("cat 'ä😀' a; ls", [0, 12]),
}


@pytest.mark.parametrize(("source", "names"), AGREED.values(), ids=AGREED)
def test_both_readings_agree(source: str, names: list[int]) -> None:
    check_tree(source, tokens(source), names)


WORDS = (Token(Kind.WORD, 0, 2), Token(Kind.WORD, 3, 4))
DISAGREED = {
    "a word more": ("ls a b", WORDS, [0]),
    "a word less": ("ls  ", WORDS, [0]),
    "a longer word": ("ls ab", WORDS, [0]),
    "words that touch are one": ("ls'a'b", (Token(Kind.WORD, 0, 2), Token(Kind.WORD, 2, 6)), [0]),
    "another command": (
        "ls;a",
        (Token(Kind.WORD, 0, 2), Token(Kind.END, 2, 3), Token(Kind.WORD, 3, 4)),
        [0],
    ),
    "no command there": ("ls a", WORDS, [0, 3]),
}


@pytest.mark.parametrize(("source", "seen", "names"), DISAGREED.values(), ids=DISAGREED)
def test_readings_that_differ_are_refused(
    source: str, seen: tuple[Token, ...], names: list[int]
) -> None:
    with pytest.raises(NotUnderstood, match="more than one way"):
        check_tree(source, seen, names)


UNREAD = {
    "substitution": "ls $(id)",
    "substitution in a word": 'ls "a$(id)"',
    "loop": "for a in b; do ls; done",
    "function": "a() { ls; }",
    "heredoc": "cat <<E\na\nE\n",
    "here-string": "cat <<< a",
    "process": "cat <(ls)",
    "conditional": "[[ -f a ]]",
    "arithmetic": "((a))",
    "parameter": "ls ${a}",
    "ANSI-C quotes": "ls $'a'",
    "assignment alone": "a=b; c=d",
    "background": "ls & pwd",
    "writing": "ls >> a",
    "unfinished": "ls &&",
    "open quote": "ls 'a",
}


@pytest.mark.parametrize("source", UNREAD.values(), ids=UNREAD)
def test_nodes_that_are_not_known_are_refused(source: str) -> None:
    """Whatever the strict pass would let through: nothing of it is looked at here."""
    with pytest.raises(NotUnderstood):
        check_tree(source, (), ())

"""A strict lexical pass over a command: words and a few signs, or it is not understood.

It reads less than any shell does. Whatever bash, dash and zsh could take differently is refused here, before
a parser sees it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from modegate.core.argument.shell.standard_input import names_input
from modegate.core.argument.shell.words import Word, read_word
from modegate.core.argument.understanding import NotUnderstood, quoted

MOST_CHARACTERS = 65_536
MOST_TOKENS = 1_024
MOST_PIECES = 4_096
"""Quotes, escapes and globs, of which each word can have many."""


class Kind(StrEnum):
    """What a token is."""

    WORD = "word"
    END = "end"
    """`;` or the end of a line."""
    JOIN = "join"
    """`&&` or `||`."""
    PIPE = "pipe"
    OPEN = "open"
    CLOSE = "close"
    REDIRECT = "redirect"
    COMMENT = "comment"


_NO_WORD = Word("")


@dataclass(frozen=True, slots=True)
class Token:
    """A word or a sign: where it stands, its word if it is a word, where the parts of a redirection are."""

    kind: Kind
    start: int
    end: int
    word: Word = _NO_WORD
    parts: tuple[tuple[int, int], ...] = ()

    def is_bare(self, text: str) -> bool:
        """Return whether it is this word, without quotes."""
        return self.kind is Kind.WORD and self.word.text == text and not self.word.quoted


_BEHIND_BLANK = r"(?<![^ \n])"
_BEFORE_END = r"(?=[ \n;|&)]|\Z)"
_SIGN = re.compile(
    r"(?P<blank>(?: |(?<= )\\\n)+)"
    r"|(?P<end>;|\n)"
    r"|(?P<join>&&|\|\|)"
    r"|(?P<pipe>\|&?)"  # all that is read are readers, so `|&` gives one's errors to another
    r"|(?P<open>\((?!\()|(?<![^ \n;|&(])\{(?=[ \n]))"
    rf"|(?P<close>\)|(?<![^ \n;])\}}{_BEFORE_END})"
    rf"|(?P<comment>{_BEHIND_BLANK}#[^\n]*)"
    rf"|(?P<redirect>{_BEHIND_BLANK}(?:"
    r"(?P<descriptor>[12]?)(?P<copy>>&)(?P<other>[12])"
    r"|(?P<number>[12]?)(?P<into>>) *(?P<null>/dev/null)"
    rf"|(?P<both>&>) *(?P<both_null>/dev/null)){_BEFORE_END})"
    rf"|(?P<input>{_BEHIND_BLANK}<) *(?![ \n;|&<>()#]|\Z)"
)
_PARTS = ("descriptor", "copy", "other", "number", "into", "null", "both", "both_null")
_UNREAD = (
    (re.compile(r"[0-9]*<<"), "`<<` is not read; name a file"),
    (
        re.compile(r"[0-9]*[<>]|&>"),
        "only `2>&1`, `1>&2`, `> /dev/null` and `< FILE` are read, with a blank in front",
    ),
    (re.compile("&"), "`&` runs a command in the background; leave it out"),
    (re.compile(r"\(\("), "`((` is not read; put a blank between groups"),
)


def tokens(source: str) -> list[Token]:
    """Read a whole command.

    Raises:
        NotUnderstood: something in it is no plain word and no sign of the few that are read.
    """
    _check_characters(source)
    found: list[Token] = []
    at = 0
    while at < len(source):
        sign = _SIGN.match(source, at)
        if sign is not None and sign.lastgroup == "blank":
            at = sign.end()
            continue
        token = _word(source, at) if sign is None else _sign(source, sign)
        found.append(token)
        at = token.end
        if len(found) > MOST_TOKENS:
            raise NotUnderstood(f"more than {MOST_TOKENS} words are not read")
    return found


def _check_characters(source: str) -> None:
    if len(source) > MOST_CHARACTERS:
        raise NotUnderstood(f"a command of more than {MOST_CHARACTERS} characters is not read")
    if sum(map(source.count, "'\"\\*?[")) > MOST_PIECES:
        raise NotUnderstood(f"more than {MOST_PIECES} quotes, escapes and globs are not read")
    if "\t" in source:  # a shell that a person types into completes a word at a tab
        raise NotUnderstood("a tab is not read; use blanks")
    if not source.replace("\n", "").isprintable():
        odd = next(sign for sign in source if sign != "\n" and not sign.isprintable())
        raise NotUnderstood(f"the character U+{ord(odd):04X} is not read")


def _sign(source: str, sign: re.Match[str]) -> Token:
    if sign.lastgroup == "input":
        return _input(source, sign)
    parts = tuple(sign.span(part) for part in _PARTS if sign[part])
    return Token(Kind(sign.lastgroup or ""), sign.start(), sign.end(), parts=parts)


def _input(source: str, sign: re.Match[str]) -> Token:
    word, end = read_word(source, sign.end())
    if word.varies:
        raise NotUnderstood("`<` takes one file, written out")
    if names_input(word.text):
        raise NotUnderstood(f"{quoted('< ' + word.text)} is what the shell itself may read")
    if word.text.startswith("/dev/") and word.text != "/dev/null":
        raise NotUnderstood(f"{quoted('< ' + word.text)} can open a connection or a device")
    return Token(Kind.REDIRECT, sign.start(), end, parts=(sign.span("input"), (sign.end(), end)))


def _word(source: str, at: int) -> Token:
    if source[at] in "&<>(0123456789":
        for sign, why in _UNREAD:
            if sign.match(source, at):
                raise NotUnderstood(why)
    word, end = read_word(source, at)
    return Token(Kind.WORD, at, end, word)

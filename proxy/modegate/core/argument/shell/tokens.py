"""A strict lexical pass over a command: words and a few signs, or it is not understood.

It reads less than any shell does. Whatever bash, dash and zsh could take differently is refused here, before
a parser sees it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from modegate.core.argument.shell.words import Word, read_word
from modegate.core.argument.understanding import NotUnderstood

MOST_CHARACTERS = 65_536
MOST_TOKENS = 4_096


class Kind(StrEnum):
    """What a token is."""

    WORD = "word"
    END = ";"
    JOIN = "&&"
    PIPE = "|"
    OPEN = "("
    CLOSE = ")"
    REDIRECT = ">"
    COMMENT = "#"


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


_SIGN = re.compile(
    r"""(?P<blank>(?:[ \t]|(?:(?<=[ \t])|\A)\\\n)+)
      | (?P<end>;|\n)
      | (?P<join>&&|\|\|)
      | (?P<pipe>\|&?)
      | (?P<open>\((?!\()|(?<![^ \t\n;|&(]){(?=[ \t\n]))
      | (?P<close>\)|(?<![^ \t\n;])}(?=[ \t\n;|&)]|\Z))
      | (?P<comment>(?<![^ \t\n])\#[^\n]*)
      | (?P<redirect>(?<![^ \t\n])(?:(?P<descriptor>[12]?)(?P<copy>>&)(?P<other>[12])
                                 | (?P<number>[12]?)(?P<into>>)[ \t]*(?P<null>/dev/null)
                                 | (?P<both>&>)[ \t]*(?P<both_null>/dev/null))(?=[ \t\n;|&)]|\Z))
      | (?P<input>(?<![^ \t\n])<(?=[ \t]*[^ \t\n<>&(]))""",
    re.VERBOSE,
)
_PARTS = ("descriptor", "copy", "other", "number", "into", "null", "both", "both_null")
_REDIRECTION = re.compile(r"[0-9]*[<>]|&>")
_HERE = re.compile(r"[0-9]*<<")


def tokens(source: str) -> list[Token]:
    """Read a whole command.

    Raises:
        NotUnderstood: something in it is no plain word and no sign of the few that are read.
    """
    found: list[Token] = []
    at = 0
    while at < len(source):
        sign = _SIGN.match(source, at)
        if sign is None:
            found.append(_word(source, at))
        elif sign.lastgroup == "input":
            found.append(_input(source, at, sign.end()))
        elif sign["blank"] is None:
            found.append(_sign(sign))
        at = found[-1].end if sign is None or sign["blank"] is None else sign.end()
        if len(found) > MOST_TOKENS:
            raise NotUnderstood(f"more than {MOST_TOKENS} words are not read")
    return found


def _sign(sign: re.Match[str]) -> Token:
    kinds = {
        "end": Kind.END,
        "join": Kind.JOIN,
        "pipe": Kind.PIPE,
        "open": Kind.OPEN,
        "close": Kind.CLOSE,
    }
    name = next(name for name in (*kinds, "comment", "redirect") if sign[name] is not None)
    if name == "comment":
        return Token(Kind.COMMENT, sign.start(), sign.end())
    if name == "redirect":
        parts = tuple(sign.span(part) for part in _PARTS if sign[part])
        return Token(Kind.REDIRECT, sign.start(), sign.end(), parts=parts)
    return Token(kinds[name], sign.start(), sign.end())


def _word(source: str, at: int) -> Token:
    if _HERE.match(source, at):
        raise NotUnderstood("`<<` is not read; name a file")
    if _REDIRECTION.match(source, at):
        raise NotUnderstood(
            "only `2>&1`, `1>&2`, `> /dev/null` and `< FILE` are read, with a blank in front"
        )
    if source[at] == "&":
        raise NotUnderstood("`&` runs a command in the background")
    if source.startswith("((", at):
        raise NotUnderstood("`((` is not read")
    word, end = read_word(source, at)
    return Token(Kind.WORD, at, end, word)


def _input(source: str, at: int, sign_end: int) -> Token:
    start = re.compile(r"[ \t]*").match(source, sign_end).end()  # type: ignore[union-attr]
    word, end = read_word(source, start)
    if word.glob or word.expands:
        raise NotUnderstood("`<` takes one file, written out")
    if word.text.startswith("/dev/") and word.text != "/dev/null":
        raise NotUnderstood(f"`< {word.text[:64]}` can open a connection or a device")
    return Token(Kind.REDIRECT, at, end, parts=((at, sign_end), (start, end)))

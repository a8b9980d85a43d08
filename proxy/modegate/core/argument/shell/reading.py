"""From the text of a command to its simple commands, all understood or none.

It is read twice: by the strict pass of `tokens`, and by a kept parser (`tree`). Both must see the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import takewhile

from modegate.core.argument.shell.tokens import Kind, Token, tokens
from modegate.core.argument.shell.tree import check_tree
from modegate.core.argument.shell.words import Word
from modegate.core.argument.understanding import NotUnderstood, quoted
from modegate.core.wire.arguments import words

MOST_COMMANDS = 256
DEEPEST = 16

_KEYWORDS = words(
    "! if then elif else fi for foreach while until do done case esac in select function repeat end coproc"
    " always noglob nocorrect builtin exec eval source declare typeset local export readonly integer float"
)
"""What is no program to some shell, so that it must not be the name of one."""
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_COMMENT = re.compile(r"#[A-Za-z0-9 _.,:+@%/#-]{0,1000}\Z")


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """What a shell runs as one command."""

    assignments: tuple[Word, ...]
    words: tuple[Word, ...]
    """The name, and what the program gets."""
    comment: tuple[Word, ...]
    """A comment behind it: a zsh that a person types into takes it for more words."""
    fed: bool = False
    """A pipe or a file is its input, or that of a group around it."""


def simple_commands(source: str) -> list[SimpleCommand]:
    """Return every simple command that a shell could run for `source`, in the order of the text.

    Raises:
        NotUnderstood: a part of it is not understood completely.
    """
    found = tokens(source)
    drafts = _Grouping(source).group(found)
    names = [sum(1 for _ in takewhile(_is_assignment, draft.tokens)) for draft in drafts]
    if any(at == len(draft.tokens) for at, draft in zip(names, drafts, strict=True)):
        raise NotUnderstood("a variable is set only in front of a command")
    check_tree(
        source, found, [draft.tokens[at].start for at, draft in zip(names, drafts, strict=True)]
    )
    return [_command(draft, at) for at, draft in zip(names, drafts, strict=True)]


@dataclass(slots=True)
class _Draft:
    """A command while its words are found."""

    tokens: list[Token] = field(default_factory=list)
    comment: tuple[Word, ...] = ()
    fed: bool = False


def _command(draft: _Draft, name: int) -> SimpleCommand:
    found = tuple(token.word for token in draft.tokens)
    return SimpleCommand(found[:name], found[name:], draft.comment, draft.fed)


def _is_assignment(token: Token) -> bool:
    return _ASSIGNMENT.match(token.word.text) is not None


class _Place(Enum):
    """What has just been read, so what may follow."""

    START = "nothing that must be followed by a command"
    OPEN = "a sign that a command must follow"
    PIPED = "`|`"
    NOT = "`!`"
    COMMAND = "a part of a command"
    FULL = "a part of a command that no word may follow"
    CLOSED = "a whole group"


_OPEN = frozenset({_Place.OPEN, _Place.PIPED, _Place.NOT})


class _Grouping:
    """Goes over the tokens once, and holds what of them is still open."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._drafts: list[_Draft] = []
        self._open: list[str] = []
        self._fed: list[bool] = []
        """Of each open group, whether a pipe is its input or that of a group around it."""
        self._place = _Place.START

    def group(self, found: Sequence[Token]) -> list[_Draft]:
        for token in found:
            self._take(token)
        if self._open or self._place in _OPEN:
            raise NotUnderstood("the command is not finished")
        if not self._drafts:
            raise NotUnderstood("there is no command in it")
        return self._drafts

    def _take(self, token: Token) -> None:
        match token.kind:
            case Kind.WORD:
                self._word(token)
            case Kind.REDIRECT:
                self._redirect(token)
            case Kind.COMMENT:
                self._comment(token)
            case Kind.OPEN:
                self._open_group(token)
            case Kind.CLOSE:
                self._close_group(token)
            case Kind.END:
                self._end(token)
            case Kind.JOIN | Kind.PIPE:
                self._after_command(token)
                self._place = _Place.OPEN if token.kind is Kind.JOIN else _Place.PIPED

    def _word(self, token: Token) -> None:
        match self._place:
            case _Place.START | _Place.OPEN if token.is_bare("!"):
                self._place = _Place.NOT
            case _Place.START | _Place.OPEN | _Place.PIPED | _Place.NOT:
                self._begin(token)
            case _Place.COMMAND:
                self._drafts[-1].tokens.append(token)
            case _:
                raise NotUnderstood(
                    f"{self._quoted(token)} stands where no word can stand; put it in front"
                )

    def _begin(self, token: Token) -> None:
        if len(self._drafts) >= MOST_COMMANDS:
            raise NotUnderstood(f"more than {MOST_COMMANDS} commands in one are not read")
        if token.word.text in _KEYWORDS:
            raise NotUnderstood(f"`{token.word.text}` is not read; use plain commands")
        self._drafts.append(_Draft([token], fed=self._is_fed()))
        self._place = _Place.COMMAND

    def _redirect(self, token: Token) -> None:
        if self._place not in (_Place.COMMAND, _Place.FULL, _Place.CLOSED):
            raise NotUnderstood(f"{self._quoted(token)} must stand behind a command")
        if self._place is _Place.COMMAND and self._source[token.start] == "&":
            self._place = _Place.FULL  # dash takes `&` for the end of the command
        if self._place is not _Place.CLOSED and self._source[token.start] == "<":
            self._drafts[-1].fed = True

    def _comment(self, token: Token) -> None:
        """A zsh that a person types into takes a comment for words, so it must do no harm as those either."""
        text = self._source[token.start : token.end]
        if not _COMMENT.match(text):
            raise NotUnderstood("a comment is read only of plain letters; leave it out")
        if self._place in (_Place.COMMAND, _Place.FULL):
            self._drafts[-1].comment = tuple(map(Word, text.split()))

    def _open_group(self, token: Token) -> None:
        if self._place is not _Place.START and self._place not in _OPEN:
            raise NotUnderstood(f"{self._quoted(token)} inside a command is read only in quotes")
        if len(self._open) >= DEEPEST:
            raise NotUnderstood(f"groups in more than {DEEPEST} groups are not read")
        self._fed.append(self._is_fed())
        self._open.append(self._source[token.start])
        self._place = _Place.OPEN

    def _close_group(self, token: Token) -> None:
        sign = self._written(token)
        opened = self._open.pop() if self._open else ""
        if opened:
            self._fed.pop()
        if opened + sign not in ("()", "{}") or self._place in _OPEN:
            raise NotUnderstood(f"`{sign}` closes nothing")
        if sign == "}" and self._place is not _Place.START:
            raise NotUnderstood("`}` needs a `;` in front")
        self._place = _Place.CLOSED

    def _end(self, token: Token) -> None:
        if self._source[token.start] == ";":
            self._after_command(token)
        elif self._place is _Place.NOT:
            raise NotUnderstood("`!` at the end of a line is not read")
        if self._place not in _OPEN:
            self._place = _Place.START

    def _after_command(self, token: Token) -> None:
        if self._place in (_Place.COMMAND, _Place.FULL, _Place.CLOSED):
            return
        raise NotUnderstood(f"there is no command in front of {self._quoted(token)}")

    def _is_fed(self) -> bool:
        return self._place is _Place.PIPED or self._fed[-1:] == [True]

    def _written(self, token: Token) -> str:
        return self._source[token.start : token.end]

    def _quoted(self, token: Token) -> str:
        written = self._written(token)
        return "the end of the line" if written == "\n" else quoted(written)

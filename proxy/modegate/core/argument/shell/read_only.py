"""Whether a command only reads: the entry for conditions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from modegate.core.argument.shell.programs import Programs, why_not
from modegate.core.argument.shell.reading import simple_commands
from modegate.core.argument.shell.standard_input import why_reads_input
from modegate.core.argument.shell.tokens import MOST_CHARACTERS, MOST_TOKENS
from modegate.core.argument.shell.words import Word, literal
from modegate.core.argument.shell.wrappers import unwrapped
from modegate.core.argument.understanding import NotUnderstood, quoted

_SHELL = re.compile(r"(?:/usr/bin/|/bin/)?(?:bash|sh|zsh|dash)\Z")
_SIGN = re.compile(r"[;&|<>()`]")
"""What ends a command, writes or runs another one, where a list was made a text."""
_TEXT_ONLY = (
    'a list of words is read without ; & | < > ( ) and backquotes; write it as ["bash", "-lc", "…"]'
)
_ASSIGNABLE = {
    "LC_ALL": re.compile(r"[A-Za-z][A-Za-z0-9_.@-]{0,31}\Z"),
    "LANG": re.compile(r"[A-Za-z][A-Za-z0-9_.@-]{0,31}\Z"),
    "TERM": re.compile(r"[A-Za-z][A-Za-z0-9_.+-]{0,31}\Z"),
    "NO_COLOR": re.compile(r"[A-Za-z0-9]{1,8}\Z"),
    "COLUMNS": re.compile(r"[0-9]{1,5}\Z"),
}


def why_not_read_only(command: object, programs: Programs) -> str:
    """Return why a command may do more than read, as a phrase for the model; "" if it only reads.

    `command` is what a shell is given, or a list of words that is run without one. A list that hands one
    script to a shell (`["bash", "-lc", "…"]`) is that script.
    """
    try:
        return _why_not(command, programs)
    except NotUnderstood as error:
        return str(error)


def _why_not(command: object, programs: Programs) -> str:
    match command:
        case str():
            return _why_not_script(command, programs)
        case [str(shell), "-c" | "-lc", str(script)] if _SHELL.match(shell):
            return _why_not_script(script, programs)
        case list() if command:
            return _why_not_words(command, programs)
        case _:
            return "a command is a text, or a list of words"


def _why_not_script(script: str, programs: Programs) -> str:
    for command in simple_commands(script):
        for assignment in command.assignments:
            _check_assignment(assignment)
        why = _why_not_one(command.words, programs)
        if command.comment and not why:
            why = _why_not_one(command.words + command.comment, programs)
        if not why and not command.fed:
            why = why_reads_input(unwrapped(command.words))
        if why:
            return why
    return ""


def _why_not_words(words: Sequence[object], programs: Programs) -> str:
    texts = [word for word in words if isinstance(word, str)]
    if len(texts) != len(words):
        return "a command's words are texts"
    if len(texts) > MOST_TOKENS:
        return f"more than {MOST_TOKENS} words are not read"
    if sum(map(len, texts)) + len(texts) > MOST_CHARACTERS:
        return f"a command of more than {MOST_CHARACTERS} characters is not read"
    why = _why_not_one([*map(literal, texts)], programs)
    # JavaScript makes "echo,;rm a" of ["echo", ";rm a"] where a text is wanted, and a shell then runs `rm`.
    return why or (_TEXT_ONLY if any(map(_SIGN.search, texts)) else "")


def _check_assignment(word: Word) -> None:
    name, _, value = word.text.partition("=")
    if name not in _ASSIGNABLE or word.quoted or word.glob or not _ASSIGNABLE[name].match(value):
        raise NotUnderstood(f"{quoted(name + '=')} in front of a command is not read; leave it out")


def _why_not_one(words: Sequence[Word], programs: Programs) -> str:
    run = unwrapped(words)
    if run[0].text == "cd":
        return _why_not_cd(run[1:])
    return why_not(run, programs)


def _why_not_cd(operands: Sequence[Word]) -> str:
    if len(operands) > 1:
        return "`cd` takes one folder"
    if any(word.glob_at_head or word.text[:1] in ("-", "+") for word in operands):
        return "`cd` takes a folder, and no option, glob or variable outside quotes"
    return ""

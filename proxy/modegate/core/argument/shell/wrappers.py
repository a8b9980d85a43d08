"""Programs that run the command behind them and do nothing else: the command is judged in their place."""

from __future__ import annotations

import re
from collections.abc import Sequence

from modegate.core.argument.shell.words import Word
from modegate.core.argument.understanding import NotUnderstood, quoted

_DURATION = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?[smhd]?\Z")
_SIGNAL = re.compile(r"[A-Z0-9]{1,12}\Z")
_ADJUSTMENT = re.compile(r"-?[0-9]{1,3}\Z")

_NAME = re.compile(r"(?:/usr/bin/|/bin/)?([A-Za-z0-9][A-Za-z0-9_.+-]*)\Z")
_OPTIONS: dict[str, dict[str, re.Pattern[str] | None]] = {
    "timeout": {
        "-s": _SIGNAL,
        "--signal": _SIGNAL,
        "-k": _DURATION,
        "--kill-after": _DURATION,
        "-v": None,
        "--verbose": None,
        "--foreground": None,
        "--preserve-status": None,
    },
    "nice": {"-n": _ADJUSTMENT, "--adjustment": _ADJUSTMENT},
    "time": {},
    "env": {},
    "command": {},
}
"""Options that are read, with what their value must look like."""


def unwrapped(words: Sequence[Word]) -> tuple[Word, ...]:
    """Return the words of the command that is run in the end, the name plain and without its folder.

    Raises:
        NotUnderstood: a name on the way is not plain, or a wrapper has an option that is not read.
    """
    at = 0
    while True:
        name = plain_name(words[at])
        options = _OPTIONS.get(name)
        behind = at if options is None else _behind(name, options, words, at + 1)
        if behind == at or behind >= len(words):
            return (Word(name), *words[at + 1 :])
        at = behind


def plain_name(word: Word) -> str:
    """Return the name of a program that a word spells plainly, without `/bin/` or `/usr/bin/`.

    Raises:
        NotUnderstood: it is a path, quoted, a variable or a glob.
    """
    if word.text == "[" and not word.quoted:
        return word.text
    match = _NAME.match(word.text)
    if match is None or word.quoted or word.varies:
        raise NotUnderstood(f"{quoted(word.text)} is no plain name of a program")
    return match[1]


def _behind(
    name: str, options: dict[str, re.Pattern[str] | None], words: Sequence[Word], at: int
) -> int:
    """Return where the command behind a wrapper's own words begins; the wrapper's place if it runs none."""
    if name == "command" and at < len(words) and words[at].text in ("-v", "-V"):
        return at - 1
    while at < len(words) and words[at].text.startswith("-"):
        at = _behind_option(name, options, words, at)
    if name == "timeout" and at < len(words):
        if words[at].glob or not _DURATION.match(words[at].text):
            raise NotUnderstood(f"{quoted(words[at].text)} is no time for `timeout`")
        at += 1
    return at


def _behind_option(
    name: str, options: dict[str, re.Pattern[str] | None], words: Sequence[Word], at: int
) -> int:
    option, joined, value = words[at].text.partition("=")
    if option not in options or words[at].varies:
        raise NotUnderstood(f"{quoted(f'{name} {option}')} is not read")
    wanted = options[option]
    if wanted is None:
        if joined:
            raise NotUnderstood(f"`{option}` takes no value")
        return at + 1
    if not joined:
        at += 1
        value = words[at].text if at < len(words) and not words[at].glob else ""
    elif not option.startswith("--"):
        value = joined + value
    if not wanted.match(value):
        raise NotUnderstood(f"the value of `{name} {option}` is not read")
    return at + 1

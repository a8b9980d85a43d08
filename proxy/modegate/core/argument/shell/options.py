"""How a program reads its options, by its entry; what no reading is sure of is refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from modegate.core.argument.shell.entry import Entry, Read
from modegate.core.argument.shell.words import Word
from modegate.core.argument.understanding import NotUnderstood

_GLOB = re.compile(r"[*?\[^]|.#")  # the last two in some settings of zsh
MOST_IN_A_WORD = 64
_NUMBER = re.compile(r"-[0-9]+")
_NO_OPTION = re.compile(r"-[^A-Za-z-]|-?\Z")
SHOWN = 40


def shown(text: str) -> str:
    """Return a word as a message shows it: printable, and not long."""
    plain = "".join(char if char.isprintable() and char != "`" else "?" for char in text)
    return plain if len(plain) <= SHOWN else plain[: SHOWN - 1] + "…"


def read(label: str, entry: Entry, words: Sequence[Word]) -> Read:
    """Return the words behind a program's name as options and operands.

    Words behind the name of a subcommand are not looked at: all of them are operands here.

    Args:
        label: what the program is called in messages; with its subcommand if the entry is one's.

    Raises:
        NotUnderstood: an option is not known to be safe, or versions of the program read a word differently.
    """
    if entry.any_options:
        for word in words:
            if word.text in entry.refused:
                raise NotUnderstood(f"`{label} {word.text}` {entry.refused[word.text]}")
        operands = tuple(word for word in words if not _is_option(word))
        return Read(tuple(words), (), operands)
    return _Reading(label, entry, tuple(words)).read()


def _is_option(word: Word) -> bool:
    return word.text.startswith("-") and word.text != "-"


@dataclass(slots=True)
class _Reading:
    label: str
    entry: Entry
    words: tuple[Word, ...]
    at: int = 0
    options: list[tuple[str, str]] = field(default_factory=list)
    operands: list[Word] = field(default_factory=list)
    first: int | None = None

    def read(self) -> Read:
        while self.at < len(self.words):
            word = self.words[self.at]
            self.at += 1
            if word.text == "--" and self.entry.ends:
                self._behind_end()
                break
            if _is_option(word):
                self._option(word)
                continue
            if word.glob_at_head and not self.entry.globs:
                raise NotUnderstood(
                    f"`{shown(word.text)}` could match a file that is called like an option of "
                    f"`{self.label}`; quote it, or write `./{shown(word.text)}`"
                )
            self._operands((word,))
            if word.text in self.entry.commands:
                self._operands(self.words[self.at :])
                break
        first = len(self.options) if self.first is None else self.first
        return Read(self.words, tuple(self.options), tuple(self.operands), first)

    def _behind_end(self) -> None:
        """Take the words behind `--`. If the word before it took it for its value, they are options still."""
        rest = self.words[self.at :]
        if self.at > 1 and _is_option(self.words[self.at - 2]):
            for word in rest:
                name = word.text.partition("=")[0]
                if _is_option(word) and not {name, name[:2]}.isdisjoint(self.entry.refused):
                    raise NotUnderstood(f"`{shown(word.text)}` may be an option of `{self.label}`")
        self._operands(rest)

    def _operands(self, words: tuple[Word, ...]) -> None:
        if words and self.first is None:
            self.first = len(self.options)
        self.operands += words

    def _option(self, word: Word) -> None:
        if self.entry.numbers and _NUMBER.fullmatch(word.text) and not word.glob:
            self.options.append((word.text, ""))
        elif self.entry.style == "one-dash":
            self._one_dash(word)
        elif word.text.startswith("--"):
            self._long(word)
        else:
            self._cluster(word)
        if self.operands and self.entry.operands is not None:
            raise NotUnderstood(
                f"`{shown(word.text)}` is an operand to some versions of `{self.label}`; write options first"
            )

    def _long(self, word: Word) -> None:
        name, equals, value = word.text.partition("=")
        if name in self.entry.options and not equals:
            self._add(word, name, "", len(name))
        elif name in self.entry.values and not equals:
            self._next(word, name)
        elif name in self.entry.values or name in self.entry.optional:
            self._add(word, name, value, len(name) + 1)
        else:
            raise NotUnderstood(self._why_refused(name))

    def _one_dash(self, word: Word) -> None:
        name, text = word.text[:2], word.text
        if name in self.entry.values and text[2:].isdecimal() and text[2:].isascii():
            self._add(word, name, text[2:], 2)
        else:
            self._long(word)

    def _cluster(self, word: Word) -> None:
        text = word.text
        for at in range(1, len(text)):
            if at > MOST_IN_A_WORD:  # each one looks over the whole word
                raise NotUnderstood(f"more than {MOST_IN_A_WORD} options in a word are not read")
            name, rest = f"-{text[at]}", text[at + 1 :]
            if name in self.entry.options:
                self._add(word, name, "", at + 1)
            elif name in self.entry.values and not rest:
                self._next(word, name)
            elif name in self.entry.values or name in self.entry.optional:
                if not (self.entry.joined or rest.isdecimal()):
                    raise NotUnderstood(f"`{shown(text)}`: write the value of `{name}` apart")
                self._add(word, name, rest, at + 1)
                return
            else:
                raise NotUnderstood(self._why_refused(name, text))

    def _next(self, word: Word, name: str) -> None:
        """Take the next word as the value. If it looks like an option, it must be safe as one, too."""
        if self.at == len(self.words):  # none is needed, or it is a mistake
            self._add(word, name, "", len(word.text))
            return
        value = self.words[self.at]
        self.at += 1
        if value.glob:
            raise NotUnderstood(
                f"`{shown(value.text)}` behind `{name}` can become several words; quote it"
            )
        if _is_option(value) and not (_NO_OPTION.match(value.text) or self._is_flag(value.text)):
            raise NotUnderstood(
                f"`{shown(value.text)}` behind `{name}` looks like an option of `{self.label}`"
            )
        self._add(word, name, value.text, len(word.text))

    def _is_flag(self, text: str) -> bool:
        """Return whether a word is an option, or several, that take no value."""
        short = self.entry.style == "gnu" and not text.startswith("--")
        return text in self.entry.options or (
            short and all(f"-{letter}" in self.entry.options for letter in text[1:])
        )

    def _add(self, word: Word, name: str, value: str, starts: int) -> None:
        """Note an option whose value begins at `starts` of its word."""
        glob = _GLOB.search(word.text) if word.glob else None
        judged = name in self.entry.choices or self.entry.check is not None
        if word.glob and (judged or glob is None or glob.start() < starts):
            raise NotUnderstood(f"`{shown(word.text)}` can become another option; quote it")
        choices = self.entry.choices.get(name)
        if choices is not None and value not in choices:
            raise NotUnderstood(f"`{self.label} {name}` may only be {' or '.join(choices)}")
        self.options.append((name, value))

    def _why_refused(self, name: str, text: str = "") -> str:
        refused = self.entry.refused
        if name in refused:
            return f"`{self.label} {name}` {refused[name]}"
        if name.startswith("--"):
            for longer, why in refused.items():
                if longer.startswith(name) and len(name) > len("--"):
                    return (
                        f"`{self.label} {shown(name)}` could be short for `{longer}`, which {why}"
                    )
        where = f" in `{shown(text)}`" if len(text) > len(name) else ""
        return f"`{self.label} {shown(name)}`{where} is not among the options known to be safe"

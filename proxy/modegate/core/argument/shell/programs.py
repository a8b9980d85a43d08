"""Which programs only read, with which options and operands; whether a simple command is one of them.

The table is data: `table/` has it, and a policy can add to it and take from it. What it cannot see are the
aliases and functions of the agent's shell, its `PATH` and environment, and the configuration of programs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from modegate.core.argument.globs import glob_matches
from modegate.core.argument.shell.entry import Entry, Read
from modegate.core.argument.shell.options import read, shown
from modegate.core.argument.shell.table import ENTRIES
from modegate.core.argument.shell.words import Word
from modegate.core.argument.understanding import NotUnderstood

_FOLDER = re.compile(r"(?:/usr)?/bin/")


@dataclass(frozen=True, slots=True)
class Programs:
    """What is known of each program, by its name."""

    entries: Mapping[str, Entry]

    def find(self, path: Sequence[str]) -> Entry | None:
        """Return the entry of a program, or of a subcommand: `["git", "log"]`."""
        known: Mapping[str, Entry] = self.entries
        found = None
        for name in path:
            found = known.get(name)
            if found is None:
                return None
            known = found.commands
        return found

    def with_(self, commands: Mapping[str, Entry], without: Iterable[str] = ()) -> Programs:
        """Return the table with programs added or replaced, and others taken away.

        A name of several words is that of a subcommand: `git fetch` is added to what is known of `git`.
        """
        entries = dict(self.entries)
        for name in without:
            entries = _put(entries, name.split(), None)
        for name, entry in commands.items():
            entries = _put(entries, name.split(), entry)
        return Programs(entries)


STANDARD = Programs(ENTRIES)


def why_not(words: Sequence[Word], programs: Programs) -> str:
    """Return "" if a simple command only reads, else a phrase that says why not: "`sort -o` writes".

    Args:
        words: the command, whose first word is the program's name, plain or below /bin/ or /usr/bin/.
        programs: the table.
    """
    if not words:
        return "there is no command"
    folder = _FOLDER.match(words[0].text)
    name = words[0].text[folder.end() :] if folder else words[0].text
    entry = programs.entries.get(name)
    if entry is None or words[0].varies:
        return f"`{shown(words[0].text)}` is not among the programs known to only read"
    return _why_not(name, entry, words[1:])


def _why_not(label: str, entry: Entry, words: Sequence[Word]) -> str:
    try:
        found = read(label, entry, words)
    except NotUnderstood as error:
        return str(error)
    head = found.operands[0].text if found.operands else None
    if head is not None and head in entry.commands:
        return _why_not(f"{label} {head}", entry.commands[head], found.operands[1:])
    if entry.commands and not entry.alone:
        if head is None and entry.needs and _has_needed(entry, found):
            return ""
        called = label if head is None else f"{label} {shown(head)}"
        return f"`{called}` is not among the commands known to only read"
    if entry.needs and not _has_needed(entry, found):
        return f"`{label}` only reads with {' or '.join(map(_joined, entry.needs))}"
    return _why_not_operands(label, entry, found) or (entry.check(found) if entry.check else "")


def _has_needed(entry: Entry, found: Read) -> bool:
    given = {name for name, _ in found.options}
    return any(given.issuperset(group) for group in entry.needs)


def _joined(options: tuple[str, ...]) -> str:
    return " ".join(f"`{option}`" for option in options)


def _why_not_operands(label: str, entry: Entry, found: Read) -> str:
    if entry.listing & {name for name, _ in found.options}:
        return ""
    limited = entry.operands is not None or entry.operand or entry.not_operand
    for word in found.operands if limited else ():
        if word.glob:
            return f"`{shown(word.text)}` can become several operands of `{label}`"
        if entry.operand and not _fits(word.text, entry.operand):
            return f"`{label} {shown(word.text)}` is not known to only read"
        if _fits(word.text, entry.not_operand):
            return f"`{label} {shown(word.text)}` does more than read"
    if entry.operands is not None and len(found.operands) > entry.operands:
        most = {0: "no operand", 1: "one operand"}.get(entry.operands, f"{entry.operands} operands")
        return (
            f"`{label}` only reads with {most} at most"
            if entry.operands
            else f"`{label}` only reads with {most}"
        )
    return ""


def _fits(text: str, globs: tuple[str, ...]) -> bool:
    return any(glob_matches(glob, text) for glob in globs)


def _put(entries: Mapping[str, Entry], path: list[str], entry: Entry | None) -> dict[str, Entry]:
    """Return the entries with the one at a path put in or, if it is None, taken out."""
    name, *rest = path
    changed = dict(entries)
    if rest:
        parent = entries.get(name, None if entry is None else Entry())
        if parent is not None:
            changed[name] = replace(parent, commands=_put(parent.commands, rest, entry))
    elif entry is None:
        changed.pop(name, None)
    else:
        changed[name] = entry
    return changed

"""The table of commands with the verdict that each must get: `tests/golden/commands.yaml`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

TABLE = Path(__file__).parents[2] / "golden" / "commands.yaml"
# What each shell takes for one simple command, all of its words literal.
_PART = r"""(?:[\w./:,@%+-]|(?<=[^ ])=|'[^'\n]*[^'\n\\]'|"[^"$`\\!\n]+")+"""
_SIMPLE = re.compile(rf"[a-z][a-z0-9]*(?: {_PART})*", re.ASCII)
# `time` and `cd` belong to the shell; the others are unwrapped where they head a list.
_NOT_AS_LIST = {"time", "cd", "bash", "sh", "zsh", "dash"}


@dataclass(frozen=True)
class Golden:
    """One command: `command` is a string or a list of words, as the table has it."""

    group: str
    command: Any
    released: bool


def table() -> Iterator[Golden]:
    """Return every command of the table."""
    groups: dict[str, dict[str, list[Any]]] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    for group, verdicts in groups.items():
        for verdict, entries in verdicts.items():
            for entry in entries:
                command = entry["command"] if isinstance(entry, dict) else entry
                yield Golden(group, command, {"release": True, "refuse": False}[verdict])


def as_list(command: object) -> list[str] | None:
    """Return the words of one simple command, or nothing where a shell would do more than split it.

    Nothing either where one holds what a list may not: a tool could make a text of it.
    """
    if not isinstance(command, str) or not _SIMPLE.fullmatch(command):
        return None
    words = [
        re.sub(r"""'([^']*)'|"([^"]*)\"""", lambda part: part[1] or part[2] or "", word)
        for word in re.findall(rf"{_PART}", command)
    ]
    return None if words[0] in _NOT_AS_LIST or set(";&|<>()`") & set("".join(words)) else words

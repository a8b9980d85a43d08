"""Which programs only read: a stand-in until the table is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from modegate.core.argument.shell.words import Word


@dataclass(frozen=True, slots=True)
class Programs:
    """The names of programs that only read, whatever stands behind them."""

    names: frozenset[str]


STANDARD = Programs(frozenset({"ls", "cat", "pwd", "wc", "head", "echo", "true", "false"}))


def why_not(words: Sequence[Word], programs: Programs) -> str:
    """Return "" if a simple command only reads, else a phrase that says why not."""
    name = words[0].text
    return (
        ""
        if name in programs.names
        else f"`{name[:64]}` is not among the programs known to only read"
    )

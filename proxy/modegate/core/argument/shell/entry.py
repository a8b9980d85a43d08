"""What is known of one program: which options it may have, how they are written, and its operands.

An entry is a white list. An option that it does not name is refused, in whatever spelling: another version of
the program may give it a meaning. `ANY` is for programs that have no option that writes, runs another
program or talks to a network, in any version that is known (GNU, BSD and macOS, busybox).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from modegate.core.argument.shell.words import Word

Style = Literal["gnu", "one-dash"]
"""`gnu`: `-abc` are three options, `-ovalue` is one with its value, `--name` is a long one.
`one-dash`: each word is one option, `-name` as well as `--name`."""


@dataclass(frozen=True, slots=True)
class Read:
    """The words behind a program's name, as its entry reads them."""

    words: tuple[Word, ...]
    options: tuple[tuple[str, str], ...]
    """Each option with its value; "" where it has none."""
    operands: tuple[Word, ...]
    first: int = 0
    """How many options stand before the first operand; all of them if there is no operand."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What a program, or one of its subcommands, may be given. Options are spelled with their dashes."""

    any_options: bool = False
    """No option matters. All that concerns options below is empty then."""
    options: frozenset[str] = frozenset()
    """They take no value."""
    values: frozenset[str] = frozenset()
    """They take a value: joined, behind `=`, or the next word."""
    optional: frozenset[str] = frozenset()
    """They may have a value, which is joined or behind `=`, and is never the next word."""
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The only values that an option may have; it stands in `values` or `optional` too."""
    needs: tuple[tuple[str, ...], ...] = ()
    """All options of one of these groups must be there; empty: none is needed."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """What a dangerous option does. It is refused for not being named above; this is what people are told."""
    numbers: bool = False
    """A number is an option: `-20`."""
    globs: bool = False
    """A glob that could become an option passes: no option matters in the versions that systems bring."""
    style: Style = "gnu"
    joined: bool = True
    """`-ovalue` is an option with its value. Where not, a number may still be joined: `-L2`."""
    ends: bool = True
    """`--` ends the options."""
    operands: int | None = None
    """How many operands there may be at most; None: any number. With a limit no option may follow an operand:
    some versions of a program would take it for one more."""
    operand: tuple[str, ...] = ()
    """Globs; each operand must match one of them. Empty: any operand."""
    not_operand: tuple[str, ...] = ()
    """Globs; no operand may match one of them."""
    listing: frozenset[str] = frozenset()
    """With one of these options the limits on operands do not hold: `git branch --list 'm*'`."""
    commands: Mapping[str, Entry] = field(default_factory=dict)
    """Subcommands: what may follow the first operand."""
    alone: bool = False
    """It may be called without a subcommand too, with what is said of operands. It may if it has none."""
    check: Callable[[Read], str] | None = None
    """Looks further where a table is not enough; returns why not, or ""."""


def names(text: str) -> frozenset[str]:
    """Return the words of a list that is written as text, as the table has them."""
    return frozenset(text.split())


def entry(
    options: str = "",
    values: str = "",
    optional: str = "",
    *,
    needs: str = "",
    refused: Mapping[str, str] | None = None,
    **more: Any,
) -> Entry:
    """Return an entry whose lists are written as text: `entry("-a -b", "-n --lines")`.

    `refused` has the options of one reason together: `{"-o --output": "writes"}`. `needs` has its groups
    between `|`.
    """
    return Entry(
        options=names(options),
        values=names(values),
        optional=names(optional),
        needs=tuple(tuple(group.split()) for group in needs.split("|") if group.strip()),
        refused={name: why for text, why in (refused or {}).items() for name in text.split()},
        **more,
    )


ANY = Entry(any_options=True)
"""A program with no option that matters."""


@dataclass(frozen=True, slots=True)
class ShellSection:
    """What a policy adds to the table of programs, and takes from it.

    A name of several words is that of a subcommand: `git fetch`.
    """

    commands: Mapping[str, Entry] = field(default_factory=dict)
    without: tuple[str, ...] = ()

"""What is known of the shell's programs in one mode: the standard table, and what the policy says of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from modegate.core.argument.shell.entry import ShellSection

if TYPE_CHECKING:
    from modegate.core.argument.shell.programs import Programs


@dataclass(frozen=True)
class ShellTable:
    """The `shell` sections that hold in a mode: the file's, those of modes that it extends, its own.

    A later one has the last word on a program.
    """

    sections: tuple[ShellSection, ...] = ()

    def with_(self, *sections: ShellSection) -> ShellTable:
        """Return the table with more sections behind those that it has."""
        return ShellTable((*self.sections, *sections))

    @cached_property
    def programs(self) -> Programs:
        """The table, built once, and only where a command is to be judged: it is large."""
        from modegate.core.argument.shell.programs import STANDARD

        programs = STANDARD
        for section in self.sections:
            programs = programs.with_(section.commands, section.without)
        return programs


NO_SHELL = ShellTable()
"""Where the policy says nothing of programs."""

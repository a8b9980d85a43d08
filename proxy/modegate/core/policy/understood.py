"""The forms of a condition that read what an argument says: a command, a program, a path, a patch.

The readers stand in `core.argument`. Each is imported by the first value that needs it: parsers are large,
and most policies have no such rule.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from modegate.core.argument.understanding import NotUnderstood
from modegate.core.policy.findings import MET, Finding, Scope, all_of, not_a, unclear, unmet

if TYPE_CHECKING:
    from modegate.core.argument.javascript import InnerCall

_MOST_OF_A_PROGRAM = 1024
"""What a program counts at most, in words of commands: its tokens are bounded, and take some 50 ms."""


@dataclass(frozen=True, slots=True)
class ReadOnly:
    """`shell: read-only`: a command, or its list of words, that is understood and only reads.

    That it is not may mean that it is not understood, so it is never surely not met.
    """

    def judge(self, value: Any, scope: Scope) -> Finding:
        from modegate.core.argument.shell.read_only import why_not_read_only

        known = scope.commands
        why = known.get(value) if isinstance(value, str) else None
        if why is None:
            if not known.may_read(_words(value)):
                return unclear("is too much: all commands of an answer have too many words")
            why = why_not_read_only(value, scope.programs)
            if isinstance(value, str):
                known[value] = why
        return unclear(f"{why}; read-only commands only") if why else MET

    def written(self) -> Mapping[str, Any]:
        return {"shell": "read-only"}


@dataclass(frozen=True, slots=True)
class Calls:
    """`calls: javascript`: a program that is understood and makes only calls that the mode releases."""

    def judge(self, value: Any, scope: Scope) -> Finding:
        if not isinstance(value, str):
            return unclear("must be the text of a program")
        programs = scope.commands.programs
        if value not in programs:
            if not scope.commands.may_read(min(len(value) // 2, _MOST_OF_A_PROGRAM)):
                return unclear("is too much: all programs of an answer are too long")
            programs[value] = self._read(value)
        calls = programs[value]
        if isinstance(calls, str):
            return unclear(calls)
        return next((unclear(why) for call in calls if (why := scope.why_not_released(call))), MET)

    @staticmethod
    def _read(program: str) -> tuple[InnerCall, ...] | str:
        from modegate.core.argument.javascript import calls_of

        try:
            return calls_of(program)
        except NotUnderstood as error:
            return str(error)

    def written(self) -> Mapping[str, Any]:
        return {"calls": "javascript"}


@dataclass(frozen=True, slots=True)
class Under:
    """`path: {under: …}`: a path that stays, as it is written, below one of these folders."""

    folders: tuple[str, ...]

    def judge(self, value: Any, scope: Scope) -> Finding:
        return _below(self.folders, value) if isinstance(value, str) else not_a("a path", value)

    def written(self) -> Mapping[str, Any]:
        return {"path": {"under": self.folders}}


@dataclass(frozen=True, slots=True)
class PatchUnder:
    """`patch: {under: …}`: a patch of which each file that it names is below one of these folders."""

    folders: tuple[str, ...]

    def judge(self, value: Any, scope: Scope) -> Finding:
        if not isinstance(value, str):
            return not_a("a patch", value)
        from modegate.core.argument.patch import files_of

        try:
            files = files_of(value)
        except NotUnderstood as error:
            return unclear(str(error))
        if not files:
            return unclear("names no file")
        return all_of(_below(self.folders, one) for one in files)

    def written(self) -> Mapping[str, Any]:
        return {"patch": {"under": self.folders}}


def _words(command: object) -> int:
    """Return how many words a command may have at most, and what its length costs."""
    if isinstance(command, str):
        return 1 + sum(map(command.count, " \n;|&()")) + len(command) // 32
    if not isinstance(command, list):
        return 1
    texts = [one for one in command if isinstance(one, str)]
    script = (
        _words(texts[2]) if len(texts) == 3 else 0
    )  # ["bash", "-c", script]; other words are not parsed
    return 1 + script + sum(len(one) + 1 for one in texts) // 32


def _below(folders: tuple[str, ...], path: str) -> Finding:
    from modegate.core.argument.path import why_not_under

    why = why_not_under(path, folders)
    if not why:
        return MET
    return unmet(why) if _elsewhere(path, folders) else unclear(why)


def _elsewhere(path: str, folders: tuple[str, ...]) -> bool:
    """Return whether a path surely has to do with none of the folders.

    It may be in `docs/` if it is absolute, as nobody knows here where the agent works. So may `Docs/a`, as
    some file systems do not mind case. And what is done to `docs`, or to `.`, is done to what is in it.
    """
    from modegate.core.argument.path import normal, problem

    places = [_plain(path), *map(_plain, folders)]
    if problem(path) or any(map(problem, places)):
        return False
    there, *known = map(normal, places)
    if any(one[:1] != there[:1] and "/" in (one[:1] + there[:1]) for one in known):
        return False
    return not any(all(a == b for a, b in zip(there, one, strict=False)) for one in known)


def _plain(path: str) -> str:
    return unicodedata.normalize("NFKC", path).casefold()

"""A syntax tree without an error, or none, in bounded time.

What the parsers search for in a text with an error takes time that grows with a power of its length:
60 KB of `[ ]1]]1]…` took bash's grammar 18 s. Such a text is refused in any case, so the search is broken off
as it begins.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from modegate.core.argument.understanding import NotUnderstood

if TYPE_CHECKING:
    from tree_sitter import Language, Node

MAX_STEPS = 1000
"""Reports of the parser, one for 100 of its steps; 64 KB of escapes take 454, and each up to 0.05 ms."""
CHUNK = 1
"""Bytes that the parser is handed at once. tree-sitter 0.26 never lets go of what it is handed so, and Python
has one object for each single byte: any more of them, and each command would stay in memory for good."""


class _Progress:
    """What the parser asks now and then: whether to stop."""

    def __init__(self) -> None:
        self._left = MAX_STEPS

    def __call__(self, at: int, has_error: bool) -> bool:
        self._left -= 1
        return has_error or self._left < 0


@cache
def language_of(module: str) -> Language:
    """Return a grammar, which is imported on first use: only a policy with such a condition pays for it.

    Raises:
        NotUnderstood: it cannot be loaded, as where a package was built for another system.
    """
    try:
        from tree_sitter import Language

        return Language(import_module(module).language())
    except (ImportError, ValueError) as error:
        kind = type(error).__name__
        raise NotUnderstood(
            f"modegate cannot load its parser `{module}` ({kind}), so it reads none of these"
        ) from error


def tree_of(language: Language, data: bytes) -> Node | None:
    """Return the root of a text's tree; None if it has an error, or takes the parser too long."""
    from tree_sitter import Parser

    # One for each text: it asks Python for more of the text, so that another thread can come in between, and
    # one that two threads use at once takes the process down. It is made in a microsecond.
    parser = Parser(language)
    try:
        tried = parser.parse(lambda at, _: data[at : at + CHUNK], progress_callback=_Progress())
    except ValueError:
        return None
    # Once more, as a node tells its text much faster where the parser has all of it.
    return None if tried.root_node.has_error else parser.parse(data).root_node

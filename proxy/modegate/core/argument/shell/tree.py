"""What a kept parser sees in a command, which must be what the strict pass saw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from modegate.core.argument.parsing import language_of, tree_of
from modegate.core.argument.shell.tokens import Token
from modegate.core.argument.understanding import NotUnderstood
from modegate.core.wire.arguments import words

if TYPE_CHECKING:
    from tree_sitter import Node

_WORDS = words("word number string raw_string concatenation simple_expansion")
"""Nodes that are a word or a piece of one; nothing but these and `_IN_WORDS` is below them."""

_IN_WORDS = words('string_content variable_name special_variable_name $ "')

_LEAVES = words("&& || ; | |& ( ) { } ! > < &> >& file_descriptor comment variable_assignment")
"""Nodes that are a sign, or that no more is asked of: the strict pass has read them."""

_ABOVE = words(
    "program list pipeline command command_name redirected_statement file_redirect subshell"
    " compound_statement negated_command"
)
"""Nodes whose children are looked at."""


def check_tree(source: str, tokens: Sequence[Token], names: Sequence[int]) -> None:
    """Check that the parser finds these tokens, and commands whose names stand at `names`, and nothing more.

    Raises:
        NotUnderstood: it does not.
    """
    # Only quotes hold other characters, so that one letter for each keeps every place.
    shown = bytearray(source, "ascii", "replace")
    for name in names:
        if source[name] == "[":  # a program as any other to shells; the grammar of tests is slow
            shown[name] = ord("t")
    root = tree_of(language_of("tree_sitter_bash"), bytes(shown))
    if root is None:
        raise NotUnderstood("the command has a mistake in its grammar, or is not read")
    seen_names: list[int] = []
    seen = _joined(_leaves(root, seen_names))
    if seen != list(_spans(source, tokens)) or seen_names != list(names):
        raise NotUnderstood(
            "shells could read this command in more than one way; write it more plainly"
        )


def _joined(leaves: Iterable[Node]) -> list[tuple[int, int]]:
    """Return where words and signs stand. Words that touch are one: the parser takes them apart at a `\\`."""
    spans: list[tuple[int, int]] = []
    word_ends = -1
    for node in leaves:
        span = (node.start_byte, node.end_byte)
        is_word = node.type in _WORDS
        if is_word and span[0] == word_ends:
            span = (spans.pop()[0], span[1])
        spans.append(span)
        word_ends = span[1] if is_word else -1
    return spans


def _spans(source: str, tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    for token in tokens:
        if token.parts:
            yield from token.parts
        elif source[token.start] != "\n":
            yield token.start, token.end


def _leaves(root: Node, names: list[int]) -> Iterator[Node]:
    """Go over words and signs in the order of the text, and note where the names of commands begin."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        kind = node.type
        if kind == "\n":
            continue
        if kind in _WORDS:
            _check_word(node)
            yield node
        elif kind in _LEAVES:
            yield node
        elif kind in _ABOVE:
            if kind == "command_name":
                names.append(node.start_byte)
            waiting.extend(reversed(node.children))
        else:
            raise NotUnderstood(f"a {kind.replace('_', ' ')} is not read; use plain commands")


def _check_word(node: Node) -> None:
    below = list(node.children)
    while below:
        part = below.pop()
        if part.type not in _WORDS and part.type not in _IN_WORDS:
            raise NotUnderstood(f"a {part.type.replace('_', ' ')} is not read; use plain words")
        below.extend(part.children)

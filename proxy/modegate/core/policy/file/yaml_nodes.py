"""YAML text to nodes: composed, never constructed, bounded, and searched for duplicate keys.

Nodes keep their marks; constructing plain objects would lose the lines, let the last of two equal keys
win and turn names into booleans and dates. A file is bounded before it is believed: its bytes, its
nesting and the values written in it. What aliases and merge keys multiply is bounded by `document`, which
follows them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import yaml

from modegate.core.policy.file.problems import PolicyProblems, Problem

MAX_BYTES = 2**20
"""A generous policy has some ten kilobytes; more than this is some other file."""
MAX_DEPTH = 64
"""Levels of nesting; the deepest key of a policy is at level 7."""
MAX_NODES = 20_000
"""Values and keys written; a policy of 100 modes with 100 rules each has half as many."""


def compose(text: str | bytes) -> yaml.Node:
    """Return the root node of the file's one document.

    Raises:
        PolicyProblems: it is no YAML, holds nothing, or exceeds a limit.
    """
    root = _compose(_decoded(text))
    if root is None:
        raise PolicyProblems([Problem("", 1, "the file is empty")])
    return root


def line_of(node: yaml.Node) -> int:
    """Return the line on which a node begins, counted from 1."""
    return int(node.start_mark.line) + 1


def _decoded(text: str | bytes) -> str:
    if len(text) > MAX_BYTES:
        raise PolicyProblems([Problem("", 0, f"the file is larger than {MAX_BYTES} bytes")])
    if isinstance(text, str):
        return text
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise PolicyProblems([Problem("", line, "the file is not UTF-8")]) from error


def _compose(text: str) -> yaml.Node | None:
    try:
        return _BoundedLoader(text).get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = ", ".join(filter(None, (error.context, error.problem)))
        if "alias" in message:
            message += '; a glob that begins with * needs quotes: "*_read"'
        if "got '['" in message:
            message += '; between { and } a name with [] needs quotes: "edits[].path"'
        problem = Problem("", mark.line + 1 if mark else 0, f"not valid YAML: {message}")
        raise PolicyProblems([problem]) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = Problem("", line, "not valid YAML: a character that may not be in it")
        raise PolicyProblems([problem]) from error
    except (ValueError, OverflowError) as error:
        # PyYAML passes on what int() and chr() make of absurd versions and escapes.
        raise PolicyProblems([Problem("", 0, f"not valid YAML: {error}")]) from error


class _BoundedLoader(yaml.SafeLoader):
    """Composes no more than a policy can need; PyYAML by itself recurses without a limit."""

    depth = 0
    count = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self.depth += 1
        self.count += 1
        if self.depth > MAX_DEPTH or self.count > MAX_NODES:
            message = f"more than {MAX_DEPTH} levels, or more than {MAX_NODES} values"
            mark = self.get_mark()
            raise yaml.composer.ComposerError(None, None, message, mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def duplicates(root: yaml.Node) -> Iterator[Problem]:
    """Find equal keys in one mapping, in every mapping that is written, known or not."""
    todo = deque([(root, "")])
    seen: set[int] = set()
    while todo:
        node, path = todo.popleft()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            todo += [(item, f"{path}[{index}]") for index, item in enumerate(node.value)]
        elif isinstance(node, yaml.MappingNode):
            yield from _duplicates_in(node, path)
            todo += [(value, joined(path, key)) for key, value in node.value]


def joined(path: str, key: yaml.Node) -> str:
    name = str(key.value) if isinstance(key, yaml.ScalarNode) else "?"
    return f"{path}.{name}" if path else name


def _duplicates_in(node: yaml.MappingNode, path: str) -> Iterator[Problem]:
    first: dict[tuple[str, str], yaml.Node] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        earlier = first.get((key.tag, key.value))
        first.setdefault((key.tag, key.value), key)
        if earlier is not None:
            lines = f"on line {line_of(earlier)} and again on line {line_of(key)}"
            yield Problem(joined(path, key), line_of(key), f"duplicate key {key.value!r}: {lines}")

"""The values of a YAML file, each with its path and line; reading one collects what is wrong with it.

The methods of a `YamlValue` return what it says, or note a `Problem` and return None: one run finds
everything that is wrong. Values are read by their spelling and not by YAML 1.1's ideas. `no` is not a
boolean here, and not a string either, but a question to the author.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import yaml

from modegate.core.policy.file.packs import NO_PACKS, Packs
from modegate.core.policy.file.problems import PolicyProblems, Problem
from modegate.core.policy.file.yaml_nodes import MAX_NODES, compose, duplicates, joined, line_of

MAX_VISITS = MAX_NODES
"""Values visited and rules taken over: a few lines can stand for millions, or for endless ones."""
MAX_MERGES = 16
"""Merge keys within merge keys; also what ends a mapping that merges itself."""

_TAG = "tag:yaml.org,2002:"
_READ_AS = {
    "int": "a number",
    "float": "a number",
    "timestamp": "a date",
    "null": "null",
    "merge": "a merge key",
    "value": "a special key",
}
_TRUE = ("yes", "true", "on")
# Strings to PyYAML (YAML 1.1), numbers to readers of YAML 1.2; nobody should have to know.
_NUMBER_ELSEWHERE = re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?|0o[0-7]+|0x[0-9a-fA-F]+")
_JSON_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d{1,17})?([eE][-+]?\d{1,2})?", re.ASCII)
_INTEGER = re.compile(r"0|[1-9]\d{0,17}", re.ASCII)
_JSON_WORDS = {"true": True, "false": False, "null": None}


@dataclass(slots=True)
class Document:
    """What all values of one file share."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    """What can be used, but hardly says what its author means."""
    visited: int = 0
    names: dict[str, list[str]] = field(default_factory=dict)
    """The names that the file has defined so far, by kind: other values refer to them."""
    packs: Packs = NO_PACKS
    """What `use` can name."""

    def visit(self, node: yaml.Node, path: str) -> None:
        """Count one more value.

        Raises:
            PolicyProblems: there were too many.
        """
        self.visited += 1
        if self.visited > MAX_VISITS:
            message = (
                f"more than {MAX_VISITS} values, with aliases, merge keys, use and extends followed"
            )
            raise PolicyProblems([*self.problems, Problem(path, line_of(node), message)])

    @contextmanager
    def again(self) -> Iterator[None]:
        """Count nothing meanwhile: what is looked at was read before."""
        visited, self.visited = self.visited, 0
        yield
        self.visited = visited


@dataclass(frozen=True, slots=True)
class YamlValue:
    """One value: its node, its path, the document, and the key it stands behind if it has one."""

    node: yaml.Node
    path: str
    document: Document
    key: yaml.Node | None = None

    def __post_init__(self) -> None:
        self.document.visit(self.node, self.path)

    def problem(self, message: str) -> None:
        self._note(self.node, message)

    def warning(self, message: str) -> None:
        """Note what can be used, but hardly says what its author means."""
        self.document.warnings.append(Problem(self.path, line_of(self.node), message))

    def hidden_problem(self, message: str) -> None:
        """Note what is wrong without showing the value, which may be a secret, or is in the message."""
        self.document.problems.append(Problem(self.path, line_of(self.node), message))

    def key_problem(self, message: str) -> None:
        """Note what is wrong with the name that the value stands behind."""
        self._note(self.key or self.node, message)

    def mapping(self, known: Collection[str] = ()) -> dict[str, YamlValue] | None:
        """Read a mapping, merge keys followed; with `known`, other keys are problems and left out."""
        if not isinstance(self.node, yaml.MappingNode) or self.node.tag != _TAG + "map":
            self.problem(
                f"must be a mapping{f' with keys such as {few(known, 3)}' if known else ''}"
            )
            return None
        found: dict[str, YamlValue] = {}
        for name, (key, value) in self._pairs(self.node, 0).items():
            entry = YamlValue(value, joined(self.path, key), self.document, key)
            if known and name not in known:
                entry.key_problem(f"unknown key; {suggestion(name, known)}")
            else:
                found[name] = entry
        return found

    def misspells(self, known: Collection[str]) -> bool:
        """Return whether a mapping has other keys, so that what it lacks may be one of them."""
        keys = (key for key, _ in self.node.value) if self.is_mapping() else ()
        return any(key.value not in known and key.tag != _TAG + "merge" for key in keys)

    def sequence(self, *, empty: bool = False) -> list[YamlValue] | None:
        """Read a list, which must not be empty if an empty one would say nothing."""
        if not isinstance(self.node, yaml.SequenceNode) or self.node.tag != _TAG + "seq":
            self.problem("must be a list")
            return None
        if not self.node.value and not empty:
            self.problem("must not be empty")
        return [
            YamlValue(item, f"{self.path}[{index}]", self.document)
            for index, item in enumerate(self.node.value)
        ]

    def item(self, index: int) -> YamlValue:
        """Return one value of a list that was read."""
        return YamlValue(self.node.value[index], f"{self.path}[{index}]", self.document)

    def string(self) -> str | None:
        """Read a string that says something; what YAML takes for something else is a problem."""
        if not isinstance(self.node, yaml.ScalarNode):
            self.problem("must be a string")
        elif surprise := _surprise(self.node):
            self.problem(f"must be a string but is read as {surprise}; quote it")
        elif not self.node.value.strip():
            self.problem("must not be empty")
        elif not _encodes(self.node.value):
            self.problem("is not valid Unicode")
        else:
            return str(self.node.value)
        return None

    def boolean(self) -> bool | None:
        """Read `true` or `false`, in these spellings only."""
        text = self.plain()
        if text not in ("true", "false"):
            self.problem("must be true or false")
            return None
        return text == "true"

    def integer(self) -> int | None:
        """Read a whole number, not negative, in plain decimal."""
        text = self.plain()
        if text is None or not _INTEGER.fullmatch(text):
            self.problem("must be a whole number in plain decimal")
            return None
        return int(text)

    def json_scalar(self) -> tuple[Any] | None:
        """Read a string, or a number, boolean or null as JSON spells it; boxed, since null is a value."""
        if not isinstance(self.node, yaml.ScalarNode):
            self.problem("must be a string, a number, true, false or null")
            return None
        text, plain = str(self.node.value), self.plain()
        if plain in _JSON_WORDS:
            return (_JSON_WORDS[plain],)
        if plain is not None and _JSON_NUMBER.fullmatch(plain):
            return (int(plain) if _INTEGER.fullmatch(plain.removeprefix("-")) else float(plain),)
        if surprise := _surprise(self.node):
            self.problem(f"is read as {surprise}; quote it, or spell it as JSON does")
        elif not _encodes(text):
            self.problem("is not valid Unicode")
        else:
            return (text,)
        return None

    def plain(self) -> str | None:
        """Return the text of an unquoted scalar as it is written."""
        if isinstance(self.node, yaml.ScalarNode) and not self.node.style:
            return str(self.node.value)
        return None

    def is_mapping(self) -> bool:
        return isinstance(self.node, yaml.MappingNode)

    def is_sequence(self) -> bool:
        return isinstance(self.node, yaml.SequenceNode)

    def _note(self, node: yaml.Node, message: str) -> None:
        problem = Problem(self.path, line_of(node), message, _shown(node))
        self.document.problems.append(problem)

    def _pairs(self, node: yaml.MappingNode, depth: int) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        own: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        merged: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key, value in node.value:
            if key.tag == _TAG + "merge":
                for source in self._sources(key, value, depth):
                    merged = {**self._pairs(source, depth + 1), **merged}
                continue
            name = YamlValue(key, self.path, self.document).string()
            if name is not None:
                own.setdefault(name, (key, value))
        return {**merged, **own}

    def _sources(self, key: yaml.Node, value: yaml.Node, depth: int) -> Iterator[yaml.MappingNode]:
        if depth >= MAX_MERGES:
            problem = Problem(self.path, line_of(key), "too many merge keys within merge keys")
            raise PolicyProblems([*self.document.problems, problem])
        for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
            merged = YamlValue(source, self.path, self.document)
            if isinstance(source, yaml.MappingNode):
                yield source
            else:
                merged.problem("a merge key takes a mapping, or a list of mappings")


def read_document(text: str | bytes) -> YamlValue:
    """Return the root of a file; equal keys in one mapping are noted already.

    Raises:
        PolicyProblems: it is no YAML, holds nothing, or exceeds a limit.
    """
    root = compose(text)
    return YamlValue(root, "", Document(list(duplicates(root))))


def suggestion(name: str, known: Collection[str]) -> str:
    """Say what was probably meant, else what there is."""
    close = get_close_matches(name, known, 1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {few(known)}" if known else "there is none"


def few(names: Collection[str], most: int = 12) -> str:
    """List some names, and how many there are if these are not all."""
    listed = ", ".join([*names][:most])
    return listed if len(names) <= most else f"{listed}, … ({len(names)} in all)"


def _surprise(node: yaml.ScalarNode) -> str:
    """Name what a scalar is read as, if that is no string."""
    kind = node.tag.removeprefix(_TAG)
    if kind == "bool":
        return f"the boolean {'true' if node.value.lower() in _TRUE else 'false'}"
    if kind != "str":
        return _READ_AS.get(kind, f"a value with the tag {node.tag!r}")
    return (
        "a number by YAML 1.2" if not node.style and _NUMBER_ELSEWHERE.fullmatch(node.value) else ""
    )


def _encodes(text: str) -> bool:
    """Return whether there is no lone surrogate in it, as an escape can write."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _shown(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    text = str(node.value)
    return repr(text if len(text) <= 60 else text[:59] + "…")

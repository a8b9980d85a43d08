"""The calls of a program that calls tools: Codex's `exec` and its like, whose argument is JavaScript.

Read are the programs that could as well be a list of calls, with what is shown of their results:

    const r = await tools.exec_command({cmd: "git log -3"});
    text(r.output ?? JSON.stringify(r));

Whatever else a program says is refused, so that each call in it runs with the arguments that are read here,
and nothing else runs. That holds where `tools`, `text`, `console`, `JSON` and `Promise` are what they should
be when the program begins: an interpreter that keeps what earlier programs defined gives no such promise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from modegate.core.argument.javascript_literals import number, string
from modegate.core.argument.javascript_syntax import listed, parsed, parts, text_of, unread
from modegate.core.argument.understanding import NotUnderstood, quoted
from modegate.core.wire.arguments import tangled, words

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_CALLS = 64
"""Calls of one program, each of which is judged."""

_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_RESERVED = words(
    "tools text console JSON Promise undefined NaN Infinity globalThis eval arguments await async let of"
)
"""Names that a program may not declare: those it uses, and those that are more than a name to some."""
_INHERITED = words(
    "constructor hasOwnProperty isPrototypeOf propertyIsEnumerable toLocaleString toString valueOf __proto__"
    " __defineGetter__ __defineSetter__ __lookupGetter__ __lookupSetter__"
)
"""What `tools` has because it is an object."""
_CONSTANTS = {"true": True, "false": False, "null": None}
_SCALARS = ("string", "template_string", "number", "unary_expression", "true", "false", "null")
_SHOWING = (("text",), ("console", "log"))


@dataclass(frozen=True, slots=True)
class InnerCall:
    """A call that a program makes. A bare string is its argument `input`, as it is for freeform tools."""

    name: str
    arguments: Mapping[str, Any]


def calls_of(source: str) -> tuple[InnerCall, ...]:
    """Return the calls of a program in order; each runs once at most, with just these arguments.

    Raises `NotUnderstood` for a program that does more than call tools with literal arguments and show what
    they return, and for one that is too large.
    """
    reader = _Reader()
    for statement in parsed(source):
        reader.statement(statement)
    return tuple(reader.calls)


class _Reader:
    """Reads statements in order, so that a name is known only behind its declaration."""

    def __init__(self) -> None:
        self.calls: list[InnerCall] = []
        self._names: set[str] = set()
        self._literals: dict[str, Any] = {}
        """What names stand for that were declared as a string, a number, a boolean or null."""

    def statement(self, node: Node) -> None:
        inner = [part for part in parts(node) if part.type not in (";", ",")]
        match node.type, inner:
            case "lexical_declaration", [_, *declarators]:
                for one in declarators:
                    self._declaration(one)
            case "expression_statement", [one] if _called(one) in _SHOWING:
                self._values(listed(parts(one)[1]))
            case "expression_statement", [one] if not text_of(one).startswith(
                "{"
            ):  # that is a block
                self._value(one)
            case _:
                raise unread(node)

    def _declaration(self, node: Node) -> None:
        match parts(node):
            case [target, sign, value] if node.type == "variable_declarator" and sign.type == "=":
                self._value(value)
                names = [_plain(one) for one in _targets(target)]
                for name in names:
                    if name in _RESERVED or name in self._names:
                        raise NotUnderstood(f"the program may not declare {quoted(name)} here")
                    self._names.add(name)
                if target.type == "identifier" and _is_scalar(value):
                    self._literals[names[0]] = self._literal(value)
            case _:
                raise unread(node)

    def _values(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self._value(node)

    def _value(self, node: Node) -> None:
        """Read an expression that calls nothing but tools, and changes nothing."""
        match node.type, parts(node):
            case "await_expression", [_, call]:
                self._awaited(call)
            case (("identifier" | "shorthand_property_identifier"), _):
                if text_of(node) not in self._names:
                    raise unread(node)
            case _:
                operands = _operands(node)
                if operands is None:
                    self._literal(node)
                else:
                    self._values(operands)

    def _awaited(self, node: Node) -> None:
        """Read what is waited for: one call, or those of `Promise.all([...])`."""
        if _called(node) != ("Promise", "all"):
            self._call(node)
            return
        match listed(parts(node)[1]):
            case [calls] if calls.type == "array":
                for one in listed(calls):
                    self._call(one)
            case _:
                raise unread(node)

    def _call(self, node: Node) -> None:
        tools, name = (*_called(node), "", "")[:2]
        if tools != "tools" or not name or name in _INHERITED:
            raise unread(node)
        given = [self._literal(one) for one in listed(parts(node)[1])] or [{}]
        arguments = {"input": given[0]} if isinstance(given[0], str) else given[0]
        if len(given) > 1 or not isinstance(arguments, dict) or tangled(arguments):
            raise unread(node)
        self.calls.append(InnerCall(name, arguments))
        if len(self.calls) > MAX_CALLS:
            raise NotUnderstood(f"the program makes more than {MAX_CALLS} calls")

    def _literal(self, node: Node) -> Any:
        """Return what an expression of literals stands for, and of names that were declared as such."""
        inner = parts(node)
        match node.type, [part.type for part in inner]:
            case "string", _:
                return string(text_of(node))
            case "template_string", types if "template_substitution" not in types:
                return string(text_of(node))
            case "number", _:
                return number(text_of(node))
            case "unary_expression", ["-", "number"]:
                return -number(text_of(inner[1]))
            case (("true" | "false" | "null"), _):
                return _CONSTANTS[node.type]
            case "array", _:
                return [self._literal(one) for one in listed(node)]
            case "object", _:
                return {key: self._literal(value) for key, value in _pairs(node)}
            case (("identifier" | "shorthand_property_identifier"), _):
                if text_of(node) in self._literals:
                    return self._literals[text_of(node)]
            case _:
                pass
        raise unread(node)


def _is_scalar(node: Node) -> bool:
    return node.type in _SCALARS and all(
        one.type != "template_substitution" for one in node.children
    )


def _operands(node: Node) -> list[Node] | None:
    """Return the expressions of one that only puts values together; None for a literal and all others."""
    inner = parts(node)
    match node.type, [part.type for part in inner]:
        case "member_expression", [_, "." | "optional_chain", "property_identifier"]:
            _plain(inner[2])
            return inner[:1]
        case "subscript_expression", [_, "[", "number", "]"]:
            return [inner[0], inner[2]]
        case "parenthesized_expression", _:
            return inner[1:-1]
        case "binary_expression", [_, "+" | "??" | "||", _]:
            return inner[::2]
        case "call_expression", [_, _] if _called(node) == ("JSON", "stringify"):
            return listed(inner[1])
        case "template_string", _:
            string(text_of(node))
            return [parts(one)[1] for one in inner if one.type == "template_substitution"]
        case "object", _:
            return [value for _, value in _pairs(node)]
        case "array", _:
            return listed(node)
        case _:
            return None


def _targets(node: Node) -> list[Node]:
    """Return the names that a declaration declares: one, or those of `{output, exit: code}`, `[one, two]`."""
    if node.type == "identifier":
        return [node]
    if node.type not in ("object_pattern", "array_pattern"):
        raise unread(node)
    found: list[Node] = []
    for one in listed(node):
        match one.type, parts(one):
            case (("identifier" | "shorthand_property_identifier_pattern"), _):
                found.append(one)
            case "pair_pattern", [key, _, target] if target.type == "identifier":
                _plain(key)
                found.append(target)
            case _:
                raise unread(one)
    return found


def _pairs(node: Node) -> list[tuple[str, Node]]:
    """Return an object's keys and values; refuse a key twice, computed keys, spread, and functions."""
    found: list[tuple[str, Node]] = []
    for one in listed(node):
        match one.type, parts(one):
            case "shorthand_property_identifier", _:
                found.append((_plain(one), one))
            case "pair", [key, _, value] if key.type == "string":
                found.append((string(text_of(key)), value))
            case "pair", [key, _, value] if key.type == "property_identifier":
                found.append((_plain(key), value))
            case _:
                raise unread(one)
    if len({key for key, _ in found}) < len(found):
        raise unread(node)
    return found


def _called(node: Node) -> tuple[str, ...]:
    """Return what is called by `text(...)` or `tools.name(...)` and not otherwise; empty if nothing is."""
    match node.type, parts(node):
        case "call_expression", [function, arguments] if arguments.type == "arguments":
            return _dotted(function)
    return ()


def _dotted(node: Node) -> tuple[str, ...]:
    match node.type, parts(node):
        case "identifier", _:
            return (_plain(node),)
        case "member_expression", [one, dot, name] if one.type == "identifier" and dot.type == ".":
            return (_plain(one), _plain(name))
    return ()


def _plain(node: Node) -> str:
    """Return a name; refuse private ones, and those that are written with escapes."""
    name = text_of(node)
    if _NAME.fullmatch(name) is None:
        raise unread(node)
    return name

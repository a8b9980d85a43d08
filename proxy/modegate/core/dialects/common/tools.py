"""What a tool definition declares: every name that a server could take."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from modegate.core.ids import ToolName
from modegate.core.wire.arguments import spelling as spelling
from modegate.core.wire.arguments import words
from modegate.core.wire.json_spans import Span, members

# Types under which the agent runs the tool; any other is run by the provider or unknown.
OWN_TYPES = frozenset({"function", "custom"})

# What may stand in a definition and declares nothing. A member that is not here could be a tool of its
# own (`{"function": {...}, "googleSearch": {}}`), so its key counts as a name, unless it is a number or
# a text whose key tells of no tool: agents and gateways add fields (`version`, MCP's `_meta`).
PLAIN_FIELDS = words("""
    allowedcallers annotations cachecontrol custom deferloading description displayname
    eagerinputstreaming format function id index inputexamples inputschema meta metadata name
    outputschema parameters strict title type version
""")

_TELLS_OF_TOOLS = words("""
    agent browser code computer connector container function ground maps mcp name prompt retriev
    search server shell tool urlcontext
""")
"""What is in the key of a text that names a tool, or makes the provider run one."""

_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class Declared:
    """One entry of `tools` or `functions`."""

    span: Span
    names: tuple[ToolName, ...]
    """Every name in it; its type where that is not the agent's own; fields that could be tools."""
    hosted: bool = False
    """The provider could run it by itself, so that no call of it passes the gate."""


def _itself(kind: str) -> Iterable[str]:
    return (kind,)


def tool_names(
    body: bytes,
    span: Span,
    *,
    plain: frozenset[str] = PLAIN_FIELDS,
    means: Callable[[str], Iterable[str]] = _itself,
) -> tuple[ToolName, ...]:
    """Return every name that a tool definition, or a choice of one, carries; see `read_declared`."""
    return read_declared(body, span, plain=plain, means=means).names


def read_declared(
    body: bytes,
    span: Span,
    *,
    plain: frozenset[str] = PLAIN_FIELDS,
    means: Callable[[str], Iterable[str]] = _itself,
) -> Declared:
    """Read every name that a tool definition carries; duplicate keys included.

    A definition is offered only if all of them may be, since servers differ in which one they take.

    `plain` are the fields that declare nothing, in the most lenient spelling; `means` gives the names for
    which a type stands that is not the agent's own. Raises `ValueError` if it is not an object.
    """
    names: dict[str, None] = {}
    hosted = False
    for member in members(body, span):
        key = spelling(member.key)
        if key == "name":
            _add_name(names, body, member.value)
        elif key == "type":
            kind = text_or_raw(body, member.value)
            if kind not in OWN_TYPES:
                hosted = True
                names.update(dict.fromkeys(means(kind)))
        elif key in OWN_TYPES:
            _add_inner(names, body, member.value)
        elif key not in plain and _could_declare(key, body[member.value.start : member.value.end]):
            hosted = True
            names[member.key] = None
    return Declared(span, tuple(ToolName(name) for name in names), hosted)


def _add_inner(names: dict[str, None], body: bytes, span: Span) -> None:
    if body[span.start : span.start + 1] != b"{":
        _add_name(names, body, span)
        return
    for inner in members(body, span):
        if spelling(inner.key) == "name":
            _add_name(names, body, inner.value)


def _add_name(names: dict[str, None], body: bytes, span: Span) -> None:
    # Null names nothing: some clients write every field that they know.
    if body[span.start : span.end] != b"null":
        names[text_or_raw(body, span)] = None


def text_or_raw(body: bytes, span: Span) -> str:
    """Return a string, or what stands there instead, which no policy names."""
    raw = body[span.start : span.end]
    return str(_decode(raw)) if raw[:1] == b'"' else raw.decode()


def _could_declare(key: str, value: bytes) -> bool:
    """Return whether a server could take a member that is not known for a tool, or for its name."""
    if value[:1] == b'"':
        return any(hint in key for hint in _TELLS_OF_TOOLS)
    return value[:1] in (b"{", b"[", b"t")

"""A Responses request as the gate reads it: where each thing stands, and every place that declares tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from modegate.core.dialects.common.body import Body
from modegate.core.dialects.responses.request.tools import Tool, read_listed, read_tools
from modegate.core.errors import BadRequest
from modegate.core.identify.body import first_user_text
from modegate.core.wire.arguments import spelling, words
from modegate.core.wire.json_spans import Span, fields

MESSAGE = "message"
REFERENCE = "item_reference"
ADDITIONAL = "additional_tools"
"""An item in which newer Codex models declare all tools, in the place of the top-level list."""
LOADED = "tool_search_output"
"""What a search among deferred tools found: from there on the model may call it."""
LISTED = "mcp_list_tools"
"""What a remote MCP server has, as the provider noted it in the history."""

CARRIES_TOOLS = frozenset({ADDITIONAL, LOADED, LISTED})

_READ = ("type", "role", "tools")
_LOOK_ALIKES = {spelling(key): key for key in _READ}
# What items have; a key outside is compared with what is read here in every spelling.
_KNOWN = words("""
    action arguments call_id content encrypted_content id input name namespace output phase result
    role server_label status summary tools type
""")

_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class Item:
    span: Span
    kind: str
    """Its type; `message` and `item_reference` may leave it out."""
    role: str
    keys: frozenset[str]
    tools: tuple[Tool, ...] | None = None
    """What it declares; None where it is of a type that declares nothing."""


class ResponsesRequest(Body):
    """One request; `messages` are the spans of the items of `input`, a plain string counting as one."""

    TOOLS = frozenset({"input", "tools", "tool_choice", "parallel_tool_calls"})
    GATED = TOOLS | words("""
        background conversation include instructions model previous_response_id prompt store stream
    """)

    def read(self) -> None:
        self.input = self._given("input")
        self.instructions = self._given("instructions")
        if self.instructions is not None and not self._is_string(self.instructions):
            raise BadRequest("'instructions' is not a string")
        self.string_input = self.input is not None and self._is_string(self.input)
        """`input` is a string: one message of the user."""
        spans = [] if self.string_input else self.objects("input")
        self.items = [self._item(span) for span in spans]
        spoken = [self.input] if self.string_input and self.input is not None else []
        self.messages = spoken or [item.span for item in self.items]
        self.tools = read_tools(self, self.objects("tools"))

    def _given(self, key: str) -> Span | None:
        span = self.top.get(key)
        return None if span is None or self.text(span) == b"null" else span

    def _is_string(self, span: Span) -> bool:
        return self.body[span.start : span.start + 1] == b'"'

    def _item(self, span: Span) -> Item:
        found = self._fields(span)
        kind, role = _word(found.get("type")), _word(found.get("role"))
        kind = kind or (MESSAGE if role or "content" in found else REFERENCE)
        item = Item(span, kind, role, frozenset(found))
        if kind not in CARRIES_TOOLS:
            return item
        tools = self.member_of(span, "tools")
        spans = self.objects_in(tools, "tools") if tools is not None else []
        if kind == LISTED:
            label = self.member_of(span, "server_label")
            read = read_listed(self, spans, str(self.decode(label)) if label else "")
        else:
            read = read_tools(self, spans)
        return Item(span, kind, role, item.keys, read)

    def _fields(self, span: Span) -> Mapping[str, bytes | msgspec.Raw]:
        """Return an item's members; those that decide what it is stand there once and spelled so."""
        found = fields(self.readable, span)
        if found is None:
            for key in _READ:
                self.member_of(span, key)
        values: Mapping[str, bytes | msgspec.Raw] = found or {
            member.key: self.readable[member.value.start : member.value.end]
            for member in self.members_of(span)
        }
        for key in values.keys() - _KNOWN:
            if (meant := _LOOK_ALIKES.get(spelling(key))) is not None:
                raise BadRequest(f"an item of 'input' has the key {key!r}; did you mean {meant!r}?")
        return values

    @cached_property
    def declared(self) -> frozenset[str]:
        listed = (tool for one in self.items for tool in one.tools or ())
        return frozenset(_names((*self.tools, *listed)))

    @property
    def declares_tools(self) -> bool:
        return bool(self.tools or self.additional)

    @cached_property
    def additional(self) -> list[Item]:
        """The `additional_tools` items that declare something."""
        return [item for item in self.items if item.kind == ADDITIONAL and item.tools]

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """All items decoded, a plain string as the message that it stands for."""
        if self.string_input:
            return [{"type": MESSAGE, "role": "user", "content": self.value("input")}]
        return [self.decode(item.span) for item in self.items]

    @cached_property
    def first_user_text(self) -> str:
        if self.string_input:
            return first_user_text(self.history)
        messages = (item.span for item in self.items if item.kind == MESSAGE)
        return first_user_text(map(self.decode, messages))

    @cached_property
    def call_ids(self) -> frozenset[str]:
        ids = (item.get("call_id") for item in self.history)
        return frozenset(name for name in ids if isinstance(name, str))

    @property
    def chained(self) -> bool:
        """Whether the provider holds what came before, and keeps what `input` adds to it."""
        keys = ("previous_response_id", "conversation")
        return any(self._given(key) is not None for key in keys)

    @property
    def may_be_kept(self) -> bool:
        """Whether the provider may keep what `input` holds: in a chain, or unless it is told not to."""
        return self.chained or self.value("store") is not False


def _word(raw: bytes | msgspec.Raw | None) -> str:
    value = None if raw is None else _decode(raw)
    if value is None or isinstance(value, str):
        return value or ""
    raise BadRequest("an item of 'input' has a type or a role that is not a string")


def _names(tools: tuple[Tool, ...]) -> list[str]:
    return [name for tool in tools for name in (*tool.names, *_names(tool.inner))]

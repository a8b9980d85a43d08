"""A Messages request as the gate reads it: where each thing stands, and what tools it names."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from modegate.core.dialects.common.texts import Conversation, dicts_in
from modegate.core.dialects.messages.request import tool_references
from modegate.core.dialects.messages.request.tools import ESCAPES, Tool, read_tool
from modegate.core.wire.json_spans import Span

CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
"""Types of blocks that are calls."""


class MessagesRequest(Conversation):
    """One request; `messages`, `tools` and `servers` are lists of objects."""

    TOOLS = frozenset({"messages", "tools", "tool_choice", "mcp_servers"})
    GATED = TOOLS | {"container", "model", "stream", "system", "thread"}

    def read(self) -> None:
        self.messages = self.objects("messages", required=True)
        self.tools = [read_tool(self, span) for span in self.counted(self.objects("tools"))]
        self.servers = self.objects("mcp_servers")

    def saying(self, *words: bytes) -> list[tuple[int, Span]]:
        """Return the messages that may hold one of these words, each with its number."""
        looked = (*words, *ESCAPES) if self._escaped else words
        if not any(word in self.body for word in looked):
            return []  # as most requests
        texts = ((at, span, self.text(span)) for at, span in enumerate(self.messages))
        return [(at, span) for at, span, text in texts if any(word in text for word in looked)]

    @cached_property
    def _escaped(self) -> bool:
        return any(escape in self.body for escape in ESCAPES)

    @cached_property
    def contents(self) -> list[Span]:
        """Lists of blocks in which tools may be loaded; raises `BadRequest` if a message has two contents."""
        found = self.saying(*tool_references.WORDS)
        return tool_references.contents(self, [span for _, span in found])

    @cached_property
    def inline(self) -> list[Tool]:
        """Tools defined within the messages; raises `BadRequest` if they cannot be read in one way."""
        spans = tool_references.definitions(self, self.contents)
        return [read_tool(self, span) for span in self.counted(spans)]

    @cached_property
    def declared(self) -> frozenset[str]:
        return frozenset(name for tool in (*self.tools, *self.inline) for name in tool.names)

    @property
    def declares_tools(self) -> bool:
        return bool(self.tools or self.inline)

    @cached_property
    def call_ids(self) -> frozenset[str]:
        blocks = (block for message in self.history for block in blocks_of(message))
        return frozenset(str(block.get("id")) for block in blocks if block.get("type") in CALLS)

    @property
    def holds_tool_blocks(self) -> bool:
        """Whether the history holds calls or results, for which the API wants tools to be declared."""
        return bool(self.call_ids) or any(
            block.get("type") == "tool_result"
            for message in self.history
            for block in blocks_of(message)
        )


def blocks_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the content blocks of a history message that have the shape of one."""
    return dicts_in(message.get("content"))

"""A chat completions request as the gate reads it: where each thing stands, and what tools it names."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from modegate.core.dialects.common.texts import Conversation, dicts_in
from modegate.core.wire.arguments import words


class ChatRequest(Conversation):
    """One request; `messages`, `tools` and `functions` are lists of objects."""

    TOOLS = words("messages tools tool_choice functions function_call parallel_tool_calls")
    GATED = TOOLS | {"model", "stream", "n"}

    def read(self) -> None:
        self.messages = self.objects("messages", required=True)
        self.tools = self.declarations(self.objects("tools"))
        self.functions = self.declarations(self.objects("functions"))

    @cached_property
    def declared(self) -> frozenset[str]:
        return frozenset(name for tool in (*self.tools, *self.functions) for name in tool.names)

    @property
    def declares_tools(self) -> bool:
        return bool(self.tools or self.functions)

    @cached_property
    def call_ids(self) -> frozenset[str]:
        calls = (call for message in self.history for call in calls_of(message))
        return frozenset(str(call.get("id")) for call in calls)


def calls_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tool calls of a history message that have the shape of one."""
    return dicts_in(message.get("tool_calls"))

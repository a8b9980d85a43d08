"""A recorded request: whether it is one of the Messages API, and the calls that its history tells of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from modegate.core.dialects.common.recorded import kind, said
from modegate.core.dialects.messages.request.parsing import MessagesRequest


def claims(body: Mapping[str, Any]) -> bool:
    """Tell it from chat completions: their system text is a message, and no tool has `input_schema`."""
    tools = body.get("tools")
    listed = tools if isinstance(tools, list) else []
    schemas = any(isinstance(tool, dict) and "input_schema" in tool for tool in listed)
    return "messages" in body and (schemas or "system" in body)


def told_calls(request: MessagesRequest) -> Iterator[dict[str, Any]]:
    head = {"id": "m", "type": "message", "role": "assistant", "model": "m"}
    for message in said(request.value("messages")):
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        if calls := [block for block in blocks if kind(block).endswith("tool_use")]:
            yield {**head, "content": calls, "stop_reason": "tool_use", "usage": {}}

"""A recorded request: whether it is one of chat completions, and the calls that its history tells of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from modegate.core.dialects.chat.request.parsing import ChatRequest
from modegate.core.dialects.common.recorded import said


def claims(body: Mapping[str, Any]) -> bool:
    return "messages" in body


def told_calls(request: ChatRequest) -> Iterator[dict[str, Any]]:
    for message in said(request.value("messages")):
        if message.get("tool_calls") or message.get("function_call"):
            yield {"choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]}

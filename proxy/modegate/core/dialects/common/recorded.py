"""What recorded requests say, which nobody judged when they were made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def said(messages: Any) -> Iterator[dict[str, Any]]:
    """Yield the messages of the model in a list of messages, if it is one."""
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict) and message.get("role") == "assistant":
            yield message


def kind(value: Any) -> str:
    """Return the `type` of an object; empty where there is none."""
    found = value.get("type") if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""

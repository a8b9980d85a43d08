"""A recorded request: whether it is one of the Responses API, and the calls that its history tells of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from modegate.core.dialects.common.recorded import kind
from modegate.core.dialects.responses.request.parsing import ResponsesRequest


def claims(body: Mapping[str, Any]) -> bool:
    return "input" in body or "previous_response_id" in body


def told_calls(request: ResponsesRequest) -> Iterator[dict[str, Any]]:
    items = request.value("input")
    for item in items if isinstance(items, list) else ():
        if kind(item).endswith("_call"):
            yield {"id": "r", "object": "response", "output": [item]}

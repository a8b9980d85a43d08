"""The exit tool in a chat completions request, as both lists write it."""

from __future__ import annotations

from typing import Any

import msgspec

from modegate.core import leaving
from modegate.core.dialects import exits
from modegate.core.dialects.chat.request import ChatRequest
from modegate.core.dialects.tools import Declared
from modegate.core.policy import EXIT_TOOL, Exit

EXIT_FUNCTION = {
    "name": EXIT_TOOL,
    "description": leaving.DESCRIPTION,
    "parameters": exits.PARAMETERS,
}
EXIT_ENTRIES = {
    "tools": msgspec.json.encode({"type": "function", "function": EXIT_FUNCTION}),
    "functions": msgspec.json.encode(EXIT_FUNCTION),
}
"""The exit tool's definition: the same bytes in every session, at the end of the list."""


def bridged(request: ChatRequest, leave: Exit | None) -> Declared | None:
    """Give the agent's own exit tool if it stays."""

    def schema(tool: Declared) -> Any:
        return exits.inner(exits.inner(request.decode(tool.span), "function"), "parameters")

    return exits.bridged(request.tools, leave, schema)

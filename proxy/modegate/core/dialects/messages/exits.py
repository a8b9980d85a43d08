"""The exit tool in a Messages request."""

from __future__ import annotations

from typing import Any

import msgspec

from modegate.core import leaving
from modegate.core.dialects import exits
from modegate.core.dialects.messages.request import MessagesRequest
from modegate.core.dialects.tools import Declared
from modegate.core.policy import EXIT_TOOL, Exit

EXIT_ENTRY = msgspec.json.encode(
    {"name": EXIT_TOOL, "description": leaving.DESCRIPTION, "input_schema": exits.PARAMETERS}
)
"""The exit tool's definition: the same bytes in every session, at the end of the list."""


def bridged(request: MessagesRequest, leave: Exit | None) -> Declared | None:
    """Give the agent's own exit tool if it stays."""

    def schema(tool: Declared) -> Any:
        return exits.inner(request.decode(tool.span), "input_schema")

    own = [tool for tool in request.tools if not tool.hosted]
    return exits.bridged(own, leave, schema)

"""The exit tool in a Responses request: ours, or the agent's own where a plan can be read from it."""

from __future__ import annotations

from typing import Any

import msgspec

from modegate.core import leaving
from modegate.core.dialects import exits
from modegate.core.dialects.responses.request import ResponsesRequest
from modegate.core.dialects.responses.tools import Tool
from modegate.core.dialects.tools import Declared
from modegate.core.policy import EXIT_TOOL, Exit

EXIT_ENTRY = msgspec.json.encode(
    {
        "type": "function",
        "name": EXIT_TOOL,
        "description": leaving.DESCRIPTION,
        "parameters": exits.PARAMETERS,
        "strict": False,
    }
)
"""The exit tool's definition: the same bytes in every session, at the end of the list."""


def is_native(tool: Tool) -> bool:
    """Tell whether it is an agent's own tool of this purpose, in whatever namespace."""
    return not leaving.NATIVE.isdisjoint((*tool.names, *tool.choices))


def bridged(request: ResponsesRequest, leave: Exit | None) -> Declared | None:
    """Give the agent's own exit tool if it stays."""

    def schema(tool: Declared) -> Any:
        return exits.inner(request.decode(tool.span), "parameters")

    lists = (request.tools, *(item.tools or () for item in request.additional))
    listed = [tool for one in lists for tool in one]
    # In a namespace too, if a call of it then has its plain name.
    return exits.bridged([one for tool in listed for one in (tool, *tool.inner)], leave, schema)

"""MCP servers that the provider calls by itself: which of them may stay in a mode.

A server stays if the policy allows the tool `mcp`, or if the request says which of its tools there are and
the policy allows each of them as `mcp__SERVER__TOOL`. The list is in an `mcp_toolset` of `tools` (all off by
`default_config`, some on by `configs`; or pinned as `tools`), or in the server's own `tool_configuration`, as
the older beta has it.
"""

from __future__ import annotations

from typing import Any

from modegate.core.dialects.common.tool_filter import inner
from modegate.core.dialects.messages.request.parsing import MessagesRequest
from modegate.core.ids import ToolName
from modegate.core.policy.in_force import ModesInForce
from modegate.core.wire.arguments import parse_arguments
from modegate.core.wire.json_spans import Span

ANY = ToolName("mcp")
"""Allowed, every server may be called."""


class Servers:
    """The servers of one request that stay."""

    def __init__(self, request: MessagesRequest, in_force: ModesInForce) -> None:
        self._request = request
        self._in_force = in_force
        self.every = in_force.may_run(ANY)
        """All of them do."""
        servers = [self._read(span) for span in request.servers]
        toolsets = [self._read(tool.span) for tool in request.tools if tool.toolset]
        lists: dict[str, list[list[str] | None]] = {}
        for entry in servers:
            known = lists.setdefault(_name(entry, "name"), [])
            if entry is None or entry.get("tool_configuration") is not None:
                known.append(_configured(entry))
        for entry in toolsets:
            server = _name(entry, "mcp_server_name")
            if server in lists:
                lists[server].append(_enabled(entry))
        self._kept = {name for name, known in lists.items() if self._may_run(name, known)}

    def __contains__(self, name: object) -> bool:
        return self.every or name in self._kept

    def entry_stays(self, span: Span) -> bool:
        return self.every or _name(self._read(span), "name") in self._kept

    def toolset_stays(self, span: Span) -> bool:
        return self.every or _name(self._read(span), "mcp_server_name") in self._kept

    def _may_run(self, server: str, known: list[list[str] | None]) -> bool:
        if not server or not known:
            return False
        return all(
            tools is not None
            and all(self._in_force.may_run(tool_name(server, tool)) for tool in tools)
            for tools in known
        )

    def _read(self, span: Span) -> dict[str, Any] | None:
        """Decode an entry; None if a key stands twice anywhere in it."""
        return parse_arguments(self._request.readable[span.start : span.end].decode())


def tool_name(server: str, tool: str) -> ToolName:
    """Return the name under which a policy allows one tool of a server."""
    return ToolName(f"mcp__{server}__{tool}")


def _name(entry: dict[str, Any] | None, key: str) -> str:
    found = inner(entry, key)
    return found if isinstance(found, str) else ""


def _configured(server: dict[str, Any] | None) -> list[str] | None:
    """Return the tools of an entry of `mcp_servers`; None if it does not say."""
    configuration = inner(server, "tool_configuration")
    if inner(configuration, "enabled") is False:
        return []
    return _names(inner(configuration, "allowed_tools"))


def _enabled(toolset: dict[str, Any] | None) -> list[str] | None:
    """Return the tools of a toolset; None if it does not say."""
    if inner(inner(toolset, "default_config"), "enabled") is not False:
        pinned = inner(toolset, "tools")
        found = [inner(tool, "name") for tool in pinned] if isinstance(pinned, list) else None
        return _names(found)
    configs = inner(toolset, "configs") or {}
    if not isinstance(configs, dict):
        return None
    return [name for name, config in configs.items() if inner(config, "enabled") is not False]


def _names(found: Any) -> list[str] | None:
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        return None
    return found

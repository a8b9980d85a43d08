"""What of a Messages request, beside `tools`, lets the provider act by itself, and what becomes of it (L6).

No beta of the `anthropic-beta` header makes the provider run anything that the body does not ask for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from modegate.core.dialects.common import hosted
from modegate.core.dialects.messages.request.mcp import Servers, tool_name
from modegate.core.dialects.messages.request.parsing import MessagesRequest, blocks_of
from modegate.core.errors import BadRequest
from modegate.core.ids import ToolName
from modegate.core.policy.in_force import ModesInForce
from modegate.core.wire.arguments import parse_arguments
from modegate.core.wire.json_spans import Edit, without

CODE = ToolName("code_execution")
"""Runs code in a container of the provider's; skills run there too."""

PARTS = {"bash_code_execution": CODE, "text_editor_code_execution": CODE}
"""Calls that come under other names than the tool's own."""

WORDS = (b"server_tool_use", b"mcp_tool_use", b"_tool_result")


def refuse(request: MessagesRequest, in_force: ModesInForce, servers: Servers) -> None:
    """Raise `BadRequest`, with a way out, for what cannot be taken out without asking for something else."""
    hosted.refuse(request, in_force)
    hosted.refuse_tools_in(request.history, "messages", in_force)
    _refuse_thread(request, in_force)
    _refuse_skills(request, in_force)
    for name in _unfinished(request, in_force, servers):
        raise BadRequest(
            f"the history holds a call of {name!r} that the provider would now run, which mode "
            f"{in_force.label!r} does not allow; begin a new turn, or allow the tool in policies.yaml"
        )


def removable(request: MessagesRequest, in_force: ModesInForce, servers: Servers) -> set[str]:
    drop = hosted.removable(request, in_force) - {"mcp_servers", "container"}
    if request.servers and not any(map(servers.entry_stays, request.servers)):
        drop.add("mcp_servers")
        if not request.declares_tools:
            drop.add("tool_choice")  # nothing is left to choose from
    if request.value("container") is not None and not in_force.may_run(CODE):
        drop.add("container")
    if request.value("thread") is not None:
        # Asks the provider to keep the conversation; each later request is then sent whole, as now.
        drop.add("thread")
    return drop


def server_edits(request: MessagesRequest, servers: Servers) -> list[Edit]:
    """Take out of `mcp_servers` those that do not stay, where some do."""
    spans = request.servers
    drop = {index for index, span in enumerate(spans) if not servers.entry_stays(span)}
    return without(spans, drop) if len(drop) < len(spans) else []


def _refuse_thread(request: MessagesRequest, in_force: ModesInForce) -> None:
    """Refuse to go on with a conversation that the provider keeps: its tools are kept there too."""
    span, thread = request.top.get("thread"), request.value("thread")
    if span is None or thread is None:
        return
    if thread != {"type": "create"} or len(request.members_of(span)) > 1:
        raise BadRequest(
            f"'thread' goes on with tools that are kept at the provider, which mode {in_force.label!r} "
            "cannot filter; send the whole conversation without 'thread'"
        )


def _refuse_skills(request: MessagesRequest, in_force: ModesInForce) -> None:
    span, container = request.top.get("container"), request.value("container")
    if span is None or not isinstance(container, dict) or in_force.may_run(CODE):
        return
    found = [member.value for member in request.members_of(span) if member.key == "skills"]
    if any(request.decode(value) for value in found):
        raise BadRequest(
            f"'container' holds skills, which run code at the provider; mode {in_force.label!r} does not "
            f"allow that: ask without them, or allow the tool {CODE!r} in policies.yaml"
        )


def _unfinished(
    request: MessagesRequest, in_force: ModesInForce, servers: Servers
) -> Iterator[str]:
    """Yield the provider's own calls in the history that have no result and may not run.

    Sent back at its end, they go on (`pause_turn`); results of the agent's own tools may stand behind them,
    since code at the provider can wait for these. Anywhere else the API refuses them.
    """
    blocks = [block for message in _with_calls(request) for block in blocks_of(message)]
    done = {block.get("tool_use_id") for block in blocks if _is_result(block)}
    for block in blocks:
        name = str(block.get("name"))
        kind = block.get("type")
        if block.get("id") in done:
            continue
        if kind == "server_tool_use" and not in_force.may_run(PARTS.get(name, ToolName(name))):
            yield name
        elif kind == "mcp_tool_use":
            server = str(block.get("server_name"))
            if server not in servers and not in_force.may_run(tool_name(server, name)):
                yield tool_name(server, name)


def _with_calls(request: MessagesRequest) -> Iterator[dict[str, Any]]:
    """Yield the messages that may hold calls of the provider's, or their results."""
    for number, span in request.saying(*WORDS):
        message = parse_arguments(request.readable[span.start : span.end].decode())
        if message is None:
            raise BadRequest(f"messages[{number}] holds a key twice")
        yield message


def _is_result(block: dict[str, Any]) -> bool:
    kind = block.get("type")
    return isinstance(kind, str) and kind != "tool_result" and kind.endswith("tool_result")

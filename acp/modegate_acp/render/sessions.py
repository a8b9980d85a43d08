"""How a session's state looks to one client: the only place that knows the shapes of ACP v1. Pure.

The documents and the schemas of the protocol disagree, and clients drop silently what does not fit
their schema; so both spellings go out (`currentModeId` and `modeId`, `id` and `configId`), and a permission
request carries the fields of v1 and of v2.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from modegate.core.ids import DEFAULT_MODE, SessionId
from modegate.core.log.fold import State
from modegate.core.policy.gating import ALONE, Held
from modegate.core.policy.model import Policy
from modegate.server.printable import printable
from modegate.server.proxy.sessions import SessionSummary
from modegate_acp.messages.clients import Peer
from modegate_acp.messages.commands import MODE_OPTION, SEEN
from modegate_acp.messages.jsonrpc import Message, notification

PROTOCOL_VERSION = 1

MAX_TITLE_ID = 24
"""Characters of a session's id in its title; agents' ids have 36 and more, and rows hold them whole."""

DEFAULT_DESCRIPTION = "No policy: what the agent and its model do passes unchanged."
GONE_DESCRIPTION = "The policy no longer has this mode; requests are refused until another is set."

_ARGUMENT = {"input": {"type": "text", "hint": "name of a mode, or nothing"}}
COMMANDS: list[Message] = [
    # `type` is v2's, which knows no command and no input without one.
    {"type": "command", "name": name, "description": description, **more}
    for name, description, more in (
        ("mode", "Show the mode, or set it", _ARGUMENT),
        ("status", "Show the session's mode and open questions", {}),
        ("sessions", "List the sessions", {}),
        ("help", "Say what this is and how to use it", {}),
    )
]


def initialized(version: str) -> Message:
    """Return the result of `initialize`: version 1, whatever was asked for."""
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "agentCapabilities": {
            "loadSession": True,
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}},
        },
        "agentInfo": {"name": "modegate", "title": "modegate", "version": version},
        "authMethods": [],
    }


def meta(state: State, held: Held = ALONE) -> Message:
    """Return what stands in `_meta` wherever a mode is told."""
    if not held.by:
        return {SEEN: state.seq}
    by = [{"sessionId": one.session, "modeId": one.mode} for one in held.by]
    return {SEEN: state.seq, "modegate/own": state.mode, "modegate/heldBy": by}


def modes(policy: Policy, state: State, held: Held = ALONE) -> Message:
    """Return `modes`: the mode in force, its own or its parent's, and those that can be set."""
    current = held.mode(state.mode)
    available: list[Message] = [
        {"id": DEFAULT_MODE, "name": "Default", "description": DEFAULT_DESCRIPTION}
    ]
    for mode in policy.modes.values():
        known: Message = {"id": mode.id, "name": mode.name}
        available.append(known | ({"description": mode.description} if mode.description else {}))
    if current not in {one["id"] for one in available}:
        # Clients expect the current one among them.
        available.append({"id": current, "name": current, "description": GONE_DESCRIPTION})
    return {"currentModeId": current, "availableModes": available}


def options(policy: Policy, state: State, held: Held = ALONE) -> list[Message]:
    shown = modes(policy, state, held)
    about = "What the agent's model may do; held by modegate, outside the agent."
    if held.by:
        about = f"In force: {held.told(state.mode)}. {about}"
    return [
        {
            "id": MODE_OPTION,
            "configId": MODE_OPTION,
            "name": "Mode",
            "description": about,
            "category": "mode",
            "type": "select",
            "currentValue": shown["currentModeId"],
            "options": [{"value": mode.pop("id"), **mode} for mode in shown["availableModes"]],
        }
    ]


def session(policy: Policy, state: State, peer: Peer, held: Held = ALONE) -> Message:
    """Return what every answer to new, load and resume carries."""
    shown: Message = {"modes": modes(policy, state, held), "_meta": meta(state, held)}
    return shown | ({"configOptions": options(policy, state, held)} if peer.options else {})


def update(name: SessionId, change: Message, told: Message | None = None) -> Message:
    """Return a `session/update`; `told` is its `_meta`."""
    params: Message = {"sessionId": name, "update": change}
    return notification("session/update", params | ({"_meta": told} if told else {}))


def mode_update(name: SessionId, state: State, held: Held = ALONE) -> Message:
    """Return the update that tells a mode, in both spellings."""
    current = held.mode(state.mode)
    mode = {"currentModeId": current, "modeId": current}
    return update(name, {"sessionUpdate": "current_mode_update", **mode}, meta(state, held))


def option_update(name: SessionId, policy: Policy, state: State, held: Held = ALONE) -> Message:
    """Return the update that tells a mode as an option; clients follow one or the other."""
    shown = options(policy, state, held)
    change: Message = {"sessionUpdate": "config_option_update", "configOptions": shown}
    return update(name, change, meta(state, held))


def commands(name: SessionId) -> Message:
    """Return the update that names the commands of `session/prompt`; editors refuse others."""
    return update(
        name, {"sessionUpdate": "available_commands_update", "availableCommands": COMMANDS}
    )


def agent_message(name: SessionId, text: str) -> Message:
    content = {"type": "text", "text": text}
    return update(name, {"sessionUpdate": "agent_message_chunk", "content": content})


def time_of(at: int) -> str:
    """Return a time (milliseconds since the epoch) as RFC 3339 has it."""
    when = datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")
    return when.replace("+00:00", "Z")


def title(name: SessionId, agent: str) -> str:
    """Name a session for a list: its agent's name without version and system, and its id."""
    product = printable(agent).partition("/")[0].partition(" ")[0]
    short = name if len(name) <= MAX_TITLE_ID else f"{name[:MAX_TITLE_ID]}…"
    return f"{product}: {short}" if product else short


def session_row(
    name: SessionId, cwd: str, agent: str, at: int, summary: SessionSummary
) -> dict[str, Any]:
    """Return a row of `session/list`; `at` is milliseconds since the epoch."""
    state, held = summary.state, summary.held
    told: Message = {"modegate/mode": held.mode(state.mode) if state else None}
    told["modegate/gate"] = summary.gating
    return {
        "sessionId": name,
        "cwd": cwd,
        "title": title(name, agent),
        "updatedAt": time_of(at),
        "_meta": told | (meta(state, held) if state else {}),
    }

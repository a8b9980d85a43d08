"""How a session's state looks to one client: the only place that knows the shapes of ACP v1. Pure.

The documents and the schemas of the protocol disagree, and clients drop silently what does not fit
their schema; so both spellings go out (`currentModeId` and `modeId`, `id` and `configId`), and a permission
request carries the fields of v1 and of v2.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from modegate.core.ids import DEFAULT_MODE, SessionId
from modegate.core.log.approval_events import Option
from modegate.core.log.approvals import Approval, Status
from modegate.core.log.fold import State
from modegate.core.log.parents import ALONE, Held
from modegate.core.policy.model import Policy
from modegate.server.printable import printable
from modegate.server.proxy.sessions import SessionSummary
from modegate_acp.messages.clients import Peer
from modegate_acp.messages.commands import MODE_OPTION, SEEN
from modegate_acp.messages.jsonrpc import Id, Message, notification, request

PROTOCOL_VERSION = 1

CONFIRM = "confirm"
"""The option that confirms that a mode is left."""

MAX_TITLE_ID = 24
"""Characters of a session's id in its title; agents' ids have 36 and more, and rows hold them whole."""

SHORT = 500
"""Characters of a plan in the description of a dialog, beside the plan itself."""

DEFAULT_DESCRIPTION = "No policy: what the agent and its model do passes unchanged."
GONE_DESCRIPTION = "The policy no longer has this mode; requests are refused until another is set."

COMMANDS: list[Message] = [
    # `type` is v2's, which knows no command and no input without one.
    {
        "type": "command",
        "name": "mode",
        "description": "Show the mode, or set it",
        "input": {"type": "text", "hint": "name of a mode, or nothing"},
    },
    *(
        {"type": "command", "name": name, "description": description}
        for name, description in (
            ("status", "Show the session's mode and open questions"),
            ("sessions", "List the sessions"),
            ("help", "Say what this is and how to use it"),
        )
    ),
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
    """Return `configOptions`, complete: the mode, as a select."""
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


def said(name: SessionId, text: str) -> Message:
    """Return a piece of text from us."""
    content = {"type": "text", "text": text}
    return update(name, {"sessionUpdate": "agent_message_chunk", "content": content})


def tool_call(approval: Approval) -> Message:
    """Return a question as the tool call that it is about; its text is a model's and is data.

    The text may have 256 KB, and some clients take no message over 1 MiB: it stands in `content` alone.
    """
    asked = approval.asked
    if asked.purpose == "exit":
        title, kind = "Plan: ready to leave the mode?", "switch_mode"
    else:
        title, kind = f"Run {printable(asked.tool)}?", "other"
    return {
        "toolCallId": asked.id,
        "title": title,
        "kind": kind,
        "status": "pending",
        "content": [_text(asked.text)],
        "rawInput": {"tool": asked.tool},
    }


def _text(text: str) -> Message:
    return {"type": "content", "content": {"type": "text", "text": text}}


def question(approval: Approval, offered: tuple[Option, ...], *, one_way: bool) -> str:
    """Return a question as text, for clients whose dialog shows its title alone; a terminal may take it raw.

    What a model wrote is quoted, so that none of it can be taken for our words.
    """
    asked = approval.asked
    shown = "\n".join(f"> {printable(line.expandtabs(4))}" for line in asked.text.splitlines())
    lines = [tool_call(approval)["title"], "", shown]
    if one_way:
        lines += ["", *(f"{'No' if o.kind == 'reject' else 'Yes'} is: {o.label}" for o in offered)]
        others = (one for one in asked.options if one not in offered)
        lines += [f"`modegate approve {asked.id} --option {o.id}`: {o.label}" for o in others]
    return "\n\n" + "\n".join(lines) + "\n\n"


def pending(name: SessionId, call: Message) -> Message:
    """Return the update that shows a tool call before it is asked about."""
    return update(name, {"sessionUpdate": "tool_call", **call})


_KINDS = {"approve": "allow_once", "allow_once": "allow_once", "reject": "reject_once"}


def choices(offered: tuple[Option, ...]) -> list[Message]:
    """Return a question's options; their labels are the policy's."""
    return [{"optionId": one.id, "name": one.label, "kind": _KINDS[one.kind]} for one in offered]


def permission(rpc: Id, name: SessionId, call: Message, offered: list[Message]) -> Message:
    """Return the request that asks a person; it is valid in v1 (`toolCall`) and v2 (`title`, `subject`)."""
    text = call["content"][0]["content"]["text"]
    # v2 updates the tool call that was shown before, and so need not repeat its content.
    subject = {key: value for key, value in call.items() if key != "content"}
    return request(
        rpc,
        "session/request_permission",
        {
            "sessionId": name,
            "toolCall": call,
            "title": call["title"],
            "description": text if len(text) <= SHORT else text[:SHORT] + "…",
            "subject": {"type": "tool_call", "toolCall": subject},
            "options": offered,
        },
    )


def withdrawn(rpc: Id) -> Message:
    """Return the notification that a request of ours needs no answer any more."""
    return notification("$/cancel_request", {"requestId": rpc})


def settled(name: SessionId, call: str, *, well: bool, how: str) -> Message:
    """Return the update with the final status of a tool call."""
    return update(
        name,
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": call,
            "status": "completed" if well else "failed",
            "content": [_text(how)],
        },
    )


def ending(approval: Approval | None) -> str:
    """Say how a question ended, for people."""
    if approval is None:
        return "This question is over."
    if approval.status is Status.ANSWERED:
        label = next((o.label for o in approval.asked.options if o.id == approval.option), "")
        return f"{'Approved' if approval.approved else 'Rejected'}: {label} (by {approval.by})."
    if approval.status.open:
        return "Expired." if approval.open else "Not answered in time."
    return f"Closed: {approval.why}."


def loosening(
    call: str, was: str, wanted: str, parent: SessionId | None = None
) -> tuple[Message, list[Message]]:
    """Return the tool call and the options of the dialog that confirms that a mode is left.

    With `parent`, it is that one's mode which holds the session until a person sets its own.
    """
    text = f"Leave mode {was!r} for {wanted!r}? Its rules then no longer hold."
    if parent is not None:
        text = (
            f"This session follows its parent {parent!r}, and {was!r} is in force here. "
            f"Set {wanted!r} for it alone? Then its parent's mode no longer holds it."
        )
    shown: Message = {
        "toolCallId": call,
        "title": f"Set mode {wanted!r} (now {was!r})?",
        "kind": "switch_mode",
        "status": "pending",
        "content": [_text(text)],
        "rawInput": {"from": was, "to": wanted},
    }
    offered: list[Message] = [
        {"optionId": CONFIRM, "name": f"Set {wanted}", "kind": "allow_once"},
        {"optionId": "reject", "name": f"Stay in {was}", "kind": "reject_once"},
    ]
    return shown, offered


def time_of(at: int) -> str:
    """Return a time (milliseconds since the epoch) as RFC 3339 has it."""
    when = datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")
    return when.replace("+00:00", "Z")


def title(name: SessionId, agent: str) -> str:
    """Name a session for a list: its agent's name without version and system, and its id."""
    product = printable(agent).partition("/")[0].partition(" ")[0]
    short = name if len(name) <= MAX_TITLE_ID else f"{name[:MAX_TITLE_ID]}…"
    return f"{product}: {short}" if product else short


def listed(
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

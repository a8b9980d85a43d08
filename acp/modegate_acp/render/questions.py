"""How a question to a person looks to a client, and what the client's answer means. Pure.

A permission request carries the fields of v1 and of v2: clients drop silently what does not fit their schema.
Of answers, only an option that was offered to that connection counts. Whatever else comes is never a yes: not
an error, not an option of another question, not a malformed answer.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from modegate.core.ids import SessionId
from modegate.core.levels import to_answer
from modegate.core.log.approval_events import ApprovalAsked, Option
from modegate.core.log.approvals import Approval, Status
from modegate.core.policy.model import Level
from modegate.server.printable import printable
from modegate_acp.messages.jsonrpc import Id, Message, Reply, notification, request
from modegate_acp.render.sessions import update

SHORT = 500
"""Characters of a plan in the description of a dialog, beside the plan itself."""

CONFIRM = "confirm"
"""The option that confirms that a mode is left."""


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


def as_text(approval: Approval, offered: tuple[Option, ...], *, one_way: bool) -> str:
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


def new_tool_call(name: SessionId, call: Message) -> Message:
    """Return the update that shows a tool call before it is asked about."""
    return update(name, {"sessionUpdate": "tool_call", **call})


_KINDS = {"approve": "allow_once", "allow_once": "allow_once", "reject": "reject_once"}


def choices(offered: tuple[Option, ...]) -> list[Message]:
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


def cancel_request(rpc: Id) -> Message:
    return notification("$/cancel_request", {"requestId": rpc})


def tool_call_update(name: SessionId, call: str, *, well: bool, how: str) -> Message:
    return update(
        name,
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": call,
            "status": "completed" if well else "failed",
            "content": [_text(how)],
        },
    )


def how_it_ended(approval: Approval | None) -> str:
    if approval is None:
        return "This question is over."
    if approval.status is Status.ANSWERED:
        label = next((o.label for o in approval.asked.options if o.id == approval.option), "")
        return f"{'Approved' if approval.approved else 'Rejected'}: {label} (by {approval.by})."
    if approval.status.open:
        return "Expired." if approval.open else "Not answered in time."
    return f"Closed: {approval.why}."


def confirmation(
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


@dataclass(frozen=True, slots=True)
class Chosen:
    option: str


@dataclass(frozen=True, slots=True)
class Abstained:
    """The person, or their client, did not decide."""

    cancelled: bool
    """Said so in the protocol's own words, so that it is a no if nobody else is left to decide."""
    why: str = "cancelled"


def outcome(reply: Reply, offered: Collection[str]) -> Chosen | Abstained:
    if reply.error is not None:
        return Abstained(cancelled=False, why="the client answered with an error")
    told = reply.result.get("outcome") if isinstance(reply.result, dict) else None
    kind = told.get("outcome") if isinstance(told, dict) else None
    if not isinstance(told, dict) or kind not in ("selected", "cancelled"):
        return Abstained(cancelled=False, why="the answer is malformed")
    if kind == "cancelled":
        return Abstained(cancelled=True)
    option = told.get("optionId")
    if not isinstance(option, str) or option not in offered:
        return Abstained(cancelled=False, why="the option was not offered")
    return Chosen(option)


def may_choose(asked: ApprovalAsked, level: Level, *, one_way: bool = False) -> tuple[Option, ...]:
    """Return the options that a connection of this level may choose; a rejection last.

    With `one_way`, only the first that approves: the client shows its person no difference between them.
    """
    may = [one for one in asked.options if level.covers(to_answer(one.kind))]
    ways = [one for one in may if one.kind != "reject"]
    return (*(ways[:1] if one_way else ways), *(one for one in may if one.kind == "reject"))

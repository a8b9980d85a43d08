"""`session/prompt`: what people type (`/mode`, `/status`, `/sessions`, `/help`) is answered as text.

The endpoint holds modes; prompts are for the agent. A person who types anything else is told so. A mode that
is typed is set like any other.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from modegate.core.errors import ModegateError
from modegate.core.ids import DEFAULT_MODE, SessionId
from modegate.core.log.approvals import Approval
from modegate.core.log.fold import State
from modegate.core.policy.gating import Held
from modegate.core.policy.model import Policy
from modegate.server.printable import printable
from modegate_acp.connection.connection import Connection
from modegate_acp.following.session_feed import read_snapshot
from modegate_acp.messages.commands import Prompt, SetMode
from modegate_acp.messages.jsonrpc import Message, RpcError, as_rpc
from modegate_acp.methods.sessions import newest_sessions
from modegate_acp.methods.set_mode import ModeChange, set_now
from modegate_acp.render import sessions as render

ABOUT = (
    "This is modegate. It holds the agent's mode outside the agent; it does not run prompts. Set the mode "
    "with your client's mode picker or here, and give prompts to the agent itself."
)
HELP = f"""{ABOUT}

- `/mode` shows the mode and those there are, `/mode NAME` sets it
- `/status` shows the mode and what waits for your answer
- `/sessions` lists the sessions
- `/help` shows this"""


async def prompt(connection: Connection, asked: Prompt) -> Message:
    """Say what was asked for, and put what is open to a person whom only prompts reach; end the turn.

    Not beside a mode that was typed: who lets their client say yes to that has said nothing of a plan.
    """
    command = read_slash_command(asked.text)
    try:
        text = await _text(connection, asked, command) if command else ABOUT
    except (RpcError, ModegateError) as error:
        rpc = as_rpc(error)
        available = rpc.data.get("available") if rpc.data else None
        text = f"{rpc}" + (f"; there are: {', '.join(available)}" if available else "")
    connection.followed.send(asked.session, render.agent_message(asked.session, text))
    if command is None or not command.sets:
        await connection.questions.ask_within_prompt(asked.session)
    return {"stopReason": "end_turn"}


async def _text(connection: Connection, asked: Prompt, command: SlashCommand) -> str:
    session, services = asked.session, connection.services
    if command.name == "help":
        return HELP
    if command.name == "sessions":
        return sessions_text(await newest_sessions(connection))
    if command.sets:
        wanted = SetMode(session, command.rest, asked.seen, "prompt")
        change = ModeChange.of(connection, wanted)
        await set_now(connection, change)
        return f"Mode: {change.mode}"
    now = await read_snapshot(services, connection.key(session))
    if command.name == "mode":
        return mode_text(now.policy, now.state, now.held)
    pending = await services.approvals.of(connection.key(session))
    return status_text(session, now.state, now.held, [one.approval for one in pending])


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """A command: its name without the slash, and what follows it."""

    name: str
    rest: str = ""

    @property
    def sets(self) -> bool:
        return self.name == "mode" and bool(self.rest)


def read_slash_command(text: str) -> SlashCommand | None:
    first, _, rest = text.strip().partition(" ")
    known = {"/mode", "/status", "/sessions", "/help"}
    return SlashCommand(first[1:], rest.strip()) if first in known else None


def mode_text(policy: Policy, state: State, held: Held) -> str:
    """Say which mode is in force, by whom, and which there are."""
    names = (state.mode, *(one.mode for one in held.by))
    in_force = {name for name in names if name != DEFAULT_MODE} or {DEFAULT_MODE}
    rows = [_row(DEFAULT_MODE, "no policy", in_force)]
    rows += [_row(one.id, one.description or one.name, in_force) for one in policy.modes.values()]
    return "\n".join([f"Mode: {held.told(state.mode)}", "", *rows])


def _row(mode: str, about: str, in_force: Collection[str]) -> str:
    return f"- `{mode}`{' (in force)' if mode in in_force else ''}: {about}"


def status_text(session: SessionId, state: State, held: Held, questions: Sequence[Approval]) -> str:
    mode = f"Mode: {held.told(state.mode)} (event {state.mode_seq} of {state.seq})"
    lines = [f"Session: {session}", mode]
    if state.opened is not None and state.opened.agent:
        lines.append(f"Agent: {printable(state.opened.agent)}")
    lines.append(f"Open questions: {len(questions)}")
    lines += [f"- {printable(one.asked.tool)} ({one.asked.id})" for one in questions]
    return "\n".join(lines)


def sessions_text(rows: Sequence[tuple[SessionId, str, str]]) -> str:
    if not rows:
        return "There are no sessions yet."
    return "\n".join(
        f"- `{name}`: {mode}{f' ({printable(agent)})' if agent else ''}"
        for name, mode, agent in rows
    )

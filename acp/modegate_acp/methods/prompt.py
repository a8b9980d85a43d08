"""`session/prompt`: what is typed is answered as text; a mode that is typed is set like any other."""

from __future__ import annotations

from modegate.core.errors import ModegateError
from modegate_acp.connection.connection import Connection
from modegate_acp.following.session_feed import read_snapshot
from modegate_acp.messages.commands import Prompt, SetMode
from modegate_acp.messages.errors import as_rpc
from modegate_acp.messages.jsonrpc import Message, RpcError
from modegate_acp.methods.session_list import newest_sessions
from modegate_acp.methods.set_mode import ModeChange, set_now
from modegate_acp.methods.slash_commands import (
    ABOUT,
    HELP,
    SlashCommand,
    mode_text,
    read_slash_command,
    sessions_text,
    status_text,
)
from modegate_acp.render import sessions as render


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
        named = ModeChange.of(connection, SetMode(session, command.rest, asked.seen))
        await set_now(connection, ModeChange(session, named.mode, "prompt", asked.seen))
        return f"Mode: {named.mode}"
    now = await read_snapshot(services, connection.key(session))
    if command.name == "mode":
        return mode_text(now.policy, now.state, now.held)
    pending = await services.approvals.of(connection.key(session))
    return status_text(session, now.state, now.held, [one.approval for one in pending])

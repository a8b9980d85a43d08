"""`session/prompt`: what is typed is answered as text; a mode that is typed is set like any other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from modegate.core.errors import ModegateError
from modegate.core.ids import SessionId
from modegate.server.proxy.sessions import held_by
from modegate_acp.connection.connection import Connection
from modegate_acp.messages.commands import Prompt, SetMode
from modegate_acp.messages.errors import as_rpc
from modegate_acp.messages.jsonrpc import Message, RpcError
from modegate_acp.methods.set_mode import ModeChange, set_now
from modegate_acp.methods.slash_commands import (
    ABOUT,
    HELP,
    Typed,
    mode_text,
    sessions_text,
    status_text,
    typed,
)
from modegate_acp.render import sessions as render

Rows = Callable[[Connection], Awaitable[list[tuple[SessionId, str, str]]]]


async def prompt(connection: Connection, asked: Prompt, rows: Rows) -> Message:
    """Say what was asked for, and put what is open to a person whom only prompts reach; end the turn.

    Not beside a mode that was typed: who lets their client say yes to that has said nothing of a plan.
    """
    command = typed(asked.text)
    try:
        text = await _text(connection, asked, command, rows) if command else ABOUT
    except (RpcError, ModegateError) as error:
        rpc = as_rpc(error)
        available = rpc.data.get("available") if rpc.data else None
        text = f"{rpc}" + (f"; there are: {', '.join(available)}" if available else "")
    connection.following.send(asked.session, render.said(asked.session, text))
    if command is None or not command.sets:
        await connection.following.ask_within_prompt(asked.session)
    return {"stopReason": "end_turn"}


async def _text(connection: Connection, asked: Prompt, command: Typed, rows: Rows) -> str:
    session, shared = asked.session, connection.shared
    if command.name == "help":
        return HELP
    if command.name == "sessions":
        return sessions_text(await rows(connection))
    if command.sets:
        wish = SetMode(session, command.rest, asked.seen)
        named = ModeChange.of(connection, wish)
        await set_now(connection, ModeChange(session, named.mode, "prompt", asked.seen))
        return f"Mode: {named.mode}"
    state = await shared.folds.state(connection.key(session))
    held = await held_by(shared.folds, connection.key(session), state)
    if command.name == "mode":
        return mode_text(shared.policies.current, state, held)
    pending = await shared.approvals.of(connection.key(session))
    return status_text(session, state, held, [one.approval for one in pending])

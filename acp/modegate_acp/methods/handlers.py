"""Which method does what, for one connection."""

from __future__ import annotations

from functools import partial
from typing import assert_never

from modegate import __version__
from modegate_acp.connection.connection import Connection
from modegate_acp.connection.running_requests import SESSION_CANCEL
from modegate_acp.messages import commands
from modegate_acp.messages.commands import Command
from modegate_acp.messages.jsonrpc import Message, Request
from modegate_acp.methods.prompt import prompt
from modegate_acp.methods.sessions import attach, close_session, follow, list_sessions, new_session
from modegate_acp.methods.set_mode import ModeChange, set_mode
from modegate_acp.render import sessions as render


async def handle(connection: Connection, command: Command, request: Request) -> Message | None:
    """Do what a command asks for, and return the result; None if the answer comes later."""
    match command:
        case commands.Initialize(peer):
            connection.peer, connection.initialized = peer, True
            return render.initialized(__version__)
        case commands.NewSession():
            return await new_session(connection, command)
        case commands.Attach(session, replay):
            return await attach(connection, session, replay=replay)
        case commands.ListSessions():
            return await list_sessions(connection, command)
        case commands.CloseSession(session):
            return await close_session(connection, session)
        case commands.SetMode():
            await follow(connection, command.session)
            return await set_mode(connection, ModeChange.of(connection, command), request)
        case commands.Prompt(session):
            await follow(connection, session)
            connection.running.later(request, session, partial(prompt, connection, command))
            return None
        case commands.Cancel(session):
            connection.running.stop(session, SESSION_CANCEL)
            connection.questions.leave_all(session, dismissed=True)
            return None
        case commands.CancelRequest() | commands.Ignore():
            return None
    assert_never(command)

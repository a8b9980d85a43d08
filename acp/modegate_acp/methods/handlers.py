"""What each method does, for one connection: sessions are found, opened, listed and left.

Setting a mode is in `transition`; what is typed as a prompt in `typing`.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import assert_never

from modegate import __version__
from modegate.core.errors import SessionUnreadable
from modegate.core.ids import DEFAULT_MODE, Seq, SessionId
from modegate.core.log.approval_events import ApprovalAnswered
from modegate.core.log.events import Event, ModeSet, SessionOpen
from modegate.core.log.fold import State
from modegate.core.log.parents import Held
from modegate.core.log.records import Entry, Record
from modegate.core.policy.gating import TOLD, Gating
from modegate.core.policy.model import Level
from modegate.server.log.batch_writer import PERIOD_S
from modegate.server.log.protocol import Listed, Seen
from modegate.server.proxy.sessions import SessionSummary, held_by, summarize
from modegate_acp.connection.connection import Connection
from modegate_acp.connection.running_requests import SESSION_CANCEL
from modegate_acp.messages import commands
from modegate_acp.messages.clients import Peer
from modegate_acp.messages.commands import Command, unknown_session
from modegate_acp.messages.jsonrpc import INVALID_PARAMS, Message, Request, RpcError
from modegate_acp.methods.prompt import prompt
from modegate_acp.methods.set_mode import ModeChange, set_mode
from modegate_acp.render import sessions as render

ACP = "acp"
"""How a session was found that a client opened, until an agent sends a request."""

PAGE = 50
"""Rows of one answer to `session/list`."""

MAX_PAGES = 20
"""Pages of the index that one answer looks through for a folder."""

REPLAYED = 200
"""Events looked through for the history that `session/load` shows."""


async def handle(connection: Connection, command: Command, request: Request) -> Message | None:
    """Do what a command asks for, and give the result; None if the answer comes later."""
    match command:
        case commands.Initialize():
            connection.peer = command.peer
            return render.initialized(__version__)
        case commands.NewSession():
            return await _new(connection, command)
        case commands.Attach():
            return await _attach(connection, command.session, replay=command.replay)
        case commands.ListSessions():
            return await _list(connection, command)
        case commands.CloseSession():
            return await _close(connection, command.session)
        case commands.SetMode():
            await _follow(connection, command.session)
            return await set_mode(connection, ModeChange.of(connection, command), request)
        case commands.Prompt():
            await _follow(connection, command.session)
            answer = partial(prompt, connection, command, rows_of)
            connection.work.later(request, command.session, answer)
            return None
        case commands.Cancel():
            connection.work.stop(command.session, SESSION_CANCEL)
            connection.following.abstain(command.session)
            return None
        case commands.CancelRequest() | commands.Ignore():
            return None
    assert_never(command)


async def _new(connection: Connection, command: commands.NewSession) -> Message:
    """Open a session, in the mode in which the policy lets sessions begin."""
    connection.need(Level.TIGHTEN, "opening a session")
    shared = connection.shared
    session = command.name or SessionId(f"acp-{shared.clock.new_id()}")
    if command.name is not None and await _is_known(connection, session):
        raise RpcError(INVALID_PARAMS, "there is a session of this name: load it")
    key, now, peer = connection.key(session), shared.clock.now_ms(), connection.peer or Peer()
    events: list[tuple[str, Event]] = [
        (connection.by("new"), SessionOpen(peer.label, "/acp", ACP, cwd=command.cwd))
    ]
    first = shared.policies.current.sessions.initial(key.tenant)
    if first != DEFAULT_MODE:
        events.append(("policy", ModeSet(first)))
    entries = [Entry(now, by, event) for by, event in events]
    await shared.folds.append(key, entries, expect=Seq(0))
    await shared.log.touch([Seen(key, peer.label, ACP, now)])
    result = await _attach(connection, session, replay=False)
    base = f"{connection.caller.base}/s/{session}"
    result["_meta"] |= {"modegate/baseUrls": {"openai": f"{base}/v1", "anthropic": base}}
    return result


async def _attach(connection: Connection, session: SessionId, *, replay: bool) -> Message:
    state, held = await _begin(connection, session, replay=replay, establish=True)
    policy, peer = connection.shared.policies.current, connection.peer or Peer()
    shown = render.session(policy, state, peer, held)
    return {"sessionId": session, **shown}


async def _follow(connection: Connection, session: SessionId) -> None:
    """Follow a session that is set or asked about without having been loaded."""
    if session not in connection.following:
        _ = await _begin(connection, session)


async def _begin(
    connection: Connection, session: SessionId, *, replay: bool = False, establish: bool = False
) -> tuple[State, Held]:
    """Follow a session from now on, and give its state and what holds it.

    `establish` gives it a stream of its own.
    """
    following = connection.following
    followed = session in following
    following.begin(session)
    try:
        state = await known_state(connection, session)
        held = await held_by(connection.shared.folds, connection.key(session), state)
        if establish:
            _ = connection.outbox.open(session)
        if replay:
            await _replay(connection, session, state)
    except BaseException:
        if not followed:
            following.end(session)
        raise
    following.show(session, state, held)
    return state, held


async def known_state(connection: Connection, session: SessionId) -> State:
    """Return a session's state.

    Raises:
        RpcError: there is no such session for this connection.
        SessionUnreadable, LogUnavailable: nobody knows its state.
    """
    key = connection.key(session)
    state = await connection.shared.folds.state(key)
    if not state.seq and not await _is_known(connection, session):
        raise unknown_session(session)
    if state.unreadable:
        raise SessionUnreadable(state.unreadable)
    return state


async def _is_known(connection: Connection, session: SessionId) -> bool:
    """Return whether a session has sent a request or has an event, also just now and at another process."""
    key, shared = connection.key(session), connection.shared
    if (await shared.folds.state(key)).seq or await shared.log.was_seen(key):
        return True
    # The index is told in batches.
    await asyncio.sleep(2 * PERIOD_S)
    return await shared.log.was_seen(key)


async def _replay(connection: Connection, session: SessionId, state: State) -> None:
    """Show what is known of the past: the endpoint has no conversation, but the modes and their reasons."""
    after = Seq(max(0, state.seq - REPLAYED))
    records = await connection.shared.log.read(connection.key(session), after, REPLAYED)
    lines = [line for record in records if (line := _line(record))]
    if lines:
        connection.following.send(session, render.said(session, "\n".join(lines)))


def _line(record: Record) -> str | None:
    when = render.time_of(record.at)
    match record.event:
        case ModeSet(mode):
            return f"- {when} mode {mode} (by {record.by})"
        case ApprovalAnswered(option=option):
            return f"- {when} a question was answered: {option} (by {record.by})"
        case _:
            return None


async def _list(connection: Connection, command: commands.ListSessions) -> Message:
    await connection.shared.batch_writer.flush()
    rows: list[Message] = []
    cursor = command.cursor
    for _ in range(MAX_PAGES):
        page = await connection.shared.log.sessions(connection.caller.tenant, cursor, PAGE)
        rows += [
            row
            for one in page.rows
            if (row := await _row(connection, one, command.cwd)) is not None
        ]
        cursor = page.next
        if cursor is None or rows:
            break
    return {"sessions": rows} | ({"nextCursor": cursor} if cursor is not None else {})


async def _row(connection: Connection, listed: Listed, cwd: str | None) -> Message | None:
    """Return a session's row; None if it is known to be of another folder, or is another client's alone."""
    seen = await _summary(connection, listed)
    if not _concerns(connection, listed, seen):
        return None
    known = seen.state.opened.cwd if seen.state is not None and seen.state.opened else ""
    if cwd is not None and known and known != cwd:
        return None
    # An agent does not say where it runs, so its session is shown wherever it is asked for.
    where = known or cwd or "/"
    return render.listed(listed.key.session, where, listed.agent, listed.at, seen)


def _concerns(connection: Connection, listed: Listed, seen: SessionSummary) -> bool:
    """Return whether a session concerns others than the client that opened it: an agent has used it.

    Editors open one at each start, which most often no agent ever uses.
    """
    opened = seen.state.opened if seen.state else None
    if listed.how != ACP or opened is None or listed.key.session in connection.following:
        return True
    return opened.agent == (connection.peer or Peer()).label


async def _summary(connection: Connection, listed: Listed) -> SessionSummary:
    return await summarize(connection.shared.folds, connection.shared.policies.current, listed)


async def rows_of(connection: Connection) -> list[tuple[SessionId, str, str]]:
    """Return the newest sessions as (id, mode, agent)."""
    page = await connection.shared.log.sessions(connection.caller.tenant, None, PAGE)
    found = []
    for one in page.rows:
        seen = await _summary(connection, one)
        if not _concerns(connection, one, seen):
            continue
        mode = seen.held.told(seen.state.mode) if seen.state else "unreadable"
        told = "" if seen.gating in (Gating.ON, Gating.DEFAULT) else f", {TOLD[seen.gating]}"
        found.append((one.key.session, f"{mode}{told}", one.agent))
    return found


async def _close(connection: Connection, session: SessionId) -> Message:
    if session not in connection.following:
        await known_state(connection, session)
    connection.work.stop(session, "session/close")
    connection.following.end(session)
    return {}

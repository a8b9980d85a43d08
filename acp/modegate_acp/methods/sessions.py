"""Sessions are opened, followed and left."""

from __future__ import annotations

import asyncio

from modegate.core.errors import SessionUnreadable
from modegate.core.ids import DEFAULT_MODE, Seq, SessionId
from modegate.core.log.approval_events import ApprovalAnswered
from modegate.core.log.events import Event, ModeSet, SessionOpen
from modegate.core.log.fold import State
from modegate.core.log.records import Entry, Record
from modegate.core.policy.model import Level
from modegate.server.log.batch_writer import PERIOD_S
from modegate.server.log.protocol import Seen
from modegate_acp.connection.connection import Connection
from modegate_acp.following.catch_up import Snapshot
from modegate_acp.following.session_feed import snapshot_of
from modegate_acp.messages.commands import NewSession, unknown_session
from modegate_acp.messages.jsonrpc import INVALID_PARAMS, Message, RpcError
from modegate_acp.render import sessions as render

ACP = "acp"
"""How a session was found that a client opened, until an agent sends a request."""

REPLAYED = 200
"""Events looked through for the history that `session/load` shows."""


async def new_session(connection: Connection, command: NewSession) -> Message:
    """Open a session, in the mode in which the policy lets sessions begin."""
    connection.need(Level.TIGHTEN, "opening a session")
    services = connection.services
    session = command.name or SessionId(f"acp-{services.clock.new_id()}")
    if command.name is not None and await _is_known(connection, session):
        raise RpcError(INVALID_PARAMS, "there is a session of this name: load it")
    key, now, client = connection.key(session), services.clock.now_ms(), connection.peer.label
    events: list[tuple[str, Event]] = [
        (connection.by("new"), SessionOpen(client, "/acp", ACP, cwd=command.cwd))
    ]
    first = services.policies.current.sessions.initial(key.tenant)
    if first != DEFAULT_MODE:
        events.append(("policy", ModeSet(first)))
    entries = [Entry(now, by, event) for by, event in events]
    await services.folds.append(key, entries, expect=Seq(0))
    await services.log.touch([Seen(key, client, ACP, now)])
    result = await attach(connection, session, replay=False)
    base = f"{connection.caller.base}/s/{session}"
    result["_meta"] |= {"modegate/baseUrls": {"openai": f"{base}/v1", "anthropic": base}}
    return result


async def attach(connection: Connection, session: SessionId, *, replay: bool) -> Message:
    """Follow a session from now on, on a stream of its own, and show it; with `replay` also its past."""
    now = await _begin(connection, session, replay=replay, establish=True)
    return {
        "sessionId": session,
        **render.session(now.policy, now.state, connection.peer, now.held),
    }


async def follow(connection: Connection, session: SessionId) -> None:
    """Follow a session that is set or asked about without having been loaded."""
    if session not in connection.followed:
        _ = await _begin(connection, session)


async def close_session(connection: Connection, session: SessionId) -> Message:
    if session not in connection.followed:
        _ = await _known_state(connection, session)
    connection.running.stop(session, "session/close")
    connection.followed.end(session)
    return {}


async def _begin(
    connection: Connection, session: SessionId, *, replay: bool = False, establish: bool = False
) -> Snapshot:
    """Follow a session from now on, and return how it stands. `establish` gives it a stream of its own."""
    followed = connection.followed
    before = session in followed
    followed.begin(session)
    try:
        state = await _known_state(connection, session)
        snapshot = await snapshot_of(connection.services, connection.key(session), state)
        if establish:
            _ = connection.send_queue.open(session)
        if replay:
            await _replay(connection, session, state)
    except BaseException:
        if not before:
            followed.end(session)
        raise
    followed.show(snapshot)
    return snapshot


async def _known_state(connection: Connection, session: SessionId) -> State:
    """Return a session's state.

    Raises:
        RpcError: there is no such session for this connection.
        SessionUnreadable, LogUnavailable: nobody knows its state.
    """
    state = await connection.services.folds.state(connection.key(session))
    if not state.seq and not await _is_known(connection, session):
        raise unknown_session(session)
    if state.unreadable:
        raise SessionUnreadable(state.unreadable)
    return state


async def _is_known(connection: Connection, session: SessionId) -> bool:
    """Return whether a session has sent a request or has an event, also just now and at another process."""
    key, services = connection.key(session), connection.services
    if (await services.folds.state(key)).seq or await services.log.was_seen(key):
        return True
    # The index is told in batches.
    await asyncio.sleep(2 * PERIOD_S)
    return await services.log.was_seen(key)


async def _replay(connection: Connection, session: SessionId, state: State) -> None:
    """Show what is known of the past. The endpoint has no conversation, but the modes and their reasons."""
    after = Seq(max(0, state.seq - REPLAYED))
    records = await connection.services.log.read(connection.key(session), after, REPLAYED)
    lines = [line for record in records if (line := _line(record))]
    if lines:
        connection.followed.send(session, render.agent_message(session, "\n".join(lines)))


def _line(record: Record) -> str | None:
    when = render.time_of(record.at)
    match record.event:
        case ModeSet(mode):
            return f"- {when} mode {mode} (by {record.by})"
        case ApprovalAnswered(option=option):
            return f"- {when} a question was answered: {option} (by {record.by})"
        case _:
            return None

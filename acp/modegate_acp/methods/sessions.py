"""Sessions are opened, followed and left, and listed for a client or a person who types `/sessions`."""

from __future__ import annotations

import asyncio

from modegate.core.errors import SessionUnreadable
from modegate.core.ids import DEFAULT_MODE, Seq, SessionId
from modegate.core.log.approval_events import ApprovalAnswered
from modegate.core.log.events import Event, ModeSet, SessionOpen
from modegate.core.log.fold import State
from modegate.core.log.records import Entry, Record
from modegate.core.policy.gating import LABELS, Gating
from modegate.core.policy.in_force import initial_mode
from modegate.core.policy.model import Level
from modegate.server.log.batch_writer import PERIOD_S
from modegate.server.log.protocol import Listed, Seen
from modegate.server.proxy.sessions import SessionSummary, summarize
from modegate_acp.connection.connection import Connection
from modegate_acp.following.catch_up import Snapshot
from modegate_acp.following.session_feed import snapshot_of
from modegate_acp.messages.commands import ListSessions, NewSession, unknown_session
from modegate_acp.messages.jsonrpc import INVALID_PARAMS, Message, RpcError
from modegate_acp.render import sessions as render

ACP = "acp"
"""How a session was found that a client opened, until an agent sends a request."""

REPLAYED = 200
"""Events looked through for the history that `session/load` shows."""

PAGE = 50
"""Rows of one answer to `session/list`."""

MAX_PAGES = 20
"""Pages of the index that one answer looks through for a folder."""


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
    # The agent that will work in it is another program than the client.
    first = initial_mode(services.policies.current, key.tenant, None)
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


async def list_sessions(connection: Connection, command: ListSessions) -> Message:
    """Return the sessions that concern a client, the newest first, a page at a time."""
    await connection.services.batch_writer.flush()
    rows: list[Message] = []
    cursor = command.cursor
    for _ in range(MAX_PAGES):
        page = await connection.services.log.sessions(connection.caller.tenant, cursor, PAGE)
        found = [await _row(connection, listed, command.cwd) for listed in page.rows]
        rows += [row for row in found if row is not None]
        cursor = page.next
        if cursor is None or rows:
            break
    return {"sessions": rows} | ({"nextCursor": cursor} if cursor is not None else {})


async def newest_sessions(connection: Connection) -> list[tuple[SessionId, str, str]]:
    """Return the newest sessions as (id, mode, agent)."""
    page = await connection.services.log.sessions(connection.caller.tenant, None, PAGE)
    found = []
    for listed in page.rows:
        summary = await _summary(connection, listed)
        if not _concerns(connection, listed, summary):
            continue
        mode = summary.held.told(summary.state.mode) if summary.state else "unreadable"
        gated = summary.gating in (Gating.ON, Gating.DEFAULT)
        told = mode if gated else f"{mode}, {LABELS[summary.gating]}"
        found.append((listed.key.session, told, listed.agent))
    return found


async def _row(connection: Connection, listed: Listed, cwd: str | None) -> Message | None:
    """Return a session's row; None if it is known to be of another folder, or is another client's alone."""
    summary = await _summary(connection, listed)
    if not _concerns(connection, listed, summary):
        return None
    known = summary.state.opened.cwd if summary.state and summary.state.opened else ""
    if cwd is not None and known and known != cwd:
        return None
    # An agent does not say where it runs, so its session is shown wherever it is asked for.
    where = known or cwd or "/"
    return render.session_row(listed.key.session, where, listed.agent, listed.at, summary)


def _concerns(connection: Connection, listed: Listed, summary: SessionSummary) -> bool:
    """Return whether a session concerns others than the client that opened it: an agent has used it.

    Editors open one at each start, which most often no agent ever uses.
    """
    opened = summary.state.opened if summary.state else None
    if listed.how != ACP or opened is None or listed.key.session in connection.followed:
        return True
    return opened.agent == connection.peer.label


async def _summary(connection: Connection, listed: Listed) -> SessionSummary:
    services = connection.services
    return await summarize(services.folds, services.policies.current, listed)

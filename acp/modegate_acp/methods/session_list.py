"""Which sessions there are, for a client and for a person who types `/sessions`."""

from __future__ import annotations

from modegate.core.ids import SessionId
from modegate.core.policy.gating import LABELS, Gating
from modegate.server.log.protocol import Listed
from modegate.server.proxy.sessions import SessionSummary, summarize
from modegate_acp.connection.connection import Connection
from modegate_acp.messages.commands import ListSessions
from modegate_acp.messages.jsonrpc import Message
from modegate_acp.methods.sessions import ACP
from modegate_acp.render import sessions as render

PAGE = 50
"""Rows of one answer to `session/list`."""

MAX_PAGES = 20
"""Pages of the index that one answer looks through for a folder."""


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

"""What an append and a request note in the index of the embedded store, within their transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from modegate.core.ids import Seq, SessionKey
from modegate.core.log.approval_events import ApprovalAsked
from modegate.core.log.events import SessionOpen
from modegate.core.log.records import Entry
from modegate.server.log.common import ANY_AGENT, DERIVED, KEEP_QUESTIONS_MS, is_sibling_of_all
from modegate.server.log.protocol import Seen

_NOTE = """
insert into sessions (tenant, session, seq, agent, how, at) values (?, ?, ?, ?, ?, ?)
on conflict do update set seq = max(seq, excluded.seq), at = max(at, excluded.at),
    agent = iif(excluded.agent = '', agent, excluded.agent),
    how = iif(excluded.how = '', how, excluded.how)
"""


_NOTE_UNKNOWN = """
insert into derived select :tenant, :agent, :session
where not exists (select 1 from derived where tenant = :tenant and session = :session)
"""

_TRACES = """
select 1 from feed where key = :key
union all select 1 from checkpoints where key = :key
union all select 1 from blobs where key = :key
union all select 1 from questions where tenant = :tenant and session = :session limit 1
"""


def appended(db: sqlite3.Connection, key: SessionKey, seq: Seq, entries: Sequence[Entry]) -> None:
    """Note where a log ends now, and what the entries say of the session."""
    db.execute(_NOTE, (key.tenant, key.session, seq, "", "", entries[-1].at))
    if is_sibling_of_all(key, entries):
        names = {"tenant": key.tenant, "agent": ANY_AGENT, "session": key.session}
        db.execute(_NOTE_UNKNOWN, names)
    for entry in entries:
        match entry.event:
            case SessionOpen(derived=True) as opened:
                _note_derived(db, key, opened.agent)
            case ApprovalAsked() as asked:
                _note_question(db, key, asked, entry.at)
            case _:
                pass


def touched(db: sqlite3.Connection, seen: Sequence[Seen]) -> None:
    """Note that these sessions sent requests."""
    for one in seen:
        key = one.key
        db.execute(_NOTE, (key.tenant, key.session, 0, one.agent, one.how, one.at))
        if one.how == DERIVED:
            _note_derived(db, key, one.agent)


def has_traces(db: sqlite3.Connection, key: SessionKey) -> bool:
    """Return whether anything in the file is there only because the session had events."""
    names = {"key": str(key), "tenant": key.tenant, "session": key.session}
    return db.execute(_TRACES, names).fetchone() is not None


def _note_derived(db: sqlite3.Connection, key: SessionKey, agent: str) -> None:
    db.execute("insert or ignore into derived values (?, ?, ?)", (key.tenant, agent, key.session))


def _note_question(db: sqlite3.Connection, key: SessionKey, asked: ApprovalAsked, at: int) -> None:
    old = (key.tenant, at - KEEP_QUESTIONS_MS)
    db.execute("delete from questions where tenant = ? and expires <= ?", old)
    row = (key.tenant, asked.id, key.session, asked.expires)
    db.execute("insert or ignore into questions values (?, ?, ?, ?)", row)

"""What both stores must do alike: notice lost events, tell of failures, and make pages of the index."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from modegate.core.errors import BadRequest, LogUnavailable, SessionUnreadable
from modegate.core.identify.session import DERIVED_PREFIX
from modegate.core.ids import Seq, SessionId, SessionKey
from modegate.core.log.events import ModeSet, SessionOpen
from modegate.core.log.records import Entry, Record
from modegate.server.log.protocol import Listed, Page

FEED_CAP = 100_000
"""Entries of the feed that are kept; a process that is further behind folds its sessions anew."""

FEED_PAGE = 10_000
"""Entries of the feed given at once; whoever is further behind gets a gap, which costs less."""

KEEP_QUESTIONS_MS = 24 * 60 * 60 * 1000
"""How long the index knows a question after it expired. Until then a late answer is told so."""

DERIVED = "derived"
"""`Seen.how` of a session whose id was made from its first message."""

ANY_AGENT = ""
"""The agent of a derived session of which none is known yet: it is a sibling of every agent's."""


TELL_EVERY_S = 10.0

logger = logging.getLogger(__name__)


class Failures:
    """Turns a store's errors into ours. A client gets none of the store's words, the operator all."""

    def __init__(self) -> None:
        self._told: dict[str, float] = {}

    def error(self, what: str, error: Exception, *, full: bool = False) -> LogUnavailable:
        """Return the error to raise, and log the store's words, at most once in `TELL_EVERY_S`.

        `what` is what cannot be done: `read` or `written`; `full`: there is no room for it.
        """
        now = asyncio.get_running_loop().time()
        if now - self._told.get(what, -TELL_EVERY_S) >= TELL_EVERY_S:
            self._told[what] = now
            logger.warning("the event log cannot be %s: %s", what, error)
        return LogUnavailable(f"the event log cannot be {what}{': it is full' if full else ''}")


def is_sibling_of_all(key: SessionKey, entries: Sequence[Entry]) -> bool:
    """Return whether a mode is set on a session with a derived id before it was opened, by a person.

    Rows of the index that tell whose session it is may follow later, or be lost.
    """
    events = [entry.event for entry in entries]
    set_now = any(isinstance(event, ModeSet) for event in events)
    opened = any(isinstance(event, SessionOpen) for event in events)
    return set_now and not opened and key.session.startswith(DERIVED_PREFIX)


def require_whole(
    key: SessionKey,
    after: Seq,
    records: Sequence[Record],
    *,
    limit: int,
    promised: int,
    traces: bool,
) -> None:
    """Check what a read returned: seqs follow one another from `after`, and reach what was promised.

    Args:
        key: the session.
        after: where the read began.
        records: what it returned, in order.
        limit: how many it would have returned at most.
        promised: a seq that the log is known to have reached before the read.
        traces: whether anything in the store is there only because the session had events.

    Raises:
        SessionUnreadable: events were trimmed or deleted, and nobody knows the mode in force.
    """
    last = records[-1].seq if records else after
    if records and last - after != len(records):
        missing = f"events between {after} and {last}"
    elif len(records) < limit and promised > last:
        missing = f"events {last + 1} to {promised}"
    elif traces and not (records or promised or after):
        missing = "all its events"
    else:
        return
    raise SessionUnreadable(
        f"the log of session {key} has lost {missing}, so its mode cannot be known"
    )


def page(rows: Sequence[Listed], *, more: bool) -> Page:
    """Return a page of the index; the next one begins after its last row."""
    return Page(tuple(rows), f"{rows[-1].at}:{rows[-1].key.session}" if more else None)


def read_cursor(cursor: str) -> tuple[int, SessionId]:
    """Read `Page.next`.

    Raises:
        BadRequest: it is something else.
    """
    at, colon, session = cursor.partition(":")
    if not (colon and at.isascii() and at.isdecimal() and len(at) < 17):
        raise BadRequest("cursor: is not one that this server gave")
    return int(at), SessionId(session)

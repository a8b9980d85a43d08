"""What both stores must do alike: notice lost events, and write the cursor of a page."""

from __future__ import annotations

from collections.abc import Sequence

from modegate.core.errors import BadRequest, SessionUnreadable
from modegate.core.events import Record
from modegate.core.ids import Seq, SessionId, SessionKey

FEED_CAP = 100_000
"""Entries of the feed that are kept; a process that is further behind folds its sessions anew."""

FEED_PAGE = 10_000
"""Entries of the feed given at once; whoever is further behind gets a gap, which costs less."""

KEEP_QUESTIONS_MS = 24 * 60 * 60 * 1000
"""How long the index knows a question after it expired, so that a late answer is told that it has."""

DERIVED = "derived"
"""`Seen.how` of a session whose id was made from its first message."""


def require_whole(
    key: SessionKey, after: Seq, records: Sequence[Record], limit: int, promised: int
) -> None:
    """Check what a read gave: seqs follow one another from `after`, and reach what was promised.

    Args:
        key: the session.
        after: where the read began.
        records: what it gave, in order.
        limit: how many it would have given at most.
        promised: a seq that the log is known to have reached before the read.

    Raises:
        SessionUnreadable: events were trimmed or deleted, so that the mode in force is not known.
    """
    last = records[-1].seq if records else after
    if records and last - after != len(records):
        missing = f"events between {after} and {last}"
    elif len(records) < limit and promised > last:
        missing = f"events {last + 1} to {promised}"
    else:
        return
    raise SessionUnreadable(
        f"the log of session {key} has lost {missing}, so its mode cannot be known"
    )


def write_cursor(at: int, session: SessionId) -> str:
    """Name a row of the index as the one after which the next page begins."""
    return f"{at}:{session}"


def read_cursor(cursor: str) -> tuple[int, SessionId]:
    """Read what `write_cursor` gave.

    Raises:
        BadRequest: it is something else.
    """
    at, colon, session = cursor.partition(":")
    if not (colon and at.isascii() and at.isdecimal() and len(at) < 17):
        raise BadRequest("cursor: is not one that this server gave")
    return int(at), SessionId(session)

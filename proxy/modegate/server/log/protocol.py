"""The event log's protocol: what every store offers. Nothing above knows which one it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from modegate.core.ids import Seq, SessionKey, Tenant
from modegate.core.log.records import Entry, Record


@dataclass(frozen=True, slots=True)
class Seen:
    """What the index knows of a session that sent a request."""

    key: SessionKey
    agent: str
    """The `user-agent`, shortened to 120 characters."""
    how: str
    """How it was identified: `path`, a header's name, `derived` …"""
    at: int


@dataclass(frozen=True, slots=True)
class Listed:
    """One row of the index."""

    key: SessionKey
    seq: Seq
    """0 for a session that was only seen and has no events."""
    agent: str
    how: str
    at: int
    """When it last sent a request or got an event, milliseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows, newest first, and where the next page begins."""

    rows: tuple[Listed, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the feed: this session's log now ends at `seq`."""

    key: SessionKey
    seq: Seq


@dataclass(frozen=True, slots=True)
class Changes:
    """What the feed brought since a position; `gap` means that something may be missing."""

    position: str
    changes: tuple[Change, ...]
    gap: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """One row of the index of questions to people."""

    key: SessionKey
    id: str
    expires: int
    """Milliseconds since the epoch."""


class EventLog(Protocol):
    """Append-only logs of sessions, a feed over all of them, an index, checkpoints and bodies.

    Every method raises `LogUnavailable` if the store cannot be reached or is broken. Those that read from it
    also raise `AnotherLog` if it is not the store that this process trusts (`TrustedStore`).
    """

    @property
    def moved(self) -> int:
        """How often an operator put another store in its place: where logs ended before means nothing."""

    async def append(
        self, key: SessionKey, entries: Sequence[Entry], *, expect: Seq | None = None
    ) -> Seq:
        """Append all entries or none, durably; return the last one's seq.

        With no entries, only tell the feed again where the log ends (an earlier append may have failed
        between the log and the feed).

        Raises:
            Conflict: `expect` is given and the log does not end there.
            LogUnavailable: as ever, and then the entries may have landed nevertheless.
        """

    async def read(self, key: SessionKey, after: Seq = Seq(0), limit: int = 1000) -> list[Record]:
        """Return up to `limit` records after a seq, in order and without a hole.

        Raises:
            SessionUnreadable: events are missing that the log once held.
        """

    async def changes(self, position: str | None, *, wait: float = 0.0) -> Changes:
        """Return what the feed brought after `position` (None: only the feed's present end).

        With `wait`, wait up to that many seconds for something to come.
        """

    async def touch(self, seen: Sequence[Seen]) -> None:
        """Note in the index that these sessions sent requests."""

    async def was_seen(self, key: SessionKey) -> bool:
        """Return whether the index knows the session."""

    async def sessions(self, tenant: Tenant, cursor: str | None = None, limit: int = 50) -> Page:
        """List a tenant's sessions, newest first."""

    async def derived_siblings(self, tenant: Tenant, agent: str, since: int) -> list[SessionKey]:
        """Return sessions with events that were derived for this agent and seen or changed since then."""

    async def questions(self, tenant: Tenant, after: int, limit: int = 1000) -> list[Question]:
        """Return what was asked and expires after a time, the latest to expire first; settled or not."""

    async def asked_in(self, tenant: Tenant, approval: str) -> SessionKey | None:
        """Return the session of a question; None if it was never asked, or expired over a day ago."""

    async def save_checkpoint(self, key: SessionKey, seq: Seq, checkpoint: bytes) -> None:
        """Keep a folded state; an older one is replaced, a newer one stays."""

    async def load_checkpoint(self, key: SessionKey) -> tuple[Seq, bytes] | None:
        """Return the newest checkpoint of this `fold.CHECKPOINT_VERSION`."""

    async def put_blob(self, key: SessionKey, ref: str, body: bytes, keep_ms: int) -> None:
        """Store a withheld turn's bodies beside the log, for at least `keep_ms`."""

    async def get_blobs(self, key: SessionKey, refs: Sequence[str]) -> dict[str, bytes]:
        """Return those bodies that are still there."""

    async def ping(self) -> None:
        """Do nothing if the store is the right one, answers, and takes what is written."""

    async def adopt(self) -> str:
        """Trust the store as it is from now on, as an operator has decided; return its identity."""

    async def warnings(self) -> list[str]:
        """Return what an operator should change about the store, as far as it tells."""

    async def close(self) -> None:
        """Let go of the store."""

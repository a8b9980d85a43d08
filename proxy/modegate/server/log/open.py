"""From the `log` setting to a store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from modegate.server.clock import Clock, SystemClock

# The settings of every command come here, and most commands open no store.
if TYPE_CHECKING:
    from modegate.server.log.protocol import EventLog
    from modegate.server.log.trusted_store import TrustedStore

    Open = Callable[[str, Clock, TrustedStore | None], EventLog]

FORMS = "sqlite:PATH, redis://…, rediss://… or redis+sentinel://…"
"""The URLs of all stores, for people."""

# A store is imported when it is opened: nobody pays for the others' libraries.


def _sqlite(url: str, clock: Clock, trusted: TrustedStore | None) -> EventLog:
    from modegate.server.log.sqlite import EmbeddedLog

    return EmbeddedLog(Path(url.removeprefix("sqlite:")).expanduser(), clock, trusted=trusted)


def _redis(url: str, _clock: Clock, trusted: TrustedStore | None) -> EventLog:
    from modegate.server.log.redis import RedisLog

    return RedisLog(url, trusted=trusted)


_REDIS = ("redis://", "rediss://", "redis+sentinel://", "rediss+sentinel://")
STORES: dict[str, Open] = {"sqlite:": _sqlite, **dict.fromkeys(_REDIS, _redis)}
"""What opens a store, by how its URL begins."""


def opener(url: str) -> Open | None:
    """Return what opens the store that a URL names; None if it names none."""
    if url.rstrip("/") in STORES:
        return None
    return next((open_ for begins, open_ in STORES.items() if url.startswith(begins)), None)


def open_log(url: str, clock: Clock | None = None, trusted: TrustedStore | None = None) -> EventLog:
    """Open the store that the URL names; see `FORMS`.

    Without `trusted`, which says which store is trusted, it is the one that is met first. Redis is connected
    to when first asked; an embedded store is created if it is not there.

    Raises:
        ValueError: it names no store.
        LogUnavailable: the embedded store's file cannot be opened.
    """
    open_store = opener(url)
    if open_store is None:
        # The URL may hold a password, so it is not repeated.
        raise ValueError(f"log: {url.partition(':')[0]!r} names no store; use {FORMS}")
    try:
        return open_store(url, clock or SystemClock(), trusted)
    except ValueError as error:
        raise ValueError(f"log: {error}") from error

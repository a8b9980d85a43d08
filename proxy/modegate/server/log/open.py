"""From the `log` setting to a store."""

from __future__ import annotations

from pathlib import Path

from modegate.server.clock import Clock, SystemClock
from modegate.server.log.protocol import EventLog
from modegate.server.log.redis_url import SCHEMES as SENTINEL_SCHEMES
from modegate.server.log.sqlite import EmbeddedLog
from modegate.server.log.trusted_store import TrustedStore

REDIS_SCHEMES = ("redis", "rediss", *SENTINEL_SCHEMES)


def open_log(url: str, clock: Clock | None = None, trusted: TrustedStore | None = None) -> EventLog:
    """Open the store that the URL names: `sqlite:PATH`, or Redis in one of its forms.

    `trusted` says which store is trusted; without it, the one that is met first.

    Redis is connected to when first asked; an embedded store is created if it is not there.

    Raises:
        ValueError: it names no store.
        LogUnavailable: the embedded store's file cannot be opened.
    """
    scheme, _, rest = url.partition(":")
    if scheme == "sqlite" and rest.strip("/"):
        return EmbeddedLog(Path(rest).expanduser(), clock or SystemClock(), trusted=trusted)
    if scheme in REDIS_SCHEMES and rest.startswith("//"):
        # Imported here because the embedded store, the default, must not cost redis-py's import.
        from modegate.server.log.redis import RedisLog

        try:
            return RedisLog(url, trusted=trusted)
        except ValueError as error:
            raise ValueError(f"log: {error}") from error
    # The URL may hold a password, so it is not repeated.
    raise ValueError(
        f"log: {scheme!r} names no store; use sqlite:PATH, redis://…, rediss://… or redis+sentinel://…"
    )

"""The upstream's protocol: one request out, one answer back as raw bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

Headers = list[tuple[bytes, bytes]]
"""Raw header lines in order, names in lower case."""


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """What goes out: end-to-end headers only; the implementation adds Host and framing."""

    method: str
    target: bytes
    """Raw path and query as the client sent them, without the `/s/SESSION` prefix."""
    headers: Headers
    body: bytes | AsyncIterator[bytes]
    """Bytes get a Content-Length; an iterator is sent chunk by chunk, with the client's
    Content-Length if `headers` has one."""


class UpstreamAnswer(Protocol):
    """An answer whose head has come."""

    status: int
    headers: Headers
    """As they came, hop-by-hop ones already removed; content-encoding untouched."""

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes.

        Raises:
            UpstreamFailed: it broke off: an end without what its framing promised is none.
            UpstreamTimeout: nothing came for too long.
        """

    async def close(self) -> None:
        """End the exchange at once if it still runs."""


class Upstream(Protocol):
    """Whoever answers model requests."""

    async def send(self, request: UpstreamRequest) -> UpstreamAnswer:
        """Send a request and give its answer once the head is there, whatever its status.

        A request of which a byte was sent is never sent again, redirects are not followed, interim answers
        are passed over, and what comes behind an answer is never taken for the next one.

        Raises:
            UpstreamFailed: no connection, or no answer; what the body raises while it is sent comes as it is.
            UpstreamTimeout: none in time.
        """

    async def close(self) -> None:
        """Let go of all connections."""

"""Connections to an upstream: made, kept, used again or not, and what is told of one that failed.

Two faults of aiohttp are worked around here, both seen in 3.14.5.
"""

from __future__ import annotations

import asyncio
import os
import select
import ssl
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler

from modegate.core.errors import UpstreamFailed, UpstreamTimeout
from modegate.core.policy.upstreams import KEEP_ALIVE, Base


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """How connections to an upstream are made and kept."""

    size: int = 0
    """Connections at one time, 0 for no limit; a request that waits for one counts as connecting."""
    keep_alive: float = KEEP_ALIVE
    """Seconds that an idle one is kept."""
    proxy: str | None = None
    """The proxy's URL, or `none` for no proxy; None: what the environment names."""
    tls: ssl.SSLContext | None = None
    """What is trusted; None: what the system trusts."""


DIRECT: Final = Wiring()


def connector(wiring: Wiring) -> aiohttp.BaseConnector:
    return _Connector(
        limit=wiring.size, keepalive_timeout=wiring.keep_alive, ssl=wiring.tls or True
    )


class _Connector(aiohttp.TCPConnector):
    """Reuses no connection that has ended, or on which unrequested bytes have arrived.

    aiohttp looks only at what its loop has read by then. It would take an unrequested answer for the answer
    to the next request, which may be another session's.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._used: weakref.WeakSet[ResponseHandler] = weakref.WeakSet()

    async def connect(self, *request: Any, **more: Any) -> aiohttp.connector.Connection:
        """Return a new connection, or a kept one that is as it was left."""
        while True:
            connection = await super().connect(*request, **more)
            protocol = cast(ResponseHandler, connection.protocol)  # None only once it was let go
            new = protocol not in self._used
            self._used.add(protocol)
            if new or not (protocol.should_close or _readable(protocol)):
                return connection
            connection.close()


def _readable(protocol: ResponseHandler) -> bool:
    """Return whether bytes, or the end, have come that the loop has not seen yet."""
    transport = cast(
        asyncio.Transport, protocol.transport
    )  # None only once the loop has seen its end
    watch = select.poll()
    watch.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
    return bool(watch.poll(0))


@contextmanager
def ends_with_its_connection(response: aiohttp.ClientResponse) -> Iterator[None]:
    """Fail a body whose connection is gone.

    After invalid chunk framing, aiohttp closes the connection but leaves the body's reader waiting forever.
    """
    content = response.content
    connection = response.connection

    def lost(_closed: object = None) -> None:
        if not content.is_eof() and content.exception() is None:
            content.set_exception(aiohttp.ClientPayloadError("connection lost"))

    if connection is None or connection.protocol is None:  # the body came with the head
        yield
        return
    closed = connection.protocol.closed
    if closed is None:
        lost()
    else:
        # asyncio logs an exception that nobody retrieves.
        closed.remove_done_callback(_look_at)
        closed.add_done_callback(_look_at)
        closed.add_done_callback(lost)
    try:
        yield
    finally:
        if closed is not None:
            closed.remove_done_callback(lost)


def _look_at(closed: asyncio.Future[None]) -> None:
    with suppress(asyncio.CancelledError):
        closed.exception()


def failure(base: Base, error: Exception) -> UpstreamFailed:
    """Return the error to report: which upstream, and what happened.

    aiohttp's own messages are never passed on: they may quote the URL with its query, headers, or the answer.
    """
    upstream = f"upstream {base.authority}"
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return UpstreamTimeout(f"{upstream}: no connection in time")
    if isinstance(error, TimeoutError):
        return UpstreamTimeout(f"{upstream}: no byte for too long")
    return UpstreamFailed(f"{upstream}: {_cause(error)}")


def _cause(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "its name cannot be resolved"
        case aiohttp.ClientConnectorCertificateError(
            certificate_error=ssl.SSLCertVerificationError() as cause
        ):
            return f"its certificate is not trusted ({cause.verify_message})"
        case aiohttp.ClientConnectorError() if isinstance(error.os_error, ssl.SSLError):
            return f"TLS failed ({error.os_error.reason})"
        case aiohttp.ClientHttpProxyError():
            return f"the proxy in front of it answered {error.status}"
        case aiohttp.ClientConnectorError():
            return f"no connection ({_os_words(error.os_error)})"
        case aiohttp.ServerDisconnectedError():
            return "it closed the connection without an answer"
        case aiohttp.ClientPayloadError():
            return "its answer broke off"
        case aiohttp.ClientResponseError():
            return "its answer is not valid HTTP"
        case OSError():
            return f"the connection broke ({_os_words(error)})"
        case _:
            return f"the exchange failed ({type(error).__name__})"


def _os_words(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else type(error).__name__

"""The upstream over HTTP: one aiohttp session, bytes in and out untouched.

What aiohttp would do by itself is switched off: decompression, redirects, cookies, headers of its own,
re-encoding of the URL, `.netrc`. What is left to it are connections, TLS, framing, and proxies.
"""

from __future__ import annotations

import asyncio
import select
import ssl
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.request import getproxies, proxy_bypass

import aiohttp
import yarl
from aiohttp.client_proto import ResponseHandler

from modegate.core.errors import BadRequest, ModegateError, UpstreamFailed
from modegate.core.policy.base_url import Base
from modegate.core.policy.upstreams import CONNECT_TIMEOUT, KEEP_ALIVE, READ_TIMEOUT
from modegate.core.wire.headers import Headers, end_to_end, get_all, replace, request_headers
from modegate.server.upstream.failures import failure
from modegate.server.upstream.loopback import is_loopback
from modegate.server.upstream.protocol import UpstreamRequest

HEADER_LIMIT: Final = 64 * 1024
"""Bytes of one header line: some providers put whole policies there; aiohttp's own limit is 8 KiB."""
SLICE: Final = 256 * 1024
"""Bytes of a large body written at a time, so that one big request does not stall the others."""

_CODINGS = frozenset({"chunked", "identity"})
"""Transfer codings that are taken off on the way; any other would be lost with its header line."""

_AUTO_HEADERS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


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


class HttpUpstream:
    """An OpenAI-compatible server, or any other HTTP server, at a base URL."""

    def __init__(
        self,
        base: str | Base,
        *,
        wiring: Wiring = DIRECT,
        connect_timeout: float = CONNECT_TIMEOUT,
        read_timeout: float = READ_TIMEOUT,
    ) -> None:
        """Check the URL and see whether a proxy leads there (`HTTPS_PROXY`, `NO_PROXY` …).

        Raises:
            ValueError: the URL, or the proxy's, cannot be used.
        """
        self._base = Base.parse(base) if isinstance(base, str) else base
        url = yarl.URL(f"{self._base.scheme}://{self._base.authority}")
        self._scheme, self._authority = url.scheme, url.raw_authority
        self._wiring = wiring
        self._proxy = _proxy(wiring.proxy, url)
        self._timeout = aiohttp.ClientTimeout(
            total=None, connect=connect_timeout, sock_read=read_timeout
        )
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: UpstreamRequest) -> HttpAnswer:
        """Send a request and give its answer once the head is there.

        A request that no connection could be made for is tried once more. What was sent, if only in part,
        is never sent twice: it may have reached the model, whose work would be paid twice.

        Raises:
            BadRequest: the target is no path, or a header is not UTF-8.
            ModegateError: what the body raised while it was sent.
            UpstreamFailed: no connection, or no answer.
            UpstreamTimeout: it took too long.
        """
        # Query and all as the path: so it is not parsed, and even a bare `?` at its end survives.
        path = self._base.join(request.target)
        url = yarl.URL.build(
            scheme=self._scheme, authority=self._authority, path=path, encoded=True
        )
        head = _head(request)
        try:
            return await self._once(request, url, head)
        except _NotSent:
            return await self._once(request, url, head, last=True)

    async def close(self) -> None:
        """Let go of all connections."""
        if self._session is not None:
            await self._session.close()

    async def _once(
        self,
        request: UpstreamRequest,
        url: yarl.URL,
        head: list[tuple[str, str]],
        *,
        last: bool = False,
    ) -> HttpAnswer:
        try:
            response = await self._open().request(
                request.method,
                url,
                headers=head,
                data=_payload(request.body),
                allow_redirects=False,
                proxy=self._proxy,
            )
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(error.__cause__, ModegateError):
                raise error.__cause__ from None  # it came up in the body, while that was being sent
            if not last and _unconnected(error):
                raise _NotSent from error
            raise failure(self._base, error) from error
        flaw = _flaw(response)
        if flaw:
            response.close()
            raise UpstreamFailed(f"upstream {self._base.authority}: {flaw}")
        return HttpAnswer(self._base, response)

    def _open(self) -> aiohttp.ClientSession:
        # Made here because aiohttp wants the running loop.
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=_Connector(
                    limit=self._wiring.size,
                    keepalive_timeout=self._wiring.keep_alive,
                    ssl=self._wiring.tls or True,
                ),
                timeout=self._timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=_AUTO_HEADERS,
                auto_decompress=False,
                max_line_size=HEADER_LIMIT,
                max_field_size=HEADER_LIMIT,
            )
            # It would send again what it takes for harmless, a DELETE too; the client knows better.
            self._session._retry_connection = False
        return self._session


class HttpAnswer:
    """An answer whose head has come."""

    def __init__(self, base: Base, response: aiohttp.ClientResponse) -> None:
        """Take the head as it came."""
        self.status = response.status
        self.headers: Headers = end_to_end(response.raw_headers)
        self._base = base
        self._response = response

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes: each chunk is all that had come by then.

        Raises:
            UpstreamFailed: it broke off.
            UpstreamTimeout: nothing came for too long.
        """
        try:
            with _ends_with_its_connection(self._response):
                async for chunk in self._response.content.iter_any():
                    yield chunk
        except (aiohttp.ClientError, OSError) as error:
            self._response.close()
            raise failure(self._base, error) from error

    async def close(self) -> None:
        """Close the connection at once unless the body was read to its end."""
        self._response.close()


@contextmanager
def _ends_with_its_connection(response: aiohttp.ClientResponse) -> Iterator[None]:
    """Fail a body whose connection is gone: after chunk framing that it cannot read, aiohttp closes
    the connection but leaves the body's reader waiting for ever (seen in 3.14.5)."""
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
        # One that nobody looks at would be complained about in the log.
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


def _flaw(response: aiohttp.ClientResponse) -> str:
    """Say what makes an answer unusable that aiohttp takes: it cannot be passed on as what it is."""
    if response.status < 200:
        return "it switches to another protocol"
    if response.status > 599:
        # No server could pass it on, and clients differ in whether it is an error (RFC 9110, section 15).
        return f"it answers with the status {response.status}, which HTTP has not"
    codings = response.headers.getall("Transfer-Encoding", ())
    if any(coding.strip().lower() not in _CODINGS for coding in codings):
        return "its answer has a transfer coding that is not known"
    return ""


class _Connector(aiohttp.TCPConnector):
    """Hands out no kept connection that has ended, or on which something came that nobody asked for.

    aiohttp goes by what its loop has seen by then, and would take an answer that came unasked for the
    answer to the next request, which may be another session's (seen in 3.14.5).
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


class _NotSent(Exception):
    """There was no connection."""


def _unconnected(error: Exception) -> bool:
    """Return whether there was no connection for a reason that the next attempt may not meet.

    Behind one name there are often several machines, one of which is just being restarted.
    """
    if isinstance(error, aiohttp.ClientConnectorDNSError | aiohttp.ClientSSLError):
        return False
    return isinstance(error, aiohttp.ClientConnectorError) and not isinstance(
        error.os_error, ssl.SSLError
    )


def _proxy(given: str | None, url: yarl.URL) -> str | None:
    if given is None:
        return _proxy_for(url)
    if given == "none":
        return None
    if yarl.URL(given).scheme not in ("http", "https"):
        raise ValueError("only http:// and https:// proxies can be used for upstreams")
    return given


def _proxy_for(url: yarl.URL) -> str | None:
    """Return the proxy that the environment names for this URL; to this machine itself none leads.

    aiohttp's `trust_env` would look it up in a thread for each request, and would add what `.netrc`
    holds to requests that carry no credentials.
    """
    proxy = None if is_loopback(url.host or "") else getproxies().get(url.scheme)
    if not proxy or proxy_bypass(url.authority):
        return None
    if yarl.URL(proxy).scheme not in ("http", "https"):
        raise ValueError("only http:// and https:// proxies can be used for upstreams")
    return proxy


def _head(request: UpstreamRequest) -> list[tuple[str, str]]:
    """Return the header lines to send, in the client's order; bytes get their own Content-Length."""
    lines = request_headers(request.headers)
    if isinstance(request.body, bytes) and (request.body or get_all(lines, b"content-length")):
        lines = replace(lines, b"content-length", b"%d" % len(request.body))
    try:
        return [(name.decode(), value.decode()) for name, value in lines]
    except UnicodeDecodeError as error:
        # aiohttp writes headers as UTF-8, so that other bytes could only go out changed.
        raise BadRequest("a header of the request is not UTF-8") from error


def _payload(body: bytes | AsyncIterator[bytes]) -> bytes | AsyncIterator[bytes] | None:
    if isinstance(body, bytes) and len(body) > SLICE:
        return _slices(body)
    return body or None


async def _slices(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), SLICE):
        yield body[start : start + SLICE]

"""The upstream over HTTP: one aiohttp session, bytes in and out untouched.

Everything that aiohttp would change is switched off: decompression, redirects, cookies, headers of its own,
re-encoding of the URL, `.netrc`. It is left with connections, TLS, framing, and proxies.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from typing import Final
from urllib.request import getproxies, proxy_bypass

import aiohttp
import yarl

from modegate.core.errors import BadRequest, ModegateError, UpstreamFailed
from modegate.core.policy.upstreams import CONNECT_TIMEOUT, READ_TIMEOUT, Base
from modegate.core.wire.headers import Headers, end_to_end, get_all, replace, request_headers
from modegate.server.upstream.connections import (
    DIRECT,
    Wiring,
    connector,
    ends_with_its_connection,
    failure,
)
from modegate.server.upstream.loopback import is_loopback
from modegate.server.upstream.protocol import UpstreamRequest

HEADER_LIMIT: Final = 64 * 1024
"""Bytes of one header line: some providers put whole policies there; aiohttp's own limit is 8 KiB."""
SLICE: Final = 256 * 1024
"""Bytes of a large body that are written at a time, so that it does not stall other requests."""

_CODINGS = frozenset({"chunked", "identity"})
"""Transfer codings that are undone on the way; any other would be lost with its header."""

_AUTO_HEADERS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


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
        self._proxy = proxy_url(wiring.proxy, url)
        self._timeout = aiohttp.ClientTimeout(
            total=None, connect=connect_timeout, sock_read=read_timeout
        )
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: UpstreamRequest) -> HttpAnswer:
        """Send a request and return its answer once the head is there.

        If no connection could be made, it is tried once more. A request that was sent, if only in part, is
        never sent twice: it may have reached the model, whose work would be paid twice.

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
                connector=connector(self._wiring),
                timeout=self._timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=_AUTO_HEADERS,
                auto_decompress=False,
                max_line_size=HEADER_LIMIT,
                max_field_size=HEADER_LIMIT,
            )
            # It would resend requests that it takes for idempotent, DELETE too; only the client can know.
            self._session._retry_connection = False
        return self._session


class HttpAnswer:
    """An answer whose head has come."""

    def __init__(self, base: Base, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self.headers: Headers = end_to_end(response.raw_headers)
        self._base = base
        self._response = response

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes: each chunk is all that had come by then."""
        try:
            with ends_with_its_connection(self._response):
                async for chunk in self._response.content.iter_any():
                    yield chunk
        except (aiohttp.ClientError, OSError) as error:
            self._response.close()
            raise failure(self._base, error) from error

    async def close(self) -> None:
        self._response.close()


def _flaw(response: aiohttp.ClientResponse) -> str:
    """Return why an answer that aiohttp accepts cannot be passed on; empty if it can."""
    if response.status < 200:
        return "it switches to another protocol"
    if response.status > 599:
        # No server could pass it on, and clients differ in whether it is an error (RFC 9110, section 15).
        return f"it answers with the status {response.status}, which HTTP has not"
    codings = response.headers.getall("Transfer-Encoding", ())
    if any(coding.strip().lower() not in _CODINGS for coding in codings):
        return "its answer has a transfer coding that is not known"
    return ""


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


def _head(request: UpstreamRequest) -> list[tuple[str, str]]:
    """Return the header lines to send, in the client's order; bytes get their own Content-Length."""
    lines = request_headers(request.headers)
    if isinstance(request.body, bytes) and (request.body or get_all(lines, b"content-length")):
        lines = replace(lines, b"content-length", b"%d" % len(request.body))
    try:
        return [(name.decode(), value.decode()) for name, value in lines]
    except UnicodeDecodeError as error:
        # aiohttp writes headers as UTF-8, so other bytes would be changed.
        raise BadRequest("a header of the request is not UTF-8") from error


def _payload(body: bytes | AsyncIterator[bytes]) -> bytes | AsyncIterator[bytes] | None:
    if isinstance(body, bytes) and len(body) > SLICE:
        return _slices(body)
    return body or None


async def _slices(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), SLICE):
        yield body[start : start + SLICE]


def proxy_url(given: str | None, url: yarl.URL) -> str | None:
    """Return the URL of the proxy that leads to `url`; None if it is reached without one.

    Args:
        given: the proxy's URL, or `none`; None takes what the environment names.
        url: the upstream's.

    Raises:
        ValueError: it is no HTTP proxy.
    """
    if given == "none":
        return None
    proxy = _of_environment(url) if given is None else given
    if proxy is not None and yarl.URL(proxy).scheme not in ("http", "https"):
        raise ValueError("only http:// and https:// proxies can be used for upstreams")
    return proxy


def _of_environment(url: yarl.URL) -> str | None:
    """Return the proxy that the environment names for this URL; to this machine itself none leads.

    aiohttp's `trust_env` would look it up in a thread for each request. It would also add what `.netrc`
    holds to requests that carry no credentials.
    """
    proxy = None if is_loopback(url.host or "") else getproxies().get(url.scheme)
    return proxy if proxy and not proxy_bypass(url.authority) else None

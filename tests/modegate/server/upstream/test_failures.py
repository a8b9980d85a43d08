"""The words for what went wrong."""

from __future__ import annotations

import errno
import ssl

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey, RequestInfo
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from modegate.core.errors import UpstreamFailed, UpstreamTimeout
from modegate.core.policy.upstreams import Base
from modegate.server.upstream.connections import failure

KEY = ConnectionKey("h", 443, True, True, None, None, None)
URL_ = URL("https://h/v1?key=geheim")
INFO = RequestInfo(URL_, "POST", CIMultiDictProxy(CIMultiDict({"Authorization": "geheim"})), URL_)
REFUSED = OSError(errno.ECONNREFUSED, "Connect call failed ('10.0.0.1', 443)")


def untrusted() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "geheim")
    error.verify_message = "self-signed certificate"
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (aiohttp.ClientConnectorDNSError(KEY, OSError(-2, "x")), "its name cannot be resolved"),
        (
            aiohttp.ClientConnectorCertificateError(KEY, untrusted()),
            "its certificate is not trusted (self-signed certificate)",
        ),
        (aiohttp.ClientConnectorError(KEY, REFUSED), "no connection (Connection refused)"),
        (
            aiohttp.ClientHttpProxyError(INFO, (), status=407, message="geheim"),
            "the proxy in front of it answered 407",
        ),
        (aiohttp.ServerDisconnectedError(), "it closed the connection without an answer"),
        (aiohttp.ClientPayloadError("geheim"), "its answer broke off"),
        (aiohttp.ClientResponseError(INFO, (), message="geheim"), "its answer is not valid HTTP"),
        (
            aiohttp.ClientOSError(errno.ECONNRESET, "geheim"),
            "the connection broke (Connection reset by peer)",
        ),
        (OSError("geheim"), "the connection broke (OSError)"),
        (aiohttp.InvalidURL(URL_), "the exchange failed (InvalidURL)"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_each_failure_is_told_in_our_own_words(error: Exception, words: str) -> None:
    told = failure(Base.parse("https://h:8443/v1"), error)
    assert str(told) == f"upstream h:8443: {words}"
    assert (type(told), told.status) == (UpstreamFailed, 502)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (aiohttp.ConnectionTimeoutError("geheim"), "no connection in time"),
        (aiohttp.SocketTimeoutError("geheim"), "no byte for too long"),
        (TimeoutError(), "no byte for too long"),
    ],
)
def test_a_timeout_is_a_504(error: Exception, words: str) -> None:
    told = failure(Base.parse("http://h"), error)
    assert (type(told), told.status, str(told)) == (UpstreamTimeout, 504, f"upstream h: {words}")

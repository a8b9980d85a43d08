"""What a client is told when its upstream failed.

aiohttp's own messages are never passed on: they may quote the URL with its query, headers, or the answer.
"""

from __future__ import annotations

import os
import ssl

import aiohttp

from modegate.core.errors import UpstreamFailed, UpstreamTimeout
from modegate.core.policy.upstreams import Base


def failure(base: Base, error: Exception) -> UpstreamFailed:
    """Return the error to report: which upstream, and what happened."""
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

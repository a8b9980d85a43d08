"""Through which HTTP proxy an upstream is reached."""

from __future__ import annotations

from urllib.request import getproxies, proxy_bypass

import yarl

from modegate.server.upstream.loopback import is_loopback


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

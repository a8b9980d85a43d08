"""Redis URLs that name Sentinels, which redis-py does not read by itself.

    redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/SERVICE/DB?sentinel_password=…&ssl_ca_certs=FILE

`rediss+sentinel` speaks TLS, to the Sentinels as well. Credentials in front of the hosts are the servers';
the Sentinels have their own, in the query. Every other form is redis-py's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

SCHEMES = ("redis+sentinel", "rediss+sentinel")
PORT = 26379
"""Where Sentinels listen by default."""

_TLS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs")
_OWN = ("username", "password")


def is_sentinel(url: str) -> bool:
    """Return whether a URL names Sentinels."""
    return url.partition(":")[0] in SCHEMES


@dataclass(frozen=True, slots=True)
class SentinelUrl:
    """What such a URL says."""

    sentinels: list[tuple[str, int]]
    service: str
    """The name under which they know the master."""
    options: dict[str, Any]
    """For connections to the master: database, credentials, TLS."""
    sentinel_options: dict[str, Any]
    """For connections to the Sentinels."""

    @classmethod
    def parse(cls, url: str) -> SentinelUrl:
        """Read it.

        Raises:
            ValueError: saying what is wrong, and nothing that may be a secret.
        """
        parts = urlsplit(url)
        credentials, _, hosts = parts.netloc.rpartition("@")
        service, _, database = unquote(parts.path).strip("/").partition("/")
        if not hosts or not service:
            raise ValueError("it needs HOST:PORT,…/SERVICE, the name of the master")
        if database and not database.isdecimal():
            raise ValueError("the database behind the service must be a number")
        query = _query(parts.query)
        tls: dict[str, Any] = {name: query[name] for name in _TLS if name in query}
        if parts.scheme.startswith("rediss"):
            tls["ssl"] = True
        user, _, password = credentials.partition(":")
        own = {name: query.get(f"sentinel_{name}") for name in _OWN}
        return cls(
            [_address(host) for host in hosts.split(",")],
            service,
            {
                "db": int(database or 0),
                **_given(username=unquote(user), password=unquote(password)),
                **tls,
            },
            {**_given(**own), **tls},
        )


def _query(text: str) -> dict[str, str]:
    found = dict(parse_qsl(text))
    known = {*_TLS, *(f"sentinel_{name}" for name in _OWN)}
    unknown = sorted(found.keys() - known)
    if unknown:
        raise ValueError(f"{unknown[0]!r} is not an option; known: {', '.join(sorted(known))}")
    return found


def _given(**options: str | None) -> dict[str, str]:
    return {name: value for name, value in options.items() if value}


def _address(text: str) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    if not parts.hostname:
        raise ValueError("a host is empty")
    return parts.hostname, parts.port or PORT

"""Connections to Redis, one server or whichever Sentinels name, with every timeout stated.

redis-py does not read by itself the URLs that name Sentinels:

    redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/SERVICE/DB?sentinel_password=…&ssl_ca_certs=FILE

`rediss+sentinel` speaks TLS, to the Sentinels as well. Credentials in front of the hosts are the servers';
the Sentinels have their own, in the query. Every other form is redis-py's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as LostConnection

CONNECT_TIMEOUT_S = 1.0
ANSWER_TIMEOUT_S = 2.0
"""How long a command may take; a step waits for this at most before it is refused."""

BLOCK_S = 5.0
"""How long one blocking read waits at the server; it must end before the socket's own timeout."""

BLOCKING_TIMEOUT_S = BLOCK_S + ANSWER_TIMEOUT_S

MAX_CONNECTIONS = 64
MAX_FOLLOWERS = 1_000

SCHEMES = ("redis+sentinel", "rediss+sentinel")
PORT = 26379
"""Where Sentinels listen by default."""

_TLS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs")
_OWN = ("username", "password")


class RedisClients:
    """Four clients of one server, because they differ in what they may do and must not wait for each other.

    `writer` sends everything once: a command whose answer was lost may have been carried out. `reader`
    asks again, once, if a connection turns out to be closed; so does `feed`, with the single connection
    of the strict reads. `follow` is for reads that block. `feed_connects` counts the connections that
    `feed` made: where it grew, the server may be another one than before.
    """

    def __init__(self, url: str) -> None:
        self.feed_connects = 0
        self._sentinels = _Sentinels(url) if url.partition(":")[0] in SCHEMES else None
        # Untyped: redis-py annotates the answers of every protocol and decoding at once.
        again = Retry(NoBackoff(), 1, supported_errors=(LostConnection,))
        pool = (
            self._sentinels.pool
            if self._sentinels
            else partial(BlockingConnectionPool.from_url, url)
        )
        self.writer: Any = _client(pool, ANSWER_TIMEOUT_S, MAX_CONNECTIONS)
        self.reader: Any = _client(pool, ANSWER_TIMEOUT_S, MAX_CONNECTIONS, retry=again)
        self.follow: Any = _client(pool, BLOCKING_TIMEOUT_S, MAX_FOLLOWERS)
        counted = self._feed_connected
        self.feed: Any = _client(pool, ANSWER_TIMEOUT_S, 1, retry=again, redis_connect_func=counted)

    async def _feed_connected(self, connection: AbstractConnection) -> None:
        self.feed_connects += 1
        await connection.on_connect()

    async def close(self) -> None:
        """Close all connections."""
        for client in (self.writer, self.reader, self.follow, self.feed):
            await client.aclose()
        if self._sentinels:
            await self._sentinels.close()


MakePool = Callable[..., BlockingConnectionPool]


class _SentinelPool(SentinelConnectionPool, BlockingConnectionPool):
    """Connections to the server that is the master when each is made; who finds none free waits."""


class _Sentinels:
    """Those who know which server is the master, as a URL names them."""

    def __init__(self, url: str) -> None:
        """Read the URL.

        Raises:
            ValueError: saying what is wrong, and nothing that may be a secret.
        """
        parts = urlsplit(url)
        credentials, _, hosts = parts.netloc.rpartition("@")
        self._service, _, database = unquote(parts.path).strip("/").partition("/")
        if not hosts or not self._service:
            raise ValueError("it needs HOST:PORT,…/SERVICE, the name of the master")
        if database and not database.isdecimal():
            raise ValueError("the database behind the service must be a number")
        query = _query(parts.query)
        tls: dict[str, Any] = {name: query[name] for name in _TLS if name in query}
        if parts.scheme.startswith("rediss"):
            tls["ssl"] = True
        user, _, password = credentials.partition(":")
        to_master = _given(username=unquote(user), password=unquote(password))
        self._options = {"db": int(database or 0), **to_master, **tls}
        own = _given(**{name: query.get(f"sentinel_{name}") for name in _OWN})
        limits = {"socket_timeout": ANSWER_TIMEOUT_S, "socket_connect_timeout": CONNECT_TIMEOUT_S}
        make: Any = Sentinel  # redis-py does not annotate it
        addresses = [_address(host) for host in hosts.split(",")]
        self._sentinel = make(addresses, sentinel_kwargs={**own, **tls, **limits})

    def pool(self, **options: Any) -> BlockingConnectionPool:
        make: Any = _SentinelPool
        pool: BlockingConnectionPool = make(
            self._service, self._sentinel, **self._options, **options
        )
        return pool

    async def close(self) -> None:
        for one in self._sentinel.sentinels:
            await one.aclose()


def _client(pool: MakePool, timeout: float, connections: int, **more: Any) -> Redis:
    # A pool that is given no `retry` makes connections that never retry. Protocol 2 fixes the shapes of
    # the answers across versions of redis-py.
    return Redis.from_pool(
        pool(
            max_connections=connections,
            timeout=ANSWER_TIMEOUT_S,
            socket_timeout=timeout,
            socket_connect_timeout=CONNECT_TIMEOUT_S,
            socket_keepalive=True,
            protocol=2,
            client_name="modegate",
            **more,
        )
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

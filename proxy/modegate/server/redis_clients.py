"""Connections to Redis, with every timeout stated."""

from __future__ import annotations

from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
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


class RedisClients:
    """Four clients of one server, because they differ in what they may do and must not wait for each other.

    `writer` sends everything once: a command whose answer was lost may have been carried out. `reader`
    asks again, once, if a connection turns out to be closed; so does `feed`, with the single connection
    of the strict reads. `follow` is for reads that block. `feed_connects` counts the connections that
    `feed` made: where it grew, the server may be another one than before.
    """

    def __init__(self, url: str) -> None:
        """Keep the address; the first command connects.

        Raises:
            ValueError: the URL cannot be read.
        """
        self.feed_connects = 0
        # Untyped: redis-py annotates the answers of every protocol and decoding at once.
        again = Retry(NoBackoff(), 1, supported_errors=(LostConnection,))
        self.writer: Any = _client(url, ANSWER_TIMEOUT_S, MAX_CONNECTIONS)
        self.reader: Any = _client(url, ANSWER_TIMEOUT_S, MAX_CONNECTIONS, retry=again)
        self.follow: Any = _client(url, BLOCKING_TIMEOUT_S, MAX_FOLLOWERS)
        counted = self._feed_connected
        self.feed: Any = _client(url, ANSWER_TIMEOUT_S, 1, retry=again, redis_connect_func=counted)

    async def _feed_connected(self, connection: AbstractConnection) -> None:
        self.feed_connects += 1
        await connection.on_connect()

    async def close(self) -> None:
        """Close all connections."""
        for client in (self.writer, self.reader, self.follow, self.feed):
            await client.aclose()


def _client(url: str, timeout: float, connections: int, **more: Any) -> Redis:
    # A pool that is given no `retry` makes connections that never retry. Protocol 2 fixes the shapes of
    # the answers across versions of redis-py.
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=connections,
        timeout=ANSWER_TIMEOUT_S,
        socket_timeout=timeout,
        socket_connect_timeout=CONNECT_TIMEOUT_S,
        socket_keepalive=True,
        protocol=2,
        client_name="modegate",
        **more,
    )
    return Redis.from_pool(pool)

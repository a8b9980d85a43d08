"""Stores that are full, and stores that lost something, for real."""

from __future__ import annotations

import resource
from typing import Any

from redis.asyncio import Redis

from modegate.server.log.protocol import EventLog
from modegate.server.log.sqlite import EmbeddedLog
from support.redis_server import RedisServer


async def admin(server: RedisServer, *command: str | int, db: int = 0) -> Any:
    """Send one command as the user that may do everything."""
    client: Any = Redis.from_url(server.admin_url.removesuffix("/0") + f"/{db}", protocol=2)
    try:
        return await client.execute_command(*command)
    finally:
        await client.aclose()


async def fill(log: EventLog, server: RedisServer | None) -> None:
    """Let nothing be written: Redis has no memory left, or the file is read-only."""
    if isinstance(log, EmbeddedLog):
        _read_only(log, 1)
    else:
        assert server
        await admin(server, "CONFIG", "SET", "maxmemory", "1")


async def free(log: EventLog, server: RedisServer | None) -> None:
    """Make room again."""
    if isinstance(log, EmbeddedLog):
        _read_only(log, 0)
    else:
        assert server
        await admin(server, "CONFIG", "SET", "maxmemory", "0")


def _read_only(log: EmbeddedLog, whether: int) -> None:
    # Where the disk is really full, at which write that shows depends on what is free within the file.
    log._file.writer.execute(f"pragma query_only = {whether}")


def disk_full(process: int, *, full: bool) -> None:
    """Let another process write no byte to any file, or let it write again."""
    _, most = resource.prlimit(process, resource.RLIMIT_FSIZE)
    resource.prlimit(process, resource.RLIMIT_FSIZE, (1 if full else most, most))

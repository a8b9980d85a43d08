"""Both stores and every upstream, for tests that must hold on each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from support.redis_server import RedisServer, redis_server
from support.stores import Store
from support.upstreams import MAKERS, PROXY_VARIABLES, Dial, dialling

DATABASES = 500
CLOSE_S = 20


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Run a server; every test takes a database of its own, so that none sees another's sessions."""
    options = ("--databases", str(DATABASES), "--appendonly", "yes", "--appendfsync", "always")
    with redis_server(tmp_path_factory.mktemp("redis"), *options) as server:
        yield server


@pytest.fixture(scope="module")
def databases() -> Iterator[int]:
    """Count the databases that are not taken yet."""
    return iter(range(DATABASES))


@pytest.fixture(params=["embedded", "redis"])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, databases: Iterator[int]
) -> AsyncIterator[Store]:
    """Yield an empty store of each kind."""
    if request.param == "embedded":
        url = f"sqlite:{tmp_path / 'state' / 'log.db'}"
    else:
        server: RedisServer = request.getfixturevalue("redis")
        url = server.url.removesuffix("/0") + f"/{next(databases)}"
    opened = Store(url)
    yield opened
    # A test that failed may have left it in any state: the others still get their turn.
    async with asyncio.timeout(CLOSE_S):
        await opened.close()


@pytest.fixture(params=MAKERS)
def dial(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Dial:
    """Open upstreams of each implementation; the machine's own proxy variables are kept out."""
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return dialling(MAKERS[request.param])

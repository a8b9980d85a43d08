"""A proxy with `/acp`, and clients on either transport."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from support.acp import TRANSPORTS, Connect
from support.acp_schema import judged
from support.running import Running, running

NOWHERE = "http://127.0.0.1:9"

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Run on asyncio; one loop for all tests of a module, which share a proxy."""
    return "asyncio"


@pytest.fixture(scope="module")
async def proxy(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """Run a proxy whose upstream is never asked; a test leaves nothing behind but its own sessions."""
    async with running(tmp_path_factory.mktemp("proxy"), NOWHERE) as proxy:
        yield proxy


@pytest.fixture
async def alone(tmp_path: Path) -> AsyncIterator[Running]:
    """Run a proxy for one test."""
    async with running(tmp_path, NOWHERE) as proxy:
        yield proxy


@pytest.fixture
def name() -> str:
    """Return a name that no other test has: of a session, or of a tenant."""
    return f"n{next(_numbers)}"


@pytest.fixture(params=TRANSPORTS)
def connect(request: pytest.FixtureRequest) -> Connect:
    """Give a way to connect, on each transport."""
    return TRANSPORTS[request.param]


@pytest.fixture(autouse=True)
def _each_test_has_a_tenant(tenants: None) -> None:
    """Let a test have a tenant of its own, whose list no other test writes to."""


@pytest.fixture(autouse=True)
def valid(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hold every message that is emitted against the official schemas."""
    with judged(monkeypatch):
        yield

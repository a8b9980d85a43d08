"""Fixtures that all tests share."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio, the only loop that modegate supports."""
    return "asyncio"

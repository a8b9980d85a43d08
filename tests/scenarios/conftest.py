"""Fixtures of the scenarios."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.acp_schema import judged


@pytest.fixture(autouse=True)
def valid(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hold every ACP message that is emitted against the official schemas."""
    with judged(monkeypatch):
        yield

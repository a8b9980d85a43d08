"""Fixtures that all tests share."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import settings

# The same examples in every run, so that a red run says something about the change; to look for new ones:
# HYPOTHESIS_PROFILE=explore make test
# No deadline: an example that takes long says that the machine is busy.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=500, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell ignores ^C for what it starts in the background, and what tests start would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


class _Every(frozenset[str]):
    def __contains__(self, name: object) -> bool:
        return True


@pytest.fixture
def tenants(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be tenants of every name, as keys of agents will bring them."""
    monkeypatch.setattr("modegate.core.ids.TENANTS", _Every())


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio, the only loop that modegate supports."""
    return "asyncio"

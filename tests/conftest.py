"""Fixtures that all tests share."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import settings

# The one place that says how many examples a property has. `make test` tries the same few in every run: a red
# run then says something about the change. `make fuzz` looks for new ones.
# No deadline: an example that takes long says that the machine is busy.
settings.register_profile("same", max_examples=40, derandomize=True, deadline=None)
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that no process waits at the end for another's scenarios."""
    items.sort(key=lambda item: "scenarios" not in item.path.parts)

"""Facts of the dialects, by name."""

from __future__ import annotations

from modegate.core.dialects.registered import DIALECTS
from modegate.core.endpoints import Api, StoredPaths
from modegate.core.errors import DialectName
from modegate.core.step.translation import Translation


def api(name: DialectName) -> Api:
    """Return what is known of an API without reading a body."""
    return DIALECTS.named(name).api


def translation(name: DialectName) -> Translation:
    """Return how an API is translated."""
    found = DIALECTS.named(name).translation
    assert found is not None
    return found


def stored_paths(name: DialectName) -> StoredPaths:
    """Return how an API's stored answers are asked for."""
    found = api(name).stored
    assert found is not None
    return found

"""Tables of names, written as the words of a text."""

from __future__ import annotations

from modegate.core.wire.arguments import spelling


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


def spelled(text: str) -> frozenset[str]:
    """Return the words of a text in the most lenient spelling."""
    return frozenset(map(spelling, text.split()))

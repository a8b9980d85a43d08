"""Policies of tests, whose routes may name every dialect that modegate speaks."""

from __future__ import annotations

from modegate.core.dialects.registered import DIALECTS
from modegate.core.policy import file
from modegate.core.policy.model import Policy


def parse(text: str | bytes) -> Policy:
    """Read a policy."""
    return file.parse(text, DIALECTS.names)

"""What is known of single clients, by the name and version that they give at `initialize`."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_NAME = 64
"""Characters kept of a client's name and version."""

UNSAFE = re.compile(r"[^A-Za-z0-9._+-]+")


@dataclass(frozen=True, slots=True)
class Peer:
    """The client at the other end, and how messages are made for it."""

    name: str = ""
    version: str = ""
    options: bool = True
    """Whether it bears `configOptions`."""

    @property
    def label(self) -> str:
        """A name for logs and events: letters, digits and ._+- only."""
        return UNSAFE.sub("-", self.name).strip("-") or "client"


def peer(name: str, version: str) -> Peer:
    """Give a client by its own words.

    JetBrains IDEs 2026.1 fail on sessions with `configOptions` (agentclientprotocol/codex-acp, PR 179); they
    follow `modes`.
    """
    name, version = name[:MAX_NAME], version[:MAX_NAME]
    broken = "jetbrains" in name.lower() and re.match(r"2026\.1(\D|\Z)", version) is not None
    return Peer(name, version, options=not broken)

"""What is known of single clients, by the name and version that they give at `initialize`."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

MAX_NAME = 64
"""Characters kept of a client's name and version."""

UNSAFE = re.compile(r"[^A-Za-z0-9._+-]+")


@dataclass(frozen=True, slots=True)
class Peer:
    """The client at the other end, and how messages are made for it."""

    name: str = ""
    version: str = ""
    options: bool = True
    """Whether it can take `configOptions`."""
    any_time: bool = True
    """Whether a person sees a question that comes while no prompt of the client runs."""
    title_only: bool = False
    """Its dialog shows only a title, so what is asked about is sent before it as text."""
    one_way: bool = False
    """Its dialog has one yes for every way out, so it is offered only the first."""

    @property
    def label(self) -> str:
        """A name for logs and events: letters, digits and ._+- only."""
        return UNSAFE.sub("-", self.name).strip("-") or "client"


KNOWN: Final = (
    # They fail on sessions with `configOptions` and follow `modes` (agentclientprotocol/codex-acp, PR 179).
    (r".*jetbrains", r"2026\.1(\D|\Z)", Peer(options=False)),
    # For 300 s after a prompt a process of it answers every question by the flags of that prompt. In its
    # dialog `y` is the first option that allows (0.19.1, `src/permissions.ts`).
    (r"acpx\Z", "", Peer(any_time=False, title_only=True, one_way=True)),
    # It drops a request outside a prompt without an answer (`acp/init.lua`), shows no call that is pending,
    # and gives all options that allow the same key (`acp/request_permission.lua`).
    (r"codecompanion", "", Peer(any_time=False, title_only=True, one_way=True)),
    # Of a pending call it shows the title, and steps of its input (0.79, `agent-shell--on-request`).
    (r"agent-shell\Z", "", Peer(title_only=True)),
)
"""Clients that differ from what the protocol lets expect: how their name (in any case) and version begin. Any
other is asked at any time. If it shows the question to nobody, that costs only the time that a question
waits."""


def client_named(name: str, version: str) -> Peer:
    name, version = name[:MAX_NAME], version[:MAX_NAME]
    for known, release, peer in KNOWN:
        if re.match(known, name, re.IGNORECASE) and re.match(release, version):
            return replace(peer, name=name, version=version)
    return Peer(name, version)

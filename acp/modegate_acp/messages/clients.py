"""What is known of single clients, by the name and version that they give at `initialize`."""

from __future__ import annotations

import re
from dataclasses import dataclass
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
    """Whether it bears `configOptions`."""
    any_time: bool = True
    """Whether a person sees a question that comes while no prompt of the client runs."""
    title_only: bool = False
    """Its dialog does not show what is asked about, which is then said in front of it."""
    one_way: bool = False
    """It has one yes, which names no way out; of several it is offered the first."""

    @property
    def label(self) -> str:
        """A name for logs and events: letters, digits and ._+- only."""
        return UNSAFE.sub("-", self.name).strip("-") or "client"


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the clients whose name and version begin so, names in whatever case."""

    name: str
    version: str = ""
    options: bool = True
    any_time: bool = True
    title_only: bool = False
    one_way: bool = False

    def fits(self, name: str, version: str) -> bool:
        """Return whether a client is one of these."""
        named = re.match(self.name, name, re.IGNORECASE)
        return bool(named and re.match(self.version, version))


KNOWN: Final = (
    # They fail on sessions with `configOptions` and follow `modes` (agentclientprotocol/codex-acp, PR 179).
    Known(r".*jetbrains", r"2026\.1(\D|\Z)", options=False),
    # What it keeps running for 300 s after a prompt says yes or no to everything that comes, by the flags of
    # the last one; in its dialog `y` is the first option that allows (0.19.1, `src/permissions.ts`).
    Known(r"acpx\Z", any_time=False, title_only=True, one_way=True),
    # It drops a request outside a prompt without an answer (`acp/init.lua`), shows no call that is pending,
    # and gives all options that allow the same key (`acp/request_permission.lua`).
    Known(r"codecompanion", any_time=False, title_only=True, one_way=True),
    # Of a pending call it shows the title, and steps of its input (0.79, `agent-shell--on-request`).
    Known(r"agent-shell\Z", title_only=True),
)
"""Clients that differ from what the protocol lets expect. Others are asked at any time: what is put to nobody
cannot be answered, and what nobody sees only costs the time that a question waits."""


def peer(name: str, version: str) -> Peer:
    """Return a client by its own words."""
    name, version = name[:MAX_NAME], version[:MAX_NAME]
    known = [one for one in KNOWN if one.fits(name, version)]
    return Peer(
        name,
        version,
        options=all(one.options for one in known),
        any_time=all(one.any_time for one in known),
        title_only=any(one.title_only for one in known),
        one_way=any(one.one_way for one in known),
    )

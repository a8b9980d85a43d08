"""The names of things: sessions, modes, tools, calls and places in a log."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NewType
from urllib.parse import quote, unquote

from modegate.core.errors import BadSession, UnknownTenant

Tenant = NewType("Tenant", str)
SessionId = NewType("SessionId", str)
ModeId = NewType("ModeId", str)
ToolName = NewType("ToolName", str)
CallId = NewType("CallId", str)
Lane = NewType("Lane", str)
StepId = NewType("StepId", str)
Seq = NewType("Seq", int)
"""Place of an event in its session's log: 1, 2, 3 …; 0 is before the first."""

LOCAL = Tenant("local")
"""The tenant of every request while no proxy keys are configured."""

TENANTS = frozenset({LOCAL})
"""Whose sessions there can be. A mode of any other tenant would hold no agent."""

DEFAULT_MODE = ModeId("default")
"""The reserved mode that has no definition and means: no policy."""

_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}\Z")


@dataclass(frozen=True, slots=True)
class SessionKey:
    """One session of one tenant; owns one log."""

    tenant: Tenant
    session: SessionId

    def __str__(self) -> str:
        """Both parts joined; neither can contain the separator, so that keys never collide."""
        return f"{quote(self.tenant, safe='')}/{quote(self.session, safe=':')}"

    @classmethod
    def parse(cls, text: str) -> SessionKey:
        tenant, _, session = text.partition("/")
        return cls(Tenant(unquote(tenant)), SessionId(unquote(session)))


def parse_tenant(raw: str) -> Tenant:
    """Check a tenant that somebody gave on purpose (policy, parameter, command line).

    Raises:
        UnknownTenant: no agent can be of it.
    """
    if raw not in TENANTS:
        raise UnknownTenant(
            f"no agent can be of tenant {raw[:128]!r}: modegate does not know keys of agents yet, so that "
            f"each request is of tenant {LOCAL!r}; leave the tenant out"
        )
    return Tenant(raw)


def parse_session_id(raw: str) -> SessionId:
    """Check a session id that somebody gave on purpose (path, header, command line).

    Raises:
        BadSession: it is not `[A-Za-z0-9][A-Za-z0-9._:-]{0,127}`.
    """
    if not _SESSION_ID.match(raw):
        raise BadSession(
            f"session id {raw[:140]!r} is not valid: 1 to 128 characters, letters, digits and ._:-, "
            "beginning with a letter or a digit"
        )
    return SessionId(raw)


def fits_session_id(raw: str) -> bool:
    """Return whether an inferred id can be used as it is."""
    return _SESSION_ID.match(raw) is not None

"""The control API: what people and their tools ask about sessions, and how they set a mode.

JSON under `/control/v1`, described in docs/operations.md. It decides nothing: sessions and events come
from the log, the mode in force from the fold, and a mode is set by appending to the log.
"""

from __future__ import annotations

from starlette.routing import Router

from modegate.server.control.approvals import ApprovalRoutes
from modegate.server.control.log import LogRoutes
from modegate.server.control.policy import PolicyRoutes
from modegate.server.control.sessions import SessionRoutes
from modegate.server.control.streams import EventStreams
from modegate.server.extension import Services


class Control:
    """All handlers; one instance a process."""

    def __init__(self, services: Services) -> None:
        self._streams = EventStreams(services.clock)
        self._routes = (
            *SessionRoutes(services, self._streams).routes(),
            *ApprovalRoutes(services, self._streams).routes(),
            *LogRoutes(services).routes(),
            *PolicyRoutes(services).routes(),
        )

    def router(self) -> Router:
        """Return the routes below `/control`."""
        return Router(self._routes, redirect_slashes=False)

    def close(self) -> None:
        """End every stream within about a second: none may hold up a shutdown."""
        self._streams.close()

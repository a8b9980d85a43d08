"""The control API: what people and their tools ask about sessions, and how they set a mode.

JSON under `/control/v1`, described in docs/operations.md. It decides nothing: sessions and events come
from the log, the mode in force from the fold, and a mode is set by appending to the log.
"""

from __future__ import annotations

from typing import Protocol

from starlette.routing import Route, Router

from modegate.core.ids import SessionKey
from modegate.core.log.fold import State
from modegate.server.access import Access
from modegate.server.clock import Clock
from modegate.server.control.approvals import ApprovalRoutes
from modegate.server.control.log import LogRoutes
from modegate.server.control.mode_setter import ModeSetter, SetsModes
from modegate.server.control.policy import PolicyRoutes, PolicySource
from modegate.server.control.sessions import SessionRoutes
from modegate.server.control.streams import EventStreams
from modegate.server.log.protocol import EventLog
from modegate.server.proxy.questions import Questions


class Folds(SetsModes, Protocol):
    """What the control API needs of the folds."""

    async def state(self, key: SessionKey) -> State:
        """Return the session's state, not older than the call."""
        ...

    def begin_anew(self) -> None:
        """Forget all: an operator says that the store is right as it is."""
        ...


class Control:
    """All handlers; one instance a process."""

    def __init__(
        self,
        *,
        log: EventLog,
        folds: Folds,
        policies: PolicySource,
        approvals: Questions,
        clock: Clock,
        access: Access,
    ) -> None:
        """Build the handlers from what they ask."""
        self._streams = EventStreams(clock)
        questions = ApprovalRoutes(approvals, log, policies, clock, self._streams)
        setter = ModeSetter(log, folds, policies)
        sessions = SessionRoutes(
            log=log,
            folds=folds,
            policies=policies,
            setter=setter,
            approvals=approvals,
            streams=self._streams,
        )
        self._routes: list[Route] = [
            *sessions.routes(),
            *questions.routes(),
            *LogRoutes(log, folds).routes(),
            *PolicyRoutes(policies, access).routes(),
        ]

    def router(self) -> Router:
        """Return the routes below `/control`."""
        return Router(self._routes, redirect_slashes=False)

    def close(self) -> None:
        """End every stream within about a second: none may hold up a shutdown."""
        self._streams.close()

"""The control API: what people and their tools ask about sessions, and how they set a mode.

JSON under `/control/v1`, described in docs/operations.md. It decides nothing: sessions and events come
from the log, the mode in force from the fold, and a mode is set by appending to the log.
"""

from __future__ import annotations

import logging
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router

from modegate.core.errors import LogUnavailable
from modegate.core.policy.model import Level
from modegate.server.control.approvals import ApprovalRoutes
from modegate.server.control.http import need, person_of
from modegate.server.control.sessions import SessionRoutes
from modegate.server.control.streams import EventStreams
from modegate.server.extension import Services
from modegate.server.policies import Policies

logger = logging.getLogger(__name__)


class Control:
    """All handlers; one instance a process."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._streams = EventStreams(services.clock)
        self._routes = (
            *SessionRoutes(services, self._streams).routes(),
            *ApprovalRoutes(services, self._streams).routes(),
            Route("/v1/log", self._log),
            Route("/v1/log/adopt", self._adopt_log, methods=["POST"]),
            Route("/v1/policy", self._policy),
        )

    def router(self) -> Router:
        """Return the routes below `/control`."""
        return Router(self._routes, redirect_slashes=False)

    def close(self) -> None:
        """End every stream within about a second: none may hold up a shutdown."""
        self._streams.close()

    async def _log(self, _request: Request) -> Response:
        """Return whether the log is served from, and what is the matter with it."""
        log = self._services.log
        try:
            await log.ping()
        except LogUnavailable as error:
            return JSONResponse({"ok": False, "code": error.code, "message": str(error)})
        return JSONResponse({"ok": True, "warnings": await log.warnings()})

    async def _adopt_log(self, request: Request) -> Response:
        """Trust the log as it is from now on: an operator has looked."""
        need(request, Level.FULL, "adopting the event log")
        identity = await self._services.log.adopt()
        self._services.folds.begin_anew()
        logger.warning("the event log %s was adopted by %s", identity, person_of(request))
        return JSONResponse({"identity": identity})

    async def _policy(self, _request: Request) -> Response:
        """Show the policy in force and how its last reload went."""
        policies = self._services.policies
        warnings = [*map(str, policies.current.warnings), *self._services.access.warnings()]
        return JSONResponse({**_policy_json(policies), "warnings": warnings})


def _policy_json(policies: Policies) -> dict[str, Any]:
    policy, status = policies.current, policies.status
    return {
        "hash": policy.hash,
        "generation": status.generation,
        "loadedAt": status.loaded_at,
        "modes": [
            {
                "id": mode.id,
                "name": mode.name,
                "description": mode.description,
                "rules": len(mode.rules),
            }
            for mode in policy.modes.values()
        ],
        "reload": {
            "ok": not status.problems,
            "problems": [
                {"path": p.path, "line": p.line, "message": p.message, "found": p.found}
                for p in status.problems
            ],
        },
    }

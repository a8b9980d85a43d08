"""The control API's routes about the event log as a whole: how it is, and that it is the right one."""

from __future__ import annotations

import logging

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from modegate.core.errors import LogUnavailable
from modegate.core.policy.model import Level
from modegate.server.control.http import need, person_of
from modegate.server.extension import Services

logger = logging.getLogger(__name__)


class LogRoutes:
    """The handlers; one instance a process."""

    def __init__(self, services: Services) -> None:
        self._log, self._folds = services.log, services.folds

    def routes(self) -> list[Route]:
        """Return the routes below `/control`."""
        return [Route("/v1/log", self.show), Route("/v1/log/adopt", self.adopt, methods=["POST"])]

    async def show(self, _request: Request) -> Response:
        """Return whether the log is served from, and what is the matter with it."""
        try:
            await self._log.ping()
        except LogUnavailable as error:
            return JSONResponse({"ok": False, "code": error.code, "message": str(error)})
        return JSONResponse({"ok": True, "warnings": await self._log.warnings()})

    async def adopt(self, request: Request) -> Response:
        """Trust the log as it is from now on: an operator has looked."""
        need(request, Level.FULL, "adopting the event log")
        identity = await self._log.adopt()
        self._folds.begin_anew()
        logger.warning("the event log %s was adopted by %s", identity, person_of(request))
        return JSONResponse({"identity": identity})

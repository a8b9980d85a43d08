"""The control API's route about the policy: what is in force, and how its last reload went."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from modegate.server.extension import Services
from modegate.server.policies import Policies


class PolicyRoutes:
    """The handler; one instance a process."""

    def __init__(self, services: Services) -> None:
        self._policies, self._access = services.policies, services.access

    def routes(self) -> list[Route]:
        """Return the route below `/control`."""
        return [Route("/v1/policy", self.policy)]

    async def policy(self, _request: Request) -> Response:
        """Show the policy in force and how its last reload went."""
        return JSONResponse({**_policy_json(self._policies), "warnings": self._access.warnings()})


def _policy_json(policies: Policies) -> dict[str, Any]:
    """Return the policy in force and its last reload."""
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

"""The control API's route about the policy: what is in force, and how its last reload went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from modegate.core.policy.model import Policy
from modegate.core.policy.problems import Problem
from modegate.server.access import Access


class PolicyStatus(Protocol):
    """How the policies file stands."""

    @property
    def generation(self) -> int:
        """How many policies have been in force since the start."""
        ...

    @property
    def loaded_at(self) -> int:
        """When the policy came into force, milliseconds since the epoch."""
        ...

    @property
    def problems(self) -> Sequence[Problem]:
        """Why the file as it is now is not in force; empty if it is."""
        ...


class PolicySource(Protocol):
    """What the control API needs of the policies."""

    @property
    def current(self) -> Policy:
        """The policy in force."""
        ...

    @property
    def status(self) -> PolicyStatus:
        """How its last reload went."""
        ...


class PolicyRoutes:
    """The handler; one instance a process."""

    def __init__(self, policies: PolicySource, access: Access) -> None:
        """Keep what it asks."""
        self._policies = policies
        self._access = access

    def routes(self) -> list[Route]:
        """Return the route below `/control`."""
        return [Route("/v1/policy", self.policy)]

    async def policy(self, _request: Request) -> Response:
        """Show the policy in force and how its last reload went."""
        return JSONResponse({**_policy_json(self._policies), "warnings": self._access.warnings()})


def _policy_json(policies: PolicySource) -> dict[str, Any]:
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

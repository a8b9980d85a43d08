"""What the control API's handlers share: how they read a request and write an error."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from modegate.core.errors import BadRequest, LevelNeeded, ModegateError, TooLarge, UnknownMode
from modegate.core.ids import LOCAL, Tenant, parse_tenant
from modegate.core.policy.model import OWN_TOKEN, Level
from modegate.server.access import GRANT, Grant, problem

T = TypeVar("T")

MAX_BODY = 64 * 1024
"""Bytes; the longest thing that anyone sends here is a comment on a plan."""


def tenant_of(request: Request) -> Tenant:
    """Return the tenant that is asked about.

    Raises:
        HTTPException: 404, the token is not for this tenant; the same whether the tenant exists or not.
        UnknownTenant: no agent can be of it.
    """
    tenant = request.query_params.get("tenant", LOCAL)
    if not _grant(request).sees(Tenant(tenant)):
        raise HTTPException(404, f"this token knows no tenant {tenant[:128]!r}; see ?tenant=")
    return parse_tenant(tenant)


def need(request: Request, level: Level, what: str) -> None:
    """Refuse what the token's level does not cover.

    Raises:
        LevelNeeded: naming the level.
    """
    grant = _grant(request)
    if not grant.level.covers(level):
        raise LevelNeeded(what, level, grant.name, grant.level)


def _grant(request: Request) -> Grant:
    grant: Grant = request.scope[GRANT]
    return grant


def person_of(request: Request) -> str:
    """Return the way in which a person came, as the log names it, with the name of a token of the policy."""
    way = "cli" if request.headers.get("x-modegate-client") == "cli" else "control"
    name = _grant(request).name
    return f"person:{way}" if name == OWN_TOKEN else f"person:{way}/{name}"


async def read_body(request: Request, kind: type[T], shape: str) -> T:
    """Read the body, which people's tools are told to write as `shape`.

    Raises:
        TooLarge: it is over `MAX_BODY`.
        BadRequest: it is something else.
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise TooLarge(f"the body is larger than {MAX_BODY} bytes")
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise BadRequest(f"the body must be {shape}: {error}") from error


def error_of(error: ModegateError) -> dict[str, Any]:
    """Return what `{"error": …}` holds."""
    body: dict[str, Any] = {"code": error.code, "message": str(error)}
    if isinstance(error, UnknownMode):
        body["available"] = list(error.available)
    if isinstance(error, LevelNeeded):
        body["needed"] = error.needed
    return body


async def on_error(_request: Request, error: Exception) -> Response:
    """Return any error as the control API's JSON."""
    match error:
        case ModegateError():
            body = error_of(error)
            answer = problem(error.status, body.pop("code"), body.pop("message"), **body)
            if error.retry_after is not None:
                answer.headers["retry-after"] = str(error.retry_after)
            return answer
        case HTTPException():
            code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "refused")
            answer = problem(error.status_code, code, error.detail)
            answer.headers.update(error.headers or {})
            return answer
        case _:
            return problem(500, "internal_error", "an error of modegate itself; see its log")

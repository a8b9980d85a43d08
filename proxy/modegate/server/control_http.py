"""What the control API's handlers share: how they read a request and write an error."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from modegate.core.errors import BadRequest, ModegateError, TooLarge, UnknownMode
from modegate.core.ids import LOCAL, Tenant

MAX_BODY = 64 * 1024
"""Bytes; the longest thing that anyone sends here is a comment on a plan."""

SSE_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


def tenant_of(request: Request) -> Tenant:
    """Give the tenant that is asked about.

    Raises:
        BadRequest: its name is empty or over 128 characters.
    """
    tenant = request.query_params.get("tenant", LOCAL)
    if not 0 < len(tenant) <= 128:
        raise BadRequest("tenant: must have 1 to 128 characters")
    return Tenant(tenant)


def person_of(request: Request) -> str:
    """Give the way in which a person came, as the log names it."""
    return "person:cli" if request.headers.get("x-modegate-client") == "cli" else "person:control"


def wants_stream(request: Request) -> bool:
    """Tell whether server-sent events are asked for."""
    return "text/event-stream" in request.headers.get("accept", "")


async def body_of(request: Request) -> bytes:
    """Give the body.

    Raises:
        TooLarge: it is over `MAX_BODY`.
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise TooLarge(f"the body is larger than {MAX_BODY} bytes")
    return bytes(body)


def error_of(error: ModegateError) -> dict[str, Any]:
    """Give what `{"error": …}` holds."""
    body: dict[str, Any] = {"code": error.code, "message": str(error)}
    if isinstance(error, UnknownMode):
        body["available"] = list(error.available)
    return body

"""The control API's questions to people: what is open, its answer, and who was shown it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any

import msgspec
from anyio import move_on_after
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from modegate.core.errors import BadRequest, ModegateError, NotOpen
from modegate.core.ids import SessionKey, Tenant
from modegate.core.levels import to_answer
from modegate.core.log.approvals import Approval
from modegate.core.log.open_questions import MAX_COMMENT
from modegate.core.policy.model import Level
from modegate.server.access import problem
from modegate.server.control.follow import QuestionFollower
from modegate.server.control.http import need, person_of, read_body, tenant_of
from modegate.server.control.streams import EventStreams, event, wants_stream
from modegate.server.extension import Services
from modegate.server.proxy.questions import Pending

MAX_VIA = 64
"""Characters of a client's kind, and of its name."""

LEAVE_S = 5.0
"""How long noting that a client has left may take."""


class _Answer(msgspec.Struct, forbid_unknown_fields=True):
    option: str
    comment: str = ""


class _Delivered(msgspec.Struct, forbid_unknown_fields=True):
    via: str
    client: str = ""


class _Left(msgspec.Struct, forbid_unknown_fields=True):
    client: str


class ApprovalRoutes:
    """The handlers below `/control/v1/approvals`."""

    def __init__(self, services: Services, streams: EventStreams) -> None:
        self._services = services
        self._approvals = services.approvals
        self._streams = streams

    def routes(self) -> list[Route]:
        """Return the routes."""
        one = "/v1/approvals/{approval}"
        return [
            Route("/v1/approvals", self.approvals),
            Route(one, self.answer, methods=["POST"]),
            Route(f"{one}/delivered", self.delivered, methods=["POST"]),
            Route(f"{one}/left", self.left, methods=["POST"]),
        ]

    async def approvals(self, request: Request) -> Response:
        """List what is open, or what was settled, the oldest first, or follow it as server-sent events.

        A follower with a name (`client`) is there as long as its stream is.
        """
        tenant = tenant_of(request)
        if wants_stream(request):
            client = _name(request.query_params.get("client", ""), "client")
            return self._streams.response(self._follow(tenant, client))
        settled = request.query_params.get("settled") == "true"
        asked = self._approvals.settled_ones if settled else self._approvals.open_ones
        found = await asked(tenant)
        return JSONResponse({"approvals": [shown(one) for one in found]})

    async def answer(self, request: Request) -> Response:
        """Settle a question; the first answer in the log wins, and others are told so."""
        key, name = await self._asked(request)
        need(request, Level.TIGHTEN, "answering")
        given = await read_body(request, _Answer, '{"option": ID, "comment"?: TEXT}')
        if len(given.comment) > MAX_COMMENT:
            raise BadRequest(f"comment: must have {MAX_COMMENT} characters at most")
        known = await self._known(key, name)
        for option in known.asked.options if known else ():
            if option.id == given.option:
                need(request, to_answer(option.kind), f"answering {option.id!r}")
        try:
            settled = await self._approvals.answer(
                key,
                name,
                given.option,
                comment=given.comment,
                by=person_of(request),
                modes=self._services.policies.current.modes,
            )
        except NotOpen as error:
            known = await self._known(key, name)
            how = _ending(known) if known else {}
            return problem(error.status, error.code, str(error), **how)
        body = {"id": name, "session": key.session, **_ending(settled), "waited": settled.waited}
        if settled.to is not None:
            body["mode"] = settled.to
        return JSONResponse(body)

    async def delivered(self, request: Request) -> Response:
        """Note that somebody was shown the question: its step then waits for them."""
        key, name = await self._asked(request)
        # Who could not even reject it is nobody that a step should wait for.
        need(request, Level.TIGHTEN, "being shown a question")
        given = await read_body(request, _Delivered, '{"via": NAME, "client"?: ID}')
        if not given.via:
            raise BadRequest(f"via: must have 1 to {MAX_VIA} characters")
        via, client = _name(given.via, "via"), _name(given.client, "client")
        found = await self._approvals.delivered(key, name, via, client)
        return JSONResponse({"id": name, "session": key.session, "status": found.status})

    async def left(self, request: Request) -> Response:
        """Note that a client shows the question no longer: its step then does not wait for it."""
        key, name = await self._asked(request)
        need(request, Level.TIGHTEN, "leaving a question")
        given = await read_body(request, _Left, '{"client": ID}')
        await self._approvals.left(key, name, _name(given.client, "client"))
        status = (await self._approvals.look(key, name)).status
        return JSONResponse({"id": name, "session": key.session, "status": status})

    async def _asked(self, request: Request) -> tuple[SessionKey, str]:
        tenant, name = tenant_of(request), str(request.path_params["approval"])
        key = await self._approvals.find(tenant, name)
        if key is None:
            raise HTTPException(404, f"no approval {name[:80]!r} of tenant {tenant!r}")
        return key, name

    async def _known(self, key: SessionKey, name: str) -> Approval | None:
        """Return a question; None if it was forgotten."""
        try:
            return await self._approvals.look(key, name)
        except NotOpen:
            return None

    async def _follow(self, tenant: Tenant, client: str) -> AsyncGenerator[list[bytes]]:
        """Yield what is open and what changes; when this ends, its client shows nothing any more."""
        try:
            services = self._services
            follower = QuestionFollower(self._approvals, services.log, services.clock, tenant)
            async with aclosing(follower.follow()) as changes:
                async for news in changes:
                    yield [event(shown(one)) for one in news]
        finally:
            if client:
                with move_on_after(LEAVE_S, shield=True), suppress(ModegateError):
                    await self._approvals.all_left(tenant, client)


def shown(pending: Pending) -> dict[str, Any]:
    """Return a question as people's tools see it; a settled one has no text any more."""
    approval, asked = pending.approval, pending.approval.asked
    return {
        "id": asked.id,
        "session": pending.key.session,
        "tenant": pending.key.tenant,
        "open": approval.open,
        **_ending(approval),
        "tool": asked.tool,
        "purpose": asked.purpose,
        "text": asked.text,
        "options": [
            {"id": option.id, "label": option.label, "kind": option.kind}
            | ({"mode": option.to} if option.to is not None else {})
            for option in asked.options
        ],
        "askedAt": approval.asked_at,
        "expires": approval.ends,
    }


def _ending(approval: Approval) -> dict[str, Any]:
    """Return the status, and what is known of how it came about."""
    known = {
        "option": approval.option,
        "by": approval.by,
        "comment": approval.comment,
        "why": approval.why,
    }
    return {"status": approval.status, **{name: value for name, value in known.items() if value}}


def _name(given: str, what: str) -> str:
    if len(given) > MAX_VIA:
        raise BadRequest(f"{what}: must have {MAX_VIA} characters at most")
    return given

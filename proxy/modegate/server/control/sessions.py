"""The control API's routes about sessions: which there are, their modes, and what happens in them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from modegate.core.errors import BadRequest
from modegate.core.ids import ModeId, Seq, SessionKey, parse_session_id
from modegate.core.levels import words_to_set
from modegate.core.log.fold import State
from modegate.core.log.records import to_json
from modegate.core.policy.gating import Held, left_out
from modegate.core.policy.model import Level
from modegate.server.control.approvals import shown
from modegate.server.control.http import need, person_of, read_body, tenant_of
from modegate.server.control.streams import EventStreams, event, wants_stream
from modegate.server.extension import Services
from modegate.server.log.feed import FeedFollower
from modegate.server.log.protocol import Listed
from modegate.server.proxy.sessions import held_by, summarize

PAGE = 50
MAX_PAGE = 200
EVENTS_PAGE = 1000


class _SetMode(msgspec.Struct, forbid_unknown_fields=True):
    mode: str


class SessionRoutes:
    """The handlers below `/control/v1/sessions`; one instance a process."""

    def __init__(self, services: Services, streams: EventStreams) -> None:
        self._services = services
        self._log, self._folds = services.log, services.folds
        self._streams = streams

    def routes(self) -> list[Route]:
        """Return the routes below `/control`."""
        one = "/v1/sessions/{session}"
        return [
            Route("/v1/sessions", self.sessions),
            Route(one, self.session),
            Route(f"{one}/mode", self.set_mode, methods=["PUT"]),
            Route(f"{one}/events", self.events),
        ]

    async def sessions(self, request: Request) -> Response:
        """List sessions, newest first."""
        limit = _number(request, "limit", PAGE, low=1, high=MAX_PAGE)
        cursor = request.query_params.get("cursor")
        page = await self._log.sessions(tenant_of(request), cursor, limit)
        body: dict[str, Any] = {"sessions": [await self._row(row) for row in page.rows]}
        if page.next is not None:
            body["nextCursor"] = page.next
        return JSONResponse(body)

    async def _row(self, row: Listed) -> dict[str, Any]:
        seen = await summarize(self._folds, self._services.policies.current, row)
        state = seen.state
        return {
            "id": row.key.session,
            "tenant": row.key.tenant,
            "mode": state.mode if state else None,
            **(_held_json(state, seen.held) if state else {}),
            "gate": seen.gating,
            "leftOut": left_out(state) if state else [],
            "seq": max(row.seq, state.seq if state else 0),
            "agent": row.agent,
            "how": row.how,
            "updatedAt": row.at,
        }

    async def session(self, request: Request) -> Response:
        """Show one session's folded state."""
        key = _key(request)
        state = await self._folds.state(key)
        if not state.seq:
            await self._must_be_known(key)
        body = _state_json(key, state)
        body |= _held_json(state, await held_by(self._folds, key, state))
        body["approvals"] = [shown(one) for one in await self._services.approvals.of(key)]
        return JSONResponse(body)

    async def set_mode(self, request: Request) -> Response:
        """Set the mode of a session, also of one that has sent nothing yet."""
        key = _key(request)
        need(request, Level.TIGHTEN, "setting a mode")
        wanted = ModeId((await read_body(request, _SetMode, '{"mode": "NAME"}')).mode)

        def allow(level: Level, now: State) -> None:
            need(request, level, words_to_set(now, wanted))

        change = await self._services.setter.set_mode(
            key, wanted, by=person_of(request), allow=allow
        )
        state = change.state
        body = {"mode": state.mode, "seq": state.seq, "changed": change.changed, "was": change.was}
        if change.followed is not None:
            body["followed"] = change.followed
        if state.opened and state.opened.derived:
            body["warning"] = (
                "this session's id was derived from its first message and is lost when the agent "
                f"rewrites that; give the agent the base URL /s/{key.session}/v1 to be certain"
            )
        return JSONResponse(body)

    async def events(self, request: Request) -> Response:
        """Return a page of a session's events, or follow them as server-sent events."""
        key = _key(request)
        after = Seq(_number(request, "after", 0, low=0, high=2**53))
        if wants_stream(request):
            last = request.headers.get("last-event-id", "")
            after = Seq(max(after, int(last))) if last.isdecimal() and len(last) < 17 else after
            return self._streams.response(self._follow(key, after))
        limit = _number(request, "limit", EVENTS_PAGE, low=1, high=EVENTS_PAGE)
        records = await self._log.read(key, after, limit)
        if not records and not after:
            await self._must_be_known(key)
        return JSONResponse({"events": [to_json(record) for record in records]})

    async def _follow(self, key: SessionKey, after: Seq) -> AsyncGenerator[list[bytes]]:
        async for changed in FeedFollower(self._log):
            more = key in changed
            while more:
                records = await self._log.read(key, after, EVENTS_PAGE)
                yield [event(to_json(record), id=record.seq) for record in records]
                after = records[-1].seq if records else after
                more = len(records) == EVENTS_PAGE
            yield []

    async def _must_be_known(self, key: SessionKey) -> None:
        if not await self._log.was_seen(key):
            raise HTTPException(404, f"no session {key.session!r} of tenant {key.tenant!r}")


def _key(request: Request) -> SessionKey:
    return SessionKey(tenant_of(request), parse_session_id(request.path_params["session"]))


def _number(request: Request, name: str, default: int, *, low: int, high: int) -> int:
    raw = request.query_params.get(name)
    if raw is None:
        return default
    if not (raw.isascii() and raw.isdecimal() and len(raw) < 17 and low <= int(raw) <= high):
        raise BadRequest(f"{name}: must be a whole number from {low} to {high}")
    return int(raw)


def _held_json(state: State, held: Held) -> dict[str, Any]:
    by = [{"session": one.session, "mode": one.mode} for one in held.by]
    return {"inForce": held.label(state.mode), "heldBy": by}


def _state_json(key: SessionKey, state: State) -> dict[str, Any]:
    opened = state.opened
    return {
        "id": key.session,
        "tenant": key.tenant,
        "mode": state.mode,
        "modeSeq": state.mode_seq,
        "seq": state.seq,
        "agent": opened.agent if opened else "",
        "how": opened.how if opened else "",
        "parent": opened.parent if opened else None,
        "derived": opened is not None and opened.derived,
        "lanes": [
            {
                "lane": lane,
                "mode": header.mode,
                "policy": header.policy,
                "tools": list(header.tools),
                "section": header.section,
                "leftOut": list(header.left_out),
            }
            for lane, header in state.lanes.items()
        ],
        "withheld": len(state.withheld),
        "unreadable": state.unreadable,
    }

"""The control API: what people and their tools ask about sessions, and how they set a mode.

JSON under `/control/v1`, described in docs/operations.md. It decides nothing: sessions and events come
from the log, the mode in force from the fold, and a mode is set by appending to the log.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, Router

from modegate.core.errors import BadRequest, ModegateError
from modegate.core.ids import ModeId, Seq, SessionKey, parse_session_id
from modegate.core.levels import words_to_set
from modegate.core.log.fold import State
from modegate.core.log.parents import Held
from modegate.core.log.records import Record, to_json
from modegate.core.policy.gating import left_out
from modegate.core.policy.model import Level, Policy
from modegate.core.policy.problems import Problem
from modegate.server.access import Access, problem
from modegate.server.clock import Clock
from modegate.server.control.approvals import ApprovalRoutes
from modegate.server.control.http import (
    SSE_HEADERS,
    body_of,
    error_of,
    need,
    person_of,
    tenant_of,
    wants_stream,
)
from modegate.server.control.log import LogRoutes
from modegate.server.control.mode_setter import ModeSetter, SetsModes
from modegate.server.log.protocol import EventLog, Listed
from modegate.server.proxy.approvals import Approvals
from modegate.server.proxy.sessions import held_by, summarize

PAGE = 50
MAX_PAGE = 200
EVENTS_PAGE = 1000

KEEP_ALIVE_S = 10.0
"""Proxies commonly close a stream that was silent for 30 s or more."""

POLL_S = 1.0
"""How long one wait for the feed lasts, so that a follower notices a shutdown soon."""


class Folds(SetsModes, Protocol):
    """What the control API needs of the folds."""

    async def state(self, key: SessionKey) -> State:
        """Return the session's state, not older than the call."""
        ...

    def begin_anew(self) -> None:
        """Forget all: an operator says that the store is right as it is."""
        ...


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


class _SetMode(msgspec.Struct, forbid_unknown_fields=True):
    mode: str


_decode_set_mode = msgspec.json.Decoder(_SetMode).decode


class Control:
    """The handlers; one instance a process."""

    def __init__(
        self,
        *,
        log: EventLog,
        folds: Folds,
        policies: PolicySource,
        approvals: Approvals,
        clock: Clock,
        access: Access,
    ) -> None:
        """Keep what the handlers ask."""
        self._setter = ModeSetter(log, folds, policies)
        self._access = access
        self._approvals = ApprovalRoutes(approvals, log, policies, clock)
        self._whole_log = LogRoutes(log, folds)
        self._log = log
        self._folds = folds
        self._policies = policies
        self._clock = clock
        self._closing = False

    def router(self) -> Router:
        """Return the routes below `/control`."""
        one = "/v1/sessions/{session}"
        return Router(
            [
                Route("/v1/sessions", self.sessions),
                Route(one, self.session),
                Route(f"{one}/mode", self.set_mode, methods=["PUT"]),
                Route(f"{one}/events", self.events),
                *self._approvals.routes(),
                *self._whole_log.routes(),
                Route("/v1/policy", self.policy),
            ],
            redirect_slashes=False,
        )

    def close(self) -> None:
        """End every event stream within `POLL_S`, so that they do not hold up a shutdown."""
        self._closing = True
        self._approvals.close()

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
        seen = await summarize(self._folds, self._policies.current, row)
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
        body["approvals"] = await self._approvals.of(key)
        return JSONResponse(body)

    async def set_mode(self, request: Request) -> Response:
        """Set the mode of a session, also of one that has sent nothing yet."""
        key = _key(request)
        need(request, Level.TIGHTEN, "setting a mode")
        wanted = ModeId(_set_mode_body(await body_of(request)).mode)

        def allow(level: Level, now: State) -> None:
            need(request, level, words_to_set(now, wanted))

        change = await self._setter.set_mode(key, wanted, by=person_of(request), allow=allow)
        state = change.state
        body = {
            "mode": state.mode,
            "seq": state.seq,
            "changed": change.changed,
            "was": change.was,
        }
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
            return StreamingResponse(
                self._follow(key, after),
                media_type="text/event-stream",
                headers=SSE_HEADERS,
            )
        limit = _number(request, "limit", EVENTS_PAGE, low=1, high=EVENTS_PAGE)
        records = await self._log.read(key, after, limit)
        if not records and not after:
            await self._must_be_known(key)
        return JSONResponse({"events": [to_json(record) for record in records]})

    async def policy(self, _request: Request) -> Response:
        """Show the policy in force and how its last reload went."""
        return JSONResponse({**policy_json(self._policies), "warnings": self._access.warnings()})

    async def _follow(self, key: SessionKey, after: Seq) -> AsyncIterator[bytes]:
        try:
            # The feed's position is taken before the first read, so that nothing falls between.
            position, fresh = (await self._log.changes(None)).position, True
            sent_at = self._clock.monotonic()
            while not self._closing:
                records = await self._log.read(key, after, EVENTS_PAGE) if fresh else []
                for record in records:
                    yield _sse(record)
                    after, sent_at = record.seq, self._clock.monotonic()
                if len(records) == EVENTS_PAGE:
                    continue
                changes = await self._log.changes(position, wait=POLL_S)
                position = changes.position
                fresh = changes.gap or any(change.key == key for change in changes.changes)
                if self._clock.monotonic() - sent_at >= KEEP_ALIVE_S:
                    yield b": still here\n\n"
                    sent_at = self._clock.monotonic()
        except ModegateError as error:
            yield (
                b"event: error\ndata: " + msgspec.json.encode({"error": error_of(error)}) + b"\n\n"
            )

    async def _must_be_known(self, key: SessionKey) -> None:
        if not await self._log.was_seen(key):
            raise HTTPException(404, f"no session {key.session!r} of tenant {key.tenant!r}")


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


def policy_json(policies: PolicySource) -> dict[str, Any]:
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


def _key(request: Request) -> SessionKey:
    return SessionKey(tenant_of(request), parse_session_id(request.path_params["session"]))


def _number(request: Request, name: str, default: int, *, low: int, high: int) -> int:
    raw = request.query_params.get(name)
    if raw is None:
        return default
    if not (raw.isascii() and raw.isdecimal() and len(raw) < 17 and low <= int(raw) <= high):
        raise BadRequest(f"{name}: must be a whole number from {low} to {high}")
    return int(raw)


def _set_mode_body(body: bytes) -> _SetMode:
    try:
        return _decode_set_mode(body)
    except msgspec.MsgspecError as error:
        raise BadRequest(f'the body must be {{"mode": "NAME"}}: {error}') from error


def _sse(record: Record) -> bytes:
    return b"id: %d\ndata: %b\n\n" % (record.seq, msgspec.json.encode(to_json(record)))


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

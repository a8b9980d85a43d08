"""One request on its way: its session, its path through the proxy, and its answer."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from starlette.types import Receive, Scope, Send

from modegate.core.endpoints import Endpoint, Kind
from modegate.core.errors import ModegateError, Tightened, error_head, error_json
from modegate.core.identify import session
from modegate.core.identify.body import BodyFields, body_fields
from modegate.core.identify.sources import body_names
from modegate.core.ids import LOCAL, SessionKey
from modegate.core.policy.in_force import ModesInForce
from modegate.core.policy.routes import api_of, api_of_path, has_model, model_of_body, model_of_path
from modegate.core.step import stored_answers_get
from modegate.core.step.dialect import AnyDialect
from modegate.core.step.exchange import Exchange, StepRequest
from modegate.core.wire import headers as lines
from modegate.core.wire.request_body import RequestBody
from modegate.server.proxy.admission import Admission
from modegate.server.proxy.client import BodyReader, ClientAnswer, ClientRequest
from modegate.server.proxy.drive import Drive, DriveContext
from modegate.server.proxy.fetch import StoredRequest, fetch
from modegate.server.proxy.memory import COPIES, Share
from modegate.server.proxy.passthrough import UnderWayAnswer, Watched, pass_through
from modegate.server.proxy.services import StepServices
from modegate.server.proxy.step_log import GATED, PASSED, RESTORED, StepLog
from modegate.server.proxy.watchers import SessionWatch
from modegate.server.upstream.pool import ChosenUpstream
from modegate.server.upstream.protocol import UpstreamRequest

_PREFIX = re.compile(rb"^/s/[^/]*")
"""Names a session."""


@dataclass(frozen=True, slots=True)
class _Route:
    """Where a request goes."""

    endpoint: Endpoint
    key: SessionKey
    upstream: ChosenUpstream
    watch: SessionWatch
    dialect: AnyDialect | None
    """What the gate reads it with; None where the gate reads nothing."""


class Step:
    """One request and its answer."""

    def __init__(
        self, services: StepServices, log: StepLog, scope: Scope, receive: Receive, send: Send
    ) -> None:
        self.id = log.step
        self._services = services
        self._log = log
        self._scope = scope
        self._policy = services.policies.current
        limits = self._policy.limits
        self._share = Share(services.memory, limits.memory)
        self._headers = [(name.lower(), value) for name, value in scope["headers"]]
        self._admission = Admission(scope, self._headers)
        self._request = ClientRequest(receive, log, limits.body, self._share)
        self._answer = ClientAnswer(send, log)
        self._body = BodyReader(
            self._request, self._headers, limits.body, self._share, services.executor
        )
        # Errors are written in it, also that of a path whose session has no valid name.
        self._apis = services.dialects.apis
        self._api = api_of_path(self._apis, _PREFIX.sub(b"", scope["raw_path"]), self._headers)
        self._drive: Drive | None = None
        self._raw: AnyDialect | None = None
        """What an answer that passes raw is written in."""
        self._outcome = "failed"

    async def run(self) -> str:
        """Serve the request; return how it ended."""
        self._admission.check_connection()
        try:
            done = await self._request.during(self._serve())
        finally:
            self._share.give_back()
        # What follows the last byte may be cut short: its client is over with the answer, and away.
        over = self._drive.over if self._drive is not None else None
        return self._outcome if done else over or "gone"

    async def refuse(self, error: ModegateError) -> None:
        """Answer with an error, or break the answer off if it has begun."""
        if self._drive is not None:
            await self._drive.fail(error)
        elif not self._answer.began:
            body = error_json(error, self._api.error)
            head = {"status": error.status, "headers": error_head(error, body)}
            await self._answer({"type": "http.response.start", **head})
            await self._answer({"type": "http.response.body", "body": body, "more_body": False})
        elif self._raw is not None and self._answer.between_events:
            body = self._raw.stream_writer().error(error)
            await self._answer({"type": "http.response.body", "body": body, "more_body": False})

    async def _serve(self) -> None:
        scope, services = self._scope, self._services
        self._admission.check_size(self._policy.limits.body)
        self._admission.check_credential(services.access)
        endpoint = self._apis.classify(scope["method"], scope["raw_path"])
        self._api = api_of(self._apis, endpoint, self._headers)
        self._log.endpoint = endpoint.name
        found = await self._identify(endpoint)
        if found.derived and (paths := endpoint.stored_paths) is not None:
            found = replace(found, previous=stored_answers_get.name_of(paths, endpoint.path))
        found = await services.sessions.follow(found)
        self._log.session = found.key.session
        if endpoint.kind is not Kind.HARMLESS:
            # The log is read only once the body is whole. A request that lacked a byte could else wait, and
            # pass long after a person has set a mode.
            await self._body.raw()
        with services.watchers.watch(services.sessions, services.policies, found.key) as watch:
            await self._enter(endpoint, found, watch)

    async def _identify(self, endpoint: Endpoint) -> session.Identified:
        sessions = self._policy.sessions
        head = session.Head(self._scope["method"], endpoint, self._headers)
        found = session.from_head(head, sessions, LOCAL)
        if found is not None:
            return found
        fields = BodyFields()
        if endpoint.kind is not Kind.HARMLESS:
            body = await self._body.read()
            what = (body, body_names(sessions), endpoint.api.history)
            fields = await self._services.executor(body.cost, body_fields, *what)
        return session.identify(head, fields, sessions, LOCAL)

    async def _enter(
        self, endpoint: Endpoint, found: session.Identified, watch: SessionWatch
    ) -> None:
        services, path = self._services, endpoint.path.decode("latin-1")[:200]
        # Another may have come into force while the request was on its way.
        self._policy = services.policies.current
        in_force = await services.sessions.enter(found, self._policy, path)
        if watch.watch_parents(in_force):
            in_force = await watch.read()
        model = await self._model(endpoint)
        if watch.mark.changed:
            # A large body waits in a line with others, which can take a while.
            in_force = await watch.read()
        self._log.mode, self._log.policy = in_force.label, in_force.policy.hash
        if in_force.gated:
            why = f"session {found.key.session!r} is in mode {in_force.label!r}"
            self._admission.check_gateable(endpoint, self._apis, why)
        with services.upstreams.pick(self._api, model) as upstream:
            self._admission.check_site(services.sites, upstream)
            dialect = services.dialects.of(endpoint)
            route = _Route(endpoint, found.key, upstream, watch, dialect)
            self._outcome = await self._send(route, in_force)

    async def _model(self, endpoint: Endpoint) -> str | None:
        """Return the model that the request names, if its upstream depends on that; else nothing is read."""
        if not self._services.upstreams.wants_model(self._api.name):
            return None
        named = model_of_path(self._apis, endpoint)
        if named is not None or not has_model(endpoint, self._headers):
            return named
        body = await self._body.read()
        return await self._services.executor(body.cost, model_of_body, body)

    async def _send(self, route: _Route, in_force: ModesInForce) -> str:
        """Take the path of the modes in force: gated, restored, a stored answer, or raw."""
        if route.dialect is not None and (in_force.gated or in_force.state.ever_gated):
            self._log.how = GATED if in_force.gated else RESTORED
            drive = await self._driven(route, route.dialect, gated=in_force.gated)
            return await drive.run(in_force)
        if (wanted := self._stored(route.endpoint, in_force)) is not None:
            return await self._fetched(wanted, route)
        self._raw = route.dialect
        return await self._pass(route, in_force)

    async def _pass(self, route: _Route, before: ModesInForce) -> str:
        request = UpstreamRequest(
            self._scope["method"],
            self._target(route.endpoint.path),
            lines.request_headers(self._headers),
            await self._body.to_forward(),
        )
        self._log.how = PASSED
        if route.endpoint.gated:
            self._services.metrics.ungated_steps.labels("default").inc()

        async def overtake(under_way: UnderWayAnswer, now: ModesInForce) -> str:
            self._log.mode, self._log.how = now.label, GATED
            if route.dialect is None:
                return self._cut_off(now, begun=under_way.passed is not None)
            drive = await self._driven(route, route.dialect, gated=True)
            return await drive.overtake(under_way, before, now)

        harmless = route.endpoint.kind is Kind.HARMLESS or route.endpoint.counts
        watched = None if harmless else Watched(route.watch, overtake, self._share)
        return await pass_through(route.upstream, request, self._answer, self._log, watched)

    def _cut_off(self, now: ModesInForce, *, begun: bool) -> str:
        """End an answer that the gate cannot read, as a person has set a mode."""
        if not begun:
            raise Tightened(f"a person has set mode {now.label!r} while this request was under way")
        self._services.metrics.tightened_answers.labels("cut").inc()
        return Tightened.code

    def _stored(self, endpoint: Endpoint, in_force: ModesInForce) -> StoredRequest | None:
        """Return what is asked for, if it is a stored answer that must be looked at."""
        paths, keeper = endpoint.stored_paths, self._services.dialects.keeper(endpoint)
        if paths is None or keeper is None:
            return None
        query = self._scope["query_string"]
        planned = stored_answers_get.plan(paths, endpoint.path, query, in_force)
        if not planned:
            return None
        executor = self._services.executor
        return StoredRequest(self.id, keeper, planned, in_force, self._share, executor)

    async def _fetched(self, wanted: StoredRequest, route: _Route) -> str:
        head = lines.request_headers(self._headers, content_length=False)
        head = lines.replace(head, b"accept-encoding", b"identity")
        target = self._target(wanted.planned.path)
        request = UpstreamRequest(self._scope["method"], target, head, b"")
        return await fetch(route.upstream, request, wanted, self._answer, route.watch)

    async def _driven(self, route: _Route, dialect: AnyDialect, *, gated: bool) -> Drive:
        """Begin an exchange: from here on, errors are told by it."""
        exchange = await self._exchange(route, dialect, gated=gated)
        context = DriveContext(
            services=self._services,
            key=route.key,
            target=self._target(route.endpoint.path),
            method=self._scope["method"],
            send=self._answer,
            upstream=route.upstream,
            report=self._log,
            watch=route.watch,
            share=self._share,
        )
        self._drive = Drive(exchange, context)
        return self._drive

    async def _exchange(self, route: _Route, dialect: AnyDialect, *, gated: bool) -> Exchange:
        body = await self._body.read()
        self._body.check_decoded(gated=gated)
        head = lines.request_headers(self._headers, content_length=False)
        if dialect.stored is not None and not route.upstream.stores:
            unstored = await self._services.executor(body.cost, dialect.stored.unstored, body)
            body = RequestBody(unstored)
            head = lines.replace(head, b"content-encoding", None)
        self._share.take(COPIES * len(body.decoded))
        learned = route.upstream.learned
        counts = route.endpoint.counts
        return Exchange(dialect, StepRequest(self.id, head, body, counts, learned))

    def _target(self, path: bytes) -> bytes:
        query = self._scope["query_string"]
        return path + (b"?" + query if query else b"")

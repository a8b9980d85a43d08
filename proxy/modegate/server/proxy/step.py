"""One request on its way: its session, its path through the proxy, and its answer."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, replace

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from modegate.core.endpoints import Endpoint, Kind, advice, classify
from modegate.core.errors import (
    ControlTokenSent,
    DialectName,
    EndpointNotGated,
    HostNotAllowed,
    ModegateError,
    Overloaded,
    Tightened,
    TooLarge,
    UpgradeRequired,
    error_head,
    error_json,
)
from modegate.core.identify import session
from modegate.core.identify.body import BodyFields, body_fields
from modegate.core.identify.sources import body_names
from modegate.core.ids import LOCAL
from modegate.core.policy.in_force import ModesInForce
from modegate.core.policy.routes import (
    dialect_of,
    dialect_of_path,
    has_model,
    model_of_body,
    model_of_path,
)
from modegate.core.step import stored_answers_get
from modegate.core.step.dialect import AnyDialect
from modegate.core.step.exchange import Exchange, StepRequest
from modegate.core.wire import headers as lines
from modegate.core.wire.overrides import BODILESS, override
from modegate.core.wire.request_body import RequestBody
from modegate.server.access import Access, Sites
from modegate.server.clock import Clock
from modegate.server.log.batch_writer import BatchWriter
from modegate.server.log.folds import Folds
from modegate.server.log.protocol import EventLog
from modegate.server.metrics import Metrics
from modegate.server.policies import Policies
from modegate.server.process.door import FULL
from modegate.server.proxy.approvals import Approvals
from modegate.server.proxy.client import ClientAnswer, ClientRequest
from modegate.server.proxy.drive import Drive, DriveContext
from modegate.server.proxy.fetch import Room, fetch
from modegate.server.proxy.memory import COPIES, Memory, Share
from modegate.server.proxy.passthrough import UnderWayAnswer, Watched, pass_through
from modegate.server.proxy.request_body import BodyReader, has_body
from modegate.server.proxy.sessions import Sessions
from modegate.server.proxy.step_log import GATED, PASSED, RESTORED, StepLog
from modegate.server.proxy.thinking import Thinking
from modegate.server.proxy.watchers import SessionWatch, Watchers
from modegate.server.upstream.pool import ChosenUpstream, Upstreams
from modegate.server.upstream.protocol import UpstreamRequest

_PREFIX = re.compile(rb"^/s/[^/]*")
"""Names a session."""


@dataclass(frozen=True, slots=True)
class StepServices:
    """Everything that a step can reach."""

    eventlog: EventLog
    folds: Folds
    sessions: Sessions
    batch_writer: BatchWriter
    policies: Policies
    upstreams: Upstreams
    access: Access
    """Whose tokens go to no upstream."""
    sites: Sites
    """Under which names requests are taken that get a credential of ours."""
    dialects: dict[Kind, AnyDialect]
    """The endpoints that the gate can read."""
    clock: Clock
    metrics: Metrics
    memory: Memory
    thinking: Thinking
    approvals: Approvals
    draining: asyncio.Event
    watchers: Watchers
    keepalive: float
    """Seconds of silence after which a client that waits is sent something."""


class Step:
    """One request and its answer."""

    def __init__(
        self, reach: StepServices, report: StepLog, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Take a request of which nothing was read yet."""
        self.id = report.step
        self._report = report
        self._reach = reach
        self._scope = scope
        self._tell = ClientAnswer(send, report)
        self._policy = reach.policies.current
        limits = self._policy.limits
        self._share = Share(reach.memory, limits.memory)
        self._headers = [(name.lower(), value) for name, value in scope["headers"]]
        self._client = ClientRequest(receive, report, limits.body, self._share)
        self._body = BodyReader(self._client, self._headers, limits.body, self._share)
        # Errors are told in it, also that of a path whose session has no valid name.
        self._dialect = dialect_of_path(_PREFIX.sub(b"", scope["raw_path"]), self._headers)
        self._drive: Drive | None = None
        self._raw: AnyDialect | None = None
        """What an answer that passes raw is written in."""
        self._outcome = "failed"

    async def run(self) -> str:
        """Serve the request; give how it ended."""
        if lines.is_upgrade(self._headers):
            raise UpgradeRequired("WebSocket is not offered here; use HTTP with streaming")
        if FULL in self._scope:
            raise Overloaded(
                "there are as many requests under way as this process takes; try again"
            )
        try:
            done = await self._client.during(self._serve())
        finally:
            self._share.give_back()
        # What follows the last byte may be cut short: its client is over with the answer, and away.
        over = self._drive.over if self._drive is not None else None
        return self._outcome if done else over or "gone"

    async def refuse(self, error: ModegateError) -> None:
        """Answer with an error, or break the answer off if it has begun."""
        if self._drive is not None:
            await self._drive.fail(error)
        elif not self._tell.began:
            body = error_json(error, self._dialect)
            head = {"status": error.status, "headers": error_head(error, body)}
            await self._tell({"type": "http.response.start", **head})
            await self._tell({"type": "http.response.body", "body": body, "more_body": False})
        elif self._raw is not None and self._tell.between_events:
            body = self._raw.stream_writer().error(error)
            await self._tell({"type": "http.response.body", "body": body, "more_body": False})

    async def _serve(self) -> None:
        scope = self._scope
        self._check_length()
        self._check_credential()
        endpoint = classify(scope["method"], scope["raw_path"])
        self._dialect = routed = dialect_of(endpoint, self._headers)
        self._report.endpoint = endpoint.kind
        found = await self._identify(endpoint)
        if found.derived and endpoint.kind is Kind.STORED:
            found = replace(found, previous=stored_answers_get.name_of(endpoint.path))
        found = await self._reach.sessions.follow(found)
        self._report.session = found.key.session
        if endpoint.kind is not Kind.HARMLESS:
            # Only then is the log read: what lacked a byte could else wait, and pass long after a person has
            # set a mode.
            await self._body.raw()
        sessions, policies = self._reach.sessions, self._reach.policies
        with self._reach.watchers.watch(sessions, policies, found.key) as watch:
            await self._enter(endpoint, found, routed, watch)

    async def _enter(
        self,
        endpoint: Endpoint,
        found: session.Identified,
        routed: DialectName,
        watch: SessionWatch,
    ) -> None:
        path = endpoint.path.decode("latin-1")[:200]
        # Another may have come into force while the request was on its way.
        self._policy = self._reach.policies.current
        in_force = await self._reach.sessions.enter(found, self._policy, path)
        if watch.watch_parents(in_force):
            in_force = await watch.read()
        model = await self._model(endpoint, routed)
        if watch.mark.changed:
            # A large body is read in a line with others, which can take a while.
            in_force = await watch.read()
        self._report.mode, self._report.policy = in_force.label, in_force.policy.hash
        dialect = self._reach.dialects.get(endpoint.kind)
        if in_force.gated:
            self._check_gateable(
                endpoint, f"session {found.key.session!r} is in mode {in_force.label!r}"
            )
        with self._reach.upstreams.pick(routed, model) as upstream:
            self._check_site(upstream)
            if dialect is not None and (in_force.gated or in_force.state.ever_gated):
                outside = self._outside(endpoint, found, upstream, watch)
                self._report.how = GATED if in_force.gated else RESTORED
                gated = in_force.gated
                exchange = await self._exchange(endpoint, dialect, upstream, gated=gated)
                self._drive = Drive(exchange, outside)
                self._outcome = await self._drive.run(in_force)
            elif endpoint.kind is Kind.STORED and (planned := self._plan(endpoint, in_force)):
                self._outcome = await self._fetched(planned, in_force, upstream, watch)
            else:
                self._raw = dialect
                self._outcome = await self._pass(endpoint, upstream, found, in_force, watch)

    def _check_gateable(self, endpoint: Endpoint, why: str) -> None:
        """Let nothing pass in a mode of which the gate cannot know what the upstream takes it for."""
        scope, method = self._scope, self._scope["method"]
        path = endpoint.path.decode("latin-1")[:200]
        passes = endpoint.kind in (Kind.HARMLESS, Kind.STORED)
        if not passes and endpoint.kind not in self._reach.dialects:
            raise EndpointNotGated(
                f"{why}, and modegate cannot gate {method} {path}; {advice(endpoint.path)}, or set the mode "
                "to default"
            )
        other = override(method, scope["raw_path"], scope["query_string"], self._headers)
        if other is not None:
            raise EndpointNotGated(
                f"{why}, and {other[:100]!r} says that {method} {path} is meant for something else"
            )
        if method in BODILESS and has_body(self._headers):
            raise EndpointNotGated(
                f"{why}, and {method} {path} has a body, which that method has no use for"
            )

    async def _model(self, endpoint: Endpoint, dialect: DialectName) -> str | None:
        """Return the model that the request names, if its upstream depends on that; else nothing is read."""
        if not self._reach.upstreams.wants_model(dialect):
            return None
        named = model_of_path(endpoint.path)
        if named is not None or not has_model(endpoint, self._headers):
            return named
        body = await self._body.read(self._reach.thinking)
        return await self._reach.thinking(body.cost, model_of_body, body)

    def _check_site(self, upstream: ChosenUpstream) -> None:
        """Let no page that found this proxy, by whatever name, use the credential that it adds."""
        headers = Headers(raw=self._headers)
        if upstream.adds_credential and self._reach.sites.refusal(headers) is not None:
            raise HostNotAllowed(
                "this upstream is given a credential by modegate, so that requests are only taken under "
                "a name it is known by (see MODEGATE_HOSTS), and from no other site"
            )

    def _check_credential(self) -> None:
        """Send nobody's control token upstream, whatever the path."""
        sent = self._reach.access.sent_in(self._headers, self._scope["query_string"])
        if sent is not None:
            why = f"it is a model request and carries control token {sent.name!r}"
            self._reach.access.refused(self._scope, why)
            raise ControlTokenSent(
                "this request carries a control token of modegate, which is for people alone and goes to no "
                "upstream; give the agent the key of its provider, and make a new control token, since "
                "whoever can read this one can leave every mode"
            )

    def _check_length(self) -> None:
        size = len(self._scope["raw_path"]) + len(self._scope["query_string"])
        size += sum(len(name) + len(value) for name, value in self._headers)
        if size > lines.HEAD_LIMIT:
            raise TooLarge(f"the head of the request is over {lines.HEAD_LIMIT} bytes")
        length = lines.get_one(self._headers, b"content-length")
        if length is not None and length.isdigit() and int(length) > self._policy.limits.body:
            raise TooLarge(
                f"the request body is over {self._policy.limits.body} bytes (limits.body)"
            )

    async def _identify(self, endpoint: Endpoint) -> session.Identified:
        sessions = self._policy.sessions
        head = session.Head(self._scope["method"], endpoint, self._headers)
        found = session.from_head(head, sessions, LOCAL)
        if found is not None:
            return found
        fields = BodyFields()
        if endpoint.kind is not Kind.HARMLESS:
            body = await self._body.read(self._reach.thinking)
            what = (body, body_names(sessions), endpoint.dialect)
            fields = await self._reach.thinking(body.cost, body_fields, *what)
        return session.identify(head, fields, sessions, LOCAL)

    def _target(self, endpoint: Endpoint) -> bytes:
        query = self._scope["query_string"]
        return endpoint.path + (b"?" + query if query else b"")

    async def _pass(
        self,
        endpoint: Endpoint,
        upstream: ChosenUpstream,
        found: session.Identified,
        before: ModesInForce,
        watch: SessionWatch,
    ) -> str:
        request = UpstreamRequest(
            self._scope["method"],
            self._target(endpoint),
            lines.request_headers(self._headers),
            await self._body.to_forward(),
        )
        self._report.how = PASSED
        if endpoint.gated:
            self._reach.metrics.ungated.labels("default").inc()

        async def overtake(under_way: UnderWayAnswer, now: ModesInForce) -> str:
            self._report.mode, self._report.how = now.label, GATED
            dialect = self._reach.dialects.get(endpoint.kind)
            if dialect is None:
                return self._cut_off(now, begun=under_way.passed is not None)
            outside = self._outside(endpoint, found, upstream, watch)
            exchange = await self._exchange(endpoint, dialect, upstream, gated=True)
            self._drive = Drive(exchange, outside)
            return await self._drive.overtake(under_way, before, now)

        harmless = endpoint.kind is Kind.HARMLESS or endpoint.counts
        watched = None if harmless else Watched(watch, overtake, self._share)
        return await pass_through(upstream, request, self._tell, self._report, watched)

    def _cut_off(self, now: ModesInForce, *, begun: bool) -> str:
        """End an answer that the gate cannot read, as a person has set a mode."""
        if not begun:
            raise Tightened(f"a person has set mode {now.label!r} while this request was under way")
        self._reach.metrics.tightened.labels("cut").inc()
        return Tightened.code

    def _plan(self, endpoint: Endpoint, in_force: ModesInForce) -> stored_answers_get.Fetch | None:
        return stored_answers_get.plan(endpoint.path, self._scope["query_string"], in_force)

    async def _fetched(
        self,
        planned: stored_answers_get.Fetch,
        in_force: ModesInForce,
        upstream: ChosenUpstream,
        watch: SessionWatch,
    ) -> str:
        query = self._scope["query_string"]
        head = lines.request_headers(self._headers, content_length=False)
        head = lines.replace(head, b"accept-encoding", b"identity")
        target = planned.path + (b"?" + query if query else b"")
        request = UpstreamRequest(self._scope["method"], target, head, b"")
        what = (self.id, planned, in_force)
        room = Room(self._share, self._reach.thinking)
        return await fetch(upstream, request, what, self._tell, room, watch)

    async def _exchange(
        self, endpoint: Endpoint, dialect: AnyDialect, upstream: ChosenUpstream, *, gated: bool
    ) -> Exchange:
        thinking = self._reach.thinking
        body = await self._body.read(thinking)
        self._body.check_decoded(gated=gated)
        head = lines.request_headers(self._headers, content_length=False)
        if dialect.stored is not None and not upstream.stores:
            body = RequestBody(await thinking(body.cost, dialect.stored.unstored, body))
            head = lines.replace(head, b"content-encoding", None)
        self._share.take(COPIES * len(body.decoded))
        learned = upstream.learned
        return Exchange(dialect, StepRequest(self.id, head, body, endpoint.counts, learned))

    def _outside(
        self,
        endpoint: Endpoint,
        found: session.Identified,
        upstream: ChosenUpstream,
        watch: SessionWatch,
    ) -> DriveContext:
        reach = self._reach
        return DriveContext(
            key=found.key,
            target=self._target(endpoint),
            method=self._scope["method"],
            send=self._tell,
            upstream=upstream,
            log=reach.eventlog,
            folds=reach.folds,
            batch_writer=reach.batch_writer,
            clock=reach.clock,
            metrics=reach.metrics,
            report=self._report,
            approvals=reach.approvals,
            draining=reach.draining,
            watch=watch,
            share=self._share,
            thinking=reach.thinking,
            keepalive=reach.keepalive,
        )

"""One step's life: its request goes in, effects come out, and what they brought goes in again.

    begin → [blobs] → upstream_head → upstream_data* → [state] → upstream_end → …

An exchange is a plain object: every method gives the effects to perform next, in order. It knows no
dialect by name, no clock and no store; `modegate.server.drive` performs what it asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from modegate.core import headers, transcript
from modegate.core.assemble import assemble
from modegate.core.closing import Closing
from modegate.core.dialects.base import Dialect, Refused
from modegate.core.effects import (
    Append,
    CallUpstream,
    Count,
    Effect,
    Finish,
    Headers,
    ReadBlobs,
    ReadState,
    SendBytes,
    SendHead,
    StopUpstream,
)
from modegate.core.encoding import BadEncoding, Decoder, UnknownEncoding, decoder
from modegate.core.errors import (
    AnswerUnreadable,
    BadRequest,
    ModegateError,
    UpstreamFailed,
    error_json,
)
from modegate.core.events import Event, TurnWithheld
from modegate.core.gate import Gate, Offer
from modegate.core.hop import HopAnswer, StreamedHop, WholeHop
from modegate.core.identify import lane
from modegate.core.ids import StepId
from modegate.core.standing import Standing, combine

EVENT_STREAM = b"text/event-stream"
UNLIMITED = 2**63
"""A stream may be as long as it likes: frames and held calls have their own limits."""

JSON_HEAD: Headers = [(b"content-type", b"application/json")]


@dataclass(frozen=True, slots=True)
class StepRequest:
    """What a step begins with."""

    step: StepId
    headers: Headers
    """The client's, as they may go upstream; without Content-Length."""
    body: bytes
    """As it came."""
    decoded: bytes
    """Without the client's content-encoding."""


class Exchange:
    """One step."""

    def __init__(self, dialect: Dialect, step: StepRequest) -> None:
        """Take a request that was not yet looked at."""
        self._dialect = dialect
        self._step = step
        self._writer = dialect.stream_writer()
        self._closing = Closing(dialect, step.step)
        self._relay = False
        self._head_sent = False
        self._over = False
        self._answer: HopAnswer | None = None
        self._decoder: Decoder | None = None
        self._status = 200
        self._headers: Headers = []
        self._refused: list[Refused] = []
        self._events: list[Event] = []
        self._found: dict[int, TurnWithheld] = {}

    # From here on: what happens to a step, in order.

    def begin(self, standing: Standing) -> list[Effect]:
        """Read the request; put back what was withheld, and show the model what the mode allows."""
        self._standing = standing
        try:
            self._request = self._dialect.read(self._step.decoded)
        except BadRequest as error:
            # In default mode everything passes untouched, also what nobody can read.
            return self._fail(error) if standing.gated else self._pass_on(None)
        withheld = standing.state.withheld
        if withheld:
            self._found = transcript.match(self._dialect.items(self._request), withheld)
        refs = transcript.refs(self._found)
        return [ReadBlobs(refs)] if refs else self.blobs({})

    def blobs(self, stored: Mapping[str, bytes]) -> list[Effect]:
        """Go on with the stored bodies that are still there."""
        try:
            found = transcript.complete(self._found, stored)
            body = self._dialect.restore(self._request, found) if found else None
            if not self._standing.gated:
                return self._pass_on(body)
            self._base = self._dialect.read(body) if body is not None else self._request
            self._gate = Gate(self._step.step, self._base.call_ids)
            self._closing.before = self._before()
            return self._call(self._standing)
        except ModegateError as error:
            return self._fail(error)

    def upstream_head(self, status: int, lines: Headers) -> list[Effect]:
        """Take the head of a hop's answer."""
        later = self._closing.hops > 0
        ok = 200 <= status < 300
        if not ok and later:
            return [StopUpstream(), *self._give_up()]
        if self._relay or not ok:
            self._relay = True
            return self._send_head(status, lines)
        self._status = status
        streamed = _is_stream(lines)
        if later and streamed is not isinstance(self._closing.first, StreamedHop):
            return [StopUpstream(), *self._give_up()]
        try:
            self._decoder = decoder(headers.get_one(lines, b"content-encoding") or b"", UNLIMITED)
        except UnknownEncoding as error:
            return self._fail(AnswerUnreadable(str(error)))
        limits = self._standing.policy.limits
        if streamed:
            reader = self._dialect.stream_reader()
            self._answer = StreamedHop(reader, self._writer, limits, later=later)
        else:
            self._answer = WholeHop(self._dialect, limits)
        self._closing.begin_hop(self._answer)
        self._headers = self._own_head(lines)
        return self._send_head(status, self._headers) if streamed and not later else []

    def upstream_data(self, data: bytes) -> list[Effect]:
        """Take a piece of the hop's body."""
        if self._over:
            return []
        if self._relay or self._answer is None or self._decoder is None:
            return [SendBytes(data)]
        try:
            self._answer.feed(self._decoder.feed(data))
        except (ModegateError, BadEncoding) as error:
            return self._unreadable(error)
        return self._advance()

    def upstream_end(self, error: UpstreamFailed | None = None) -> list[Effect]:
        """Take the end of the hop's body, or its breaking off, or that there is no answer at all."""
        if self._over:
            return []
        if error is not None:
            return self._cut(error)
        if self._relay or self._answer is None or self._decoder is None:
            return self._finish("relayed")
        try:
            self._decoder.finish()
        except BadEncoding as failure:
            return self._unreadable(failure)
        self._answer.end()
        return self._advance()

    def state(self, now: Standing) -> list[Effect]:
        """Judge the calls that wait, by what the session stands under now."""
        if self._answer is None:
            raise AssertionError("no call waits")
        events, refused = self._gate.judge(self._answer.to_judge(), self._offer, now)
        self._events += events
        self._refused += refused
        self._now = now
        return self._advance()

    def failed(self, error: ModegateError) -> list[Effect]:
        """Take that something the step needs is not there: the log, a mode, our own sanity."""
        return [] if self._over else self._fail(error)

    # From here on: what these have in common.

    def _before(self) -> str:
        items = self._dialect.items(self._request)
        return items[-1].key if items else ""

    def _pass_on(self, body: bytes | None) -> list[Effect]:
        self._relay = True
        lines = self._step.headers
        if body is not None:
            lines = headers.replace(lines, b"content-encoding", None)
        return [CallUpstream(lines, self._step.body if body is None else body)]

    def _call(self, standing: Standing) -> list[Effect]:
        """Assemble a hop under what the step stands under and send it."""
        self._standing = standing
        name = lane(
            self._dialect.name,
            self._request.declares_tools,
            self._request.first_user_text,
            self._step.headers,
        )
        assembled, event = assemble(self._dialect, self._base, name, standing)
        self._offer = Offer(standing, assembled.tools, self._request.declared)
        self._now = standing
        lines = headers.replace(self._step.headers, b"content-encoding", None)
        # The gate reads the answer, so it asks for one that is not compressed.
        lines = headers.replace(lines, b"accept-encoding", b"identity")
        log: list[Effect] = [Append((event,))] if event is not None else []
        return [*log, CallUpstream(lines, assembled.body)]

    def _own_head(self, lines: Headers) -> Headers:
        lines = headers.replace(lines, b"content-length", None)
        lines = headers.replace(lines, b"content-encoding", None)
        return headers.replace(lines, b"x-modegate-mode", self._standing.label.encode())

    def _send_head(self, status: int, lines: Headers) -> list[Effect]:
        self._head_sent = True
        return [SendHead(status, lines)]

    def _advance(self) -> list[Effect]:
        if self._answer is None:
            raise AssertionError("no answer is under way")
        out = self._answer.advance()
        effects: list[Effect] = [SendBytes(out)] if out else []
        if self._answer.failure is not None:
            return [*effects, *self._unreadable(self._answer.failure)]
        if self._answer.to_judge():
            return [*effects, ReadState()]
        if self._answer.complete:
            return [*effects, *self._complete()]
        if self._answer.cut:
            return [*effects, *self._stopped()]
        return effects

    def _complete(self) -> list[Effect]:
        limit = self._standing.policy.limits.hops
        if self._closing.may_hop(self._refused, limit):
            return [StopUpstream(), Count("hop"), *self._next_hop()]
        return self._end()

    def _next_hop(self) -> list[Effect]:
        choice = self._closing.end_hop(self._refused)
        body = self._dialect.extend(self._base.body, self._base, choice, self._refused)
        self._base = self._dialect.read(body)
        if self._answer is not None:
            self._writer.next_hop(self._answer.usage)
        self._refused = []
        log = self._log(durable=True)
        # Tightened in between, the next hop is tighter too; loosened, it stays as it was (L8).
        return [*log, *self._call(combine(self._standing, self._now))]

    def _log(self, *, durable: bool) -> list[Effect]:
        events, self._events = tuple(self._events), []
        return [Append(events, durable=durable)] if events else []

    def _end(self) -> list[Effect]:
        """End the client's answer as the last hop left it."""
        end = self._closing.end(self._refused, self._writer)
        self._events += end.events
        effects: list[Effect] = [end.store] if end.store else []
        effects += self._log(durable=bool(end.events))
        if not self._head_sent:
            length = (b"content-length", str(len(end.body)).encode())
            effects += self._send_head(self._status, [*self._headers, length])
        return [*effects, SendBytes(end.body), StopUpstream(), *self._finish("answered")]

    def _give_up(self) -> list[Effect]:
        """End an answer of which a later hop failed: text is out, so an error would be sent again."""
        end = self._closing.give_up(self._writer)
        self._events += end.events
        effects: list[Effect] = [Count("later_hop_failed")]
        effects += [end.store] if end.store else []
        effects += self._log(durable=True)
        if not self._head_sent:
            length = (b"content-length", str(len(end.body)).encode())
            effects += self._send_head(self._status, [*self._headers, length])
        return [*effects, SendBytes(end.body), *self._finish("later_hop_failed")]

    def _cut(self, error: UpstreamFailed) -> list[Effect]:
        if self._relay and self._head_sent:
            return [Count("cut"), *self._finish("cut", broken=True)]
        if self._closing.hops and not self._closing.released_any():
            return self._give_up()
        return [Count("cut"), *self._fail(error)]

    def _stopped(self) -> list[Effect]:
        """End where the upstream stopped without saying so: held calls go nowhere, no end is invented."""
        if self._closing.hops and not self._closing.released_any():
            return self._give_up()
        return [Count("cut"), *self._finish("cut")]

    def _unreadable(self, error: Exception) -> list[Effect]:
        known = error if isinstance(error, ModegateError) else AnswerUnreadable(str(error))
        return [Count("unreadable"), *self._fail(known)]

    def _fail(self, error: ModegateError) -> list[Effect]:
        """Refuse in the client's own format; nothing that is held goes out."""
        log = self._log(durable=False)
        if self._head_sent:
            body = self._writer.error(error)
            return [*log, SendBytes(body), StopUpstream(), *self._finish(error.code)]
        body = error_json(error, self._dialect.name)
        lines = [*JSON_HEAD, (b"content-length", str(len(body)).encode())]
        if error.retry_after is not None:
            lines.append((b"retry-after", str(error.retry_after).encode()))
        head = self._send_head(error.status, lines)
        return [*log, *head, SendBytes(body), StopUpstream(), *self._finish(error.code)]

    def _finish(self, outcome: str, *, broken: bool = False) -> list[Effect]:
        self._over = True
        return [Finish(outcome, broken=broken)]


def _is_stream(lines: Headers) -> bool:
    kind = headers.get_one(lines, b"content-type") or b""
    return kind.split(b";")[0].strip().lower() == EVENT_STREAM

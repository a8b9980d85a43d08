"""One step's life: its request goes in, effects come out, and what they brought goes in again.

    begin → [blobs] → upstream_head → upstream_data* → [state] → upstream_end → …

An exchange is a plain object: every method gives the effects to perform next, in order. It knows no
dialect by name, no clock and no store; `modegate.server.proxy.drive` performs what it asks for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace

from modegate.core.errors import (
    AnswerUnreadable,
    ModegateError,
    UpstreamFailed,
)
from modegate.core.log.approvals import Approval, Status
from modegate.core.policy.in_force import ModesInForce, combine
from modegate.core.policy.model import EXIT_TOOL
from modegate.core.step import exit_tool, texts
from modegate.core.step.answer.gate import Ask, Gate
from modegate.core.step.answer.hop import HopAnswer, StreamedHop
from modegate.core.step.answer.hop_whole import WholeHop
from modegate.core.step.answer.parts import Refused
from modegate.core.step.answer.passed_bytes import Passed
from modegate.core.step.answer.rejection import Rejection
from modegate.core.step.answer.stream_detection import (
    Unlabelled,
    is_plain_stream,
    is_stream,
    unlabelled,
)
from modegate.core.step.dialect import AnyDialect
from modegate.core.step.effects import (
    AskPerson,
    Count,
    Counted,
    Effect,
    Headers,
    ReadBlobs,
    ReadState,
    SendBytes,
    StopUpstream,
)
from modegate.core.step.ending import Ending
from modegate.core.step.request.hop_requests import HopRequests, StepRequest
from modegate.core.step.request.retry import Mending
from modegate.core.step.text_calls.gate import TextGate
from modegate.core.wire import headers
from modegate.core.wire.content_encoding import (
    MAX_DECODED,
    BadEncoding,
    Decoder,
    UnknownEncoding,
    decoder,
)

__all__ = ["Exchange", "StepRequest"]


class Exchange(Ending):
    """One step."""

    def __init__(self, dialect: AnyDialect, step: StepRequest) -> None:
        """Take a request that was not yet looked at."""
        super().__init__(dialect, step.step)
        self._step, self._counts = step, step.counts
        self._cost = step.body.cost
        self._asking = HopRequests(dialect, step)
        self._passed = Passed()
        """What the client has got of an answer that is relayed."""
        self._decoder: Decoder | None = None
        self._coded = False
        """The answer under way is compressed."""
        self._mending = Mending(dialect, self._asking)
        self._unlabelled: Unlabelled | None = None
        """An answer of which it is not known yet whether it is a stream."""
        self._asks: deque[Ask] = deque()
        self._asked = 0
        self._left = False
        """A person has approved that this step leaves the mode."""
        self._tails: dict[tuple[int, str], str] = {}
        """By choice and voice, the end of a hop's text: in it a call could begin that the next hop ends."""
        self._refused: list[Refused] = []

    # From here on: what happens to a step, in order.

    def begin(self, in_force: ModesInForce) -> list[Effect]:
        """Read the request; put back what was withheld, and show the model what the mode allows."""
        self._standing = self._now = in_force
        try:
            refs = self._asking.read(in_force)
        except ModegateError as error:
            return self._fail(error)
        return [ReadBlobs(refs)] if refs else self.blobs({})

    def blobs(self, stored: Mapping[str, bytes]) -> list[Effect]:
        """Go on with the stored bodies that are still there."""
        try:
            self._asking.restore(stored)
            self._default = not self._standing.gated
            may_call_stale_exit = self._default and self._asking.may_call_stale_exit(self._standing)
            self._relay = self._counts or (self._default and not may_call_stale_exit)
            if self._counts:
                return self._mending.sending(lambda: self._asking.counted(self._standing))
            if self._relay:
                return self._mending.sending(lambda: self._asking.untouched(self._standing))
            self._ready()
            told: list[Effect] = [] if self._asking.declares_tools else [Count(Counted.NO_TOOLS)]
            told += self._asking.moved_on(self._standing) + self._asking.came_back(self._standing)
            return [*told, *self._call(self._standing)]
        except ModegateError as error:
            return self._fail(error)

    def overtake(
        self,
        before: ModesInForce,
        now: ModesInForce,
        status: int,
        lines: Headers,
        passed: Passed | None,
    ) -> list[Effect]:
        """Take over a step that passed raw, as it began in the default mode: a person has set a mode (L8).

        Of its answer there is the head by now; the client has that and what has passed, or nothing (None).
        """
        self._standing, self._now = before, now
        try:
            self._asking.read(now)
            self._asking.restore({})
            self._read_on(now)
        except ModegateError as error:
            if passed is None:
                return self._fail(error)
            self._head_sent = self._relay = True
            return self._cut_off()
        return (
            self.upstream_head(status, lines)
            if passed is None
            else self._resume(status, lines, passed)
        )

    def _resume(self, status: int, lines: Headers, passed: Passed) -> list[Effect]:
        """Read an answer from here on of which the client has the head, and what has passed."""
        self._head_sent, self._streams = True, is_plain_stream(lines)
        if self._over or not (self._streams and 200 <= status < 300) or passed.pieces is None:
            return self._cut_off()
        self._decoder = decoder(b"", MAX_DECODED, each=True)
        reader, limits = self._dialect.stream_reader(strictly=False), self._now.policy.limits
        texts = self._texts(limits.held)
        hop = StreamedHop(reader, self._writer, limits, later=False, texts=texts)
        self._in_front(hop, limits.held)
        try:
            whole, begun = hop.overtake(passed.pieces)
        except ModegateError:
            return self._cut_off()
        self._answer = hop
        self._closing.begin_hop(hop)
        if hop.over:
            return self._advance()
        judged = self._gate.judge(whole, self._offer, self._now)
        if begun or judged.refused or judged.asks:
            return self._cut_off()
        self._events += judged.events
        return [Count(Counted.READ_ON), *self._advance()]

    def tightened(self, now: ModesInForce) -> list[Effect]:
        """Take that a person has set a mode: what passed unread until now is read from here on."""
        if self._over or not self.passes_unread:
            return []
        if self._complaint is not None:
            # It is not asked again, as what forbids it now was not in force.
            self._now, self._relay, self._default = now, False, False
            return []
        if self._texts_pass and not self._asking.holds_texts(now):
            return []
        if self._relay and self._asking.readable:
            self._read_on(now)
            return (
                self._resume(self._status, self._headers, self._passed) if self._head_sent else []
            )
        self._now = now
        return self._cut_off()

    def upstream_head(self, status: int, lines: Headers) -> list[Effect]:
        """Take the head of a hop's answer."""
        streams = self._asking.streams and not self._relay
        self._unlabelled = unlabelled(status, lines) if streams else None
        return self._known_head(status, lines) if self._unlabelled is None else []

    def _known_head(self, status: int, lines: Headers) -> list[Effect]:
        later = self._closing.hops > 0
        streamed = is_stream(lines)
        ok = 200 <= status < 300
        may_mend = self._mending.may_mend(status)
        fits = ok and streamed is isinstance(self._closing.first, StreamedHop)
        if later and not (fits or may_mend):
            return self._give_up()
        if (400 <= status < 600 or self._counts) and (self._checks or may_mend):
            self._complaint = Rejection(status, lines)
            return []
        known = ok and not self._counts
        told = [*self._mending.settled(), *self._asking.taken()] if known else []
        return [*told, *self._head(status, lines, streamed=streamed)]

    def _head(self, status: int, lines: Headers, *, streamed: bool) -> list[Effect]:
        later, ok = self._closing.hops > 0, 200 <= status < 300
        coding = headers.get_one(lines, b"content-encoding") or b""
        if self._relay or (self._lenient and (not ok or coding)):
            self._relay = True
            self._status, self._headers = status, lines
            return self._send_head(status, lines)
        if not ok:
            # A client that follows a redirect would get an answer that nobody gates; one that knows no
            # errors over 599, as Python's `requests`, would take the body for an answer.
            reason = f"the upstream answers {status}, which is neither an answer nor an error"
            return self._fail(AnswerUnreadable(reason))
        limits = self._standing.policy.limits
        try:
            most = MAX_DECODED if streamed else limits.body
            self._decoder = decoder(coding, most, each=streamed)
            self._coded = coding not in (b"", b"identity")
        except UnknownEncoding as error:
            return self._unreadable(error)
        if streamed:
            reader = self._dialect.stream_reader(strictly=later)
            self._answer = hop = StreamedHop(
                reader,
                self._writer,
                limits,
                later=later,
                lenient=self._lenient,
                texts=self._texts(limits.held),
            )
            if not self._lenient:
                self._in_front(hop, limits.held)
        else:
            texts = self._texts(limits.body)
            self._answer = whole = WholeHop(
                self._dialect, limits, lenient=self._lenient, texts=texts
            )
            if not self._lenient:
                ids = self._asking.ids(self._closing.hops)
                straight = self._dialect.straight_whole
                whole.straight = lambda body: straight(body, ids)
        self._closing.begin_hop(self._answer)
        self._status, self._headers = status, self._own_head(lines)
        return self._send_head(status, self._headers) if streamed and not later else []

    def _texts(self, limit: int) -> TextGate | None:
        """Return what holds back calls in plain text, where text is more than text."""
        rules = self._offer.texts
        return TextGate(self._dialect, rules, self._tails, limit) if rules is not None else None

    def _in_front(self, hop: StreamedHop, limit: int) -> None:
        """Bring a loose server's stream into the form that every client reads alike."""
        hop.straight = self._dialect.straightener(limit, self._asking.ids(self._closing.hops))

    def upstream_data(self, data: bytes) -> list[Effect]:
        """Take a piece of the hop's body."""
        if self._over:
            return []
        if self._unlabelled is not None:
            known = self._unlabelled.take(data)
            return self._labelled(self._unlabelled) if known else []
        if self._complaint is not None:
            return (
                [] if self._complaint.take(data) else self._complained(self._complaint, ended=False)
            )
        if self._relay:
            self._passed.add(data)
            return [SendBytes(data)]
        if self._answer is None or self._decoder is None:
            raise AssertionError("no answer is under way")
        try:
            self._answer.feed(self._decoder.feed(data))
        except (ModegateError, BadEncoding) as error:
            return self._unreadable(error)
        return self._advance()

    def _labelled(self, known: Unlabelled) -> list[Effect]:
        """Go on with an answer of which it is known now what it is."""
        self._unlabelled = None
        head = self._known_head(known.status, known.head())
        return [*head, *self.upstream_data(bytes(known.body))]

    def upstream_end(self, error: UpstreamFailed | None = None) -> list[Effect]:
        """Take the end of the hop's body, or its breaking off, or that there is no answer at all."""
        if self._over:
            return []
        if self._unlabelled is not None:
            return [*self._labelled(self._unlabelled), *self.upstream_end(error)]
        if error is not None:
            return self._cut(error)
        if self._complaint is not None:
            if self._mending.may_mend(self._complaint.status):
                return [ReadState()]
            return self._complained(self._complaint, ended=True)
        if self._relay:
            return self._finish("relayed")
        if self._answer is None or self._decoder is None:
            raise AssertionError("no answer is under way")
        try:
            self._decoder.finish()
        except BadEncoding as failure:
            return self._unreadable(failure)
        self._answer.end()
        return self._advance()

    def state(self, now: ModesInForce) -> list[Effect]:
        """Judge the calls that wait, or ask again what was refused, by what the session stands under now."""
        if self._complaint is not None:
            return self._again(self._complaint, now)
        if self._answer is None:
            raise AssertionError("no call waits")
        if self._answer.doubt is not None:
            return self._doubted(self._answer, self._answer.doubt, now)
        choices = self._answer.choices
        cut = {index for index, one in choices.items() if not self._dialect.may_go_on(one.finish)}
        ended = {index for index, one in choices.items() if one.finish}
        calls = self._answer.to_judge()
        judged = self._gate.judge(calls, self._offer, now, cut=cut, ended=ended)
        self._events += judged.events
        self._refused += judged.refused
        self._asks.extend(judged.asks)
        self._now = now
        return self._ask()

    def approval(self, approval: Approval, now: ModesInForce) -> list[Effect]:
        """Take what came of the question to a person, and what the session stands under by then."""
        ask = self._asks.popleft()
        self._now = now
        self._closing.keep_to_itself()
        answer, note = texts.decided(approval, now.state.mode)
        # Silence is no answer: a model that goes on submitting to nobody runs into the limit of hops.
        person = approval.status is Status.ANSWERED
        if not approval.approved:
            self._refuse(ask, answer, note, person=person)
        elif ask.native and not ask.call.ambiguous:
            # The agent's own tool runs now: it leaves the agent's own plan mode, as ours was left.
            ask.call.released = ask.call.weighed = True
        elif ask.leave is not None:
            self._left = True
            self._refuse(ask, answer, note, person=person)
            self._refused[-1] = replace(self._refused[-1], approved=True)
        elif not self._gate.release(ask, now):
            self._refuse(ask, texts.allowed_no_more(), person=person)
        return self._ask()

    @property
    def passes_unread(self) -> bool:
        """Whether the answer, or a part of it, is not read, since no mode that wants it was in force."""
        if self._complaint is not None:
            return not (self._standing.gated or self._now.gated)
        if self._relay:
            return not self._counts
        return self._texts_pass or self._rest_passes

    @property
    def _rest_passes(self) -> bool:
        return isinstance(self._answer, StreamedHop) and self._answer.passes_unread

    @property
    def _texts_pass(self) -> bool:
        """Whether only its text is not read, though some mode would hold back calls in it."""
        if self._relay or self._rest_passes or self._answer is None:
            return False
        return self._offer.texts is None and self._asking.may_hold_texts(self._now)

    @property
    def holding(self) -> bool:
        """Whether some call of the answer under way is held back."""
        return isinstance(self._answer, StreamedHop) and self._answer.holding

    def knows(self, tool: str) -> bool:
        """Return whether its agent has this tool, or modegate may have added it."""
        return tool == EXIT_TOOL or tool in self._asking.declared

    @property
    def size(self) -> int:
        """What it may read to decide, in bytes: its request, and what is kept of the answer."""
        complaint = len(self._complaint.body) if self._complaint is not None else 0
        return self._cost + self.kept + self._passed.size + complaint

    @property
    def unread(self) -> int:
        """Bytes that it may read with the next piece of the answer, beside that piece.

        That is an event which has not ended yet, all that a compressed piece may stand for, or the request,
        where another hop may follow.
        """
        if self._answer is None:
            return 0
        waiting = self._cost if self._refused else 0
        return waiting + self._answer.unread + (MAX_DECODED if self._coded else 0)

    @property
    def kept(self) -> int:
        """Bytes that are kept of the answer under way: what waits for its end, and what is held back."""
        return 0 if self._answer is None else self._answer.kept

    def let_go(self) -> None:
        """Leave nothing in memory that waits for the collector: the step is over, however it ended."""
        self._mending.let_go()

    # From here on: what these have in common.

    def _ask(self) -> list[Effect]:
        """Ask a person about the next call that waits for one, but not about leaving what was left."""
        changed = self._now.forces != self._standing.forces
        while self._asks and self._asks[0].leave is not None and changed:
            self._refuse(self._asks.popleft(), *texts.not_asked(), person=False)
        if not self._asks:
            return self._advance()
        ask = self._asks[0]
        self._asked += 1
        place = (self._step.step, self._asking.lane, self._asked)
        end, native = self._asking.end, ask.native
        asked = exit_tool.question(ask.call, ask.leave, place, end, native=native)
        streamed = isinstance(self._answer, StreamedHop)
        if streamed and self._answer is not None and asked.purpose == "exit" and not native:
            calls = (call for one in self._answer.choices.values() for call in one.calls)
            if all(call.released is False or call is ask.call for call in calls):
                self._closing.may_say(ask.call.choice, texts.WAITS)
        return [*self._log(durable=False), AskPerson(asked, self._now.state.mode_seq, streamed)]

    def _refuse(self, ask: Ask, answer: str, note: str = "", *, person: bool) -> None:
        one = self._gate.refuse(ask.call, answer, ask.force, person=person, note=note)
        self._refused.append(one)

    def _ready(self) -> None:
        """Be ready to read an answer."""
        self._gate = Gate(self._step.step, self._asking.call_ids)
        self._closing.place, self._closing.model = self._asking.place, self._asking.model
        self._closing.naming.kept = self._asking.kept
        self._closing.naming.lane = self._asking.lane_with_tools

    def _read_on(self, now: ModesInForce) -> None:
        """Read what nobody wanted to read when it was asked for."""
        self._ready()
        self._offer = self._asking.unfiltered(self._standing, now)
        self._now, self._relay, self._default = now, False, False

    def _call(self, in_force: ModesInForce) -> list[Effect]:
        """Assemble a hop under what the step stands under and send it."""
        self._standing = in_force
        self._default = self._default and not in_force.gated
        asking = self._asking
        make = asking.as_it_came if self._default else asking.assembled

        def made() -> list[Effect]:
            self._offer, effects = make(in_force)
            return effects

        return self._mending.sending(made)

    def _again(self, complaint: Rejection, now: ModesInForce) -> list[Effect]:
        """Ask again what was refused, unless a mode was set since: it would offer what that forbids."""
        if any(force not in self._standing.forces for force in (*self._now.forces, *now.forces)):
            self._now, self._relay, self._default = now, False, False
        elif (call := self._mending.mended(complaint)) is not None:
            self._complaint = None
            return [Count(Counted.RESENT), call]
        return self._complained(complaint, ended=True)

    def _advance(self) -> list[Effect]:
        if self._answer is None:
            raise AssertionError("no answer is under way")
        out = self._answer.advance()
        effects: list[Effect] = [SendBytes(out)] if out else []
        if isinstance(self._answer, StreamedHop) and self._answer.over:
            return [*effects, StopUpstream(), *self._finish("passed")]
        if self._answer.failure is not None:
            return [*effects, *self._unreadable(self._answer.failure)]
        if self._answer.doubt is not None or self._answer.to_judge():
            # Out goes what is ready; the calls wait for what the session stands under now.
            return [*effects, ReadState()]
        if self._answer.failed:
            return [*effects, *self._upstream_error()]
        if self._answer.complete:
            return [*effects, *self._complete()]
        if self._answer.cut:
            return [*effects, *self._stopped()]
        return effects

    def _doubted(self, answer: HopAnswer, doubt: ModegateError, now: ModesInForce) -> list[Effect]:
        """Pass what nobody can read, unless a person has set a mode since the step began (L8)."""
        if now.gated:
            return self._unreadable(doubt)
        answer.give_in()
        return self._advance()

    def _complete(self) -> list[Effect]:
        if self._closing.choices_changed():
            return self._give_up()
        limit = self._standing.policy.limits.hops
        if self._closing.may_hop(self._refused, limit):
            return [StopUpstream(), *self._next_hop()]
        return self._ended("answered", self._closing.end(self._refused, self._writer))

    def _next_hop(self) -> list[Effect]:
        self._asking.extend(self._closing.end_hop(self._refused), self._refused)
        if self._answer is not None:
            self._writer.next_hop(self._answer.usage)
        self._refused = []
        log = self._log(durable=True)
        # Tightened in between, the next hop is tighter too; loosened, it stays as it was, but for this
        # step's own approved exit (L8).
        left, self._left = self._left, False
        next_ = self._now if left else combine(self._standing, self._now)
        return [*log, *self._call(next_)]

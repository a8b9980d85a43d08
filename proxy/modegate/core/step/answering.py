"""A step while it is answered: from a hop's head to the next hop, or to the end."""

from __future__ import annotations

from typing import assert_never

from modegate.core.errors import AnswerUnreadable, UpstreamFailed
from modegate.core.log.approvals import Approval
from modegate.core.policy.in_force import ModesInForce, combine
from modegate.core.step import texts
from modegate.core.step.answer.answer import (
    Answer,
    Doubtful,
    Labelled,
    ReadAnswer,
    Refusal,
    Shown,
    Stage,
    Unreadable,
)
from modegate.core.step.answer.opening import Readers
from modegate.core.step.answer.rejection import Rejection
from modegate.core.step.answer.relayed import Rejected, Relayed
from modegate.core.step.answer.stream_detection import is_stream, unlabelled
from modegate.core.step.dialect import AnyDialect
from modegate.core.step.effects import (
    AskPerson,
    Count,
    Counted,
    Effect,
    Finish,
    Headers,
    ReadState,
    SendBytes,
    SendHead,
    StopUpstream,
)
from modegate.core.step.ending import Ending
from modegate.core.step.phase import Treatment, takes
from modegate.core.step.request.hop_requests import HopRequests, StepRequest
from modegate.core.step.request.retry import Retry
from modegate.core.step.verdicts import Verdicts
from modegate.core.wire import headers
from modegate.core.wire.content_encoding import UnknownEncoding


class Answering(Ending):
    """What an exchange does with the answers of its hops."""

    _verdicts: Verdicts

    def __init__(self, dialect: AnyDialect, step: StepRequest) -> None:
        super().__init__(dialect, step)
        self._requests = HopRequests(dialect, step)
        self._retry = Retry(dialect, self._requests)
        self._readers = Readers(dialect, self._writer, self._requests.ids)

    @takes
    def upstream_head(self, status: int, lines: Headers) -> list[Effect]:
        return self._headed(status, lines)

    def _headed(self, status: int, lines: Headers) -> list[Effect]:
        reads = self._treatment is not Treatment.RELAY and not self._step.counts
        unknown = unlabelled(status, lines) if reads and self._requests.streams else None
        if unknown is None:
            return self._known_head(status, lines)
        self._answer = unknown
        return []

    def _known_head(self, status: int, lines: Headers) -> list[Effect]:
        ok, streamed = 200 <= status < 300, is_stream(lines) and self._dialect.streams
        may_retry = self._retry.may_retry(status)
        fits = ok and streamed is self._closing.streams
        if self._closing.hops and not (fits or may_retry):
            return self._give_up()
        if (400 <= status < 600 or self._step.counts) and (not self._tolerates or may_retry):
            self._answer = Rejected(Rejection(status, lines), may_retry=may_retry)
            return []
        known = ok and not self._step.counts
        told = [*self._retry.settled(), *self._requests.taken()] if known else []
        return [*told, *self._answered(status, lines, streamed=streamed)]

    def _answered(self, status: int, lines: Headers, *, streamed: bool) -> list[Effect]:
        """Begin to read an answer, or to pass it on."""
        ok, coding = 200 <= status < 300, headers.get_one(lines, b"content-encoding") or b""
        relayed = self._treatment is Treatment.RELAY or self._step.counts
        if relayed or (self._tolerates and (not ok or coding)):
            self._answer = Relayed(status, lines)
            return [SendHead(status, lines)]
        if not ok:
            # A client that follows a redirect would get an answer that nobody gates; one that knows no
            # errors over 599, as Python's `requests`, would take the body for an answer.
            reason = f"the upstream answers {status}, which is neither an answer nor an error"
            return self._fail(AnswerUnreadable(reason), head_sent=self._begun)
        hop, limits = self._closing.hops, self._standing.policy.limits
        offer, readers = self._verdicts.offer, self._readers
        try:
            answer = (
                readers.tolerant(limits, streamed=streamed)
                if self._tolerates
                else readers.strict(offer, limits, hop, coding, streamed=streamed)
            )
        except UnknownEncoding as error:
            return self._unreadable(error)
        self._under_way(answer)
        self._head = status, self._own_head(lines)
        return [SendHead(*self._head)] if streamed and not hop else []

    @takes
    def upstream_data(self, data: bytes) -> list[Effect]:
        self._answer.feed(data)
        return self._advance()

    @takes
    def upstream_end(self, error: UpstreamFailed | None = None) -> list[Effect]:
        """Take the end of the hop's body, or its breaking off, or that there is no answer at all."""
        known = self._answer.label()
        before = [] if known is None else self._labelled(known)
        if before and isinstance(before[-1], Finish):
            return before
        if error is not None:
            return [*before, *self._cut(error)]
        self._answer.end()
        return [*before, *self._advance()]

    @takes
    def state(self, now: ModesInForce) -> list[Effect]:
        """Judge the calls that wait, or ask again what was refused, by what the session stands under now."""
        match self._answer.outcome:
            case Refusal(rejection):
                return self._again(rejection, now)
            case Doubtful(error) if now.gated:
                return self._unreadable(error)
            case Doubtful():
                self._answer.pass_unread()
                return self._advance()
            case _:
                pass
        self._events += self._verdicts.judge(self._answer, now)
        self._now = now
        return self._ask()

    @takes
    def approval(self, approval: Approval, now: ModesInForce) -> list[Effect]:
        """Take what came of the question to a person, and what the session stands under by then."""
        self._now = now
        self._closing.keep_to_itself()
        self._verdicts.answered(approval, now)
        return self._ask()

    def _under_way(self, answer: ReadAnswer) -> None:
        self._answer = answer
        self._closing.begin_hop(answer)

    def _labelled(self, known: Labelled) -> list[Effect]:
        """Go on with an answer of which it is known now what it is."""
        head = self._known_head(known.status, known.lines)
        if head and isinstance(head[-1], Finish):
            return head
        self._answer.feed(known.body)
        return [*head, *self._advance()]

    def _ask(self) -> list[Effect]:
        """Ask a person about the next call that waits for one."""
        ask = self._verdicts.question(self._now, self._standing)
        if ask is None:
            return self._advance()
        asked, streamed = self._verdicts.asked(ask), self._answer.streams
        if streamed and asked.purpose == "exit" and not ask.native:
            calls = (call for one in self._answer.choices.values() for call in one.calls)
            if all(call.withheld or call is ask.call for call in calls):
                self._closing.may_say(ask.call.choice, texts.PLAN_WAITS)
        return [*self._log(durable=False), AskPerson(asked, self._now.state.mode_seq, streamed)]

    def _call(self, in_force: ModesInForce) -> list[Effect]:
        """Assemble a hop under what the step stands under and send it."""
        self._standing = in_force
        self._answer = Answer()
        if in_force.gated:
            self._treatment = Treatment.GATE
        watches = self._treatment is Treatment.WATCH
        make = self._requests.as_it_came if watches else self._requests.assembled

        def made() -> list[Effect]:
            self._verdicts.offer, effects = make(in_force)
            return effects

        return self._retry.sending(made)

    def _again(self, refusal: Rejection, now: ModesInForce) -> list[Effect]:
        """Ask again what was refused, unless a mode was set since: it would offer what that forbids."""
        if any(force not in self._standing.modes for force in (*self._now.modes, *now.modes)):
            self._now, self._treatment = now, Treatment.GATE
        elif (call := self._retry.resent(refusal)) is not None:
            self._answer = Answer()
            return [Count(Counted.RESENT), call]
        return self._show(Shown(refusal, ended=True))

    def _advance(self) -> list[Effect]:
        """Send what may go by now, and follow what comes of the answer."""
        out = self._answer.advance()
        effects: list[Effect] = [SendBytes(out)] if out else []
        return [*effects, *self._follow()]

    def _follow(self) -> list[Effect]:
        match outcome := self._answer.outcome:
            case Stage():
                return self._at(outcome)
            case Refusal() | Doubtful():
                return [ReadState()]
            case Unreadable(error):
                return self._unreadable(error)
            case Labelled():
                return self._labelled(outcome)
            case Shown():
                return self._show(outcome)
            case _:
                assert_never(outcome)

    def _at(self, stage: Stage) -> list[Effect]:
        match stage:
            case Stage.MORE:
                return []
            case Stage.JUDGE:
                # What is ready is out; the calls wait for what the session stands under now.
                return [ReadState()]
            case Stage.FAILED:
                return self._upstream_error()
            case Stage.COMPLETE:
                return self._complete()
            case Stage.CUT:
                return self._stopped()
            case Stage.RELAYED:
                return [Finish("relayed")]
            case Stage.ENDED:
                return [StopUpstream(), Finish("passed")]
            case _:
                assert_never(stage)

    def _complete(self) -> list[Effect]:
        if self._closing.choices_changed():
            return self._give_up()
        limit = self._standing.policy.limits.hops
        if self._closing.may_hop(self._verdicts.refused, limit):
            return [StopUpstream(), *self._next_hop()]
        return self._ended("answered", self._closing.end(self._verdicts.refused))

    def _next_hop(self) -> list[Effect]:
        verdicts = self._verdicts
        self._requests.extend(self._closing.end_hop(verdicts.refused), verdicts.refused)
        self._writer.next_hop(self._answer.usage)
        log = self._log(durable=True)
        # Tightened in between, the next hop is tighter too; loosened, it stays as it was, but for this
        # step's own approved exit (L8).
        next_ = self._now if verdicts.left else combine(self._standing, self._now)
        verdicts.refused, verdicts.left = [], False
        return [*log, *self._call(next_)]

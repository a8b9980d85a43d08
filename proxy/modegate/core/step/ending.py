"""How a step ends: as its answer does, cut off, broken off, given up or refused; and what went before."""

from __future__ import annotations

from modegate.core.errors import (
    AnswerUnreadable,
    ModegateError,
    Tightened,
    UpstreamFailed,
    bare,
    error_head,
    error_json,
)
from modegate.core.log.events import Event
from modegate.core.policy.in_force import ModesInForce
from modegate.core.step.answer.answer import Answer, Shown, unreadable
from modegate.core.step.answer.relayed import Relayed
from modegate.core.step.answer_end import Closing, End
from modegate.core.step.dialect import AnyDialect
from modegate.core.step.effects import (
    Append,
    Count,
    Counted,
    Effect,
    Finish,
    Headers,
    SendBytes,
    SendHead,
    StopUpstream,
)
from modegate.core.step.phase import Phase, Treatment, takes
from modegate.core.step.request.hop_requests import StepRequest
from modegate.core.wire import headers


class Ending:
    """What an exchange knows of the answer that its client has, and each way to end it."""

    _standing: ModesInForce
    """What the hop under way was assembled under."""
    _now: ModesInForce
    """What the session stood under when that was last read."""

    def __init__(self, dialect: AnyDialect, step: StepRequest) -> None:
        self.phase = Phase.OPENING
        self._dialect = dialect
        self._step = step
        self._writer = dialect.stream_writer()
        self._closing = Closing(dialect, step.step)
        self._treatment = Treatment.GATE
        self._answer = Answer()
        self._head: tuple[int, Headers] = (200, [])
        """What goes in front of a body, once that is known."""
        self._events: list[Event] = []

    @takes
    def failed(self, error: ModegateError, *, head_sent: bool) -> list[Effect]:
        """Take that something the step needs is not there: the log, a mode, our own sanity.

        It came up on the way, so who performs the effects says whether the client has the head of its
        answer by now. Who has sent the end has nothing to ask any more.
        """
        return self._fail(error, head_sent=head_sent)

    def keepalive(self) -> bytes:
        """Return what ends a silence in which the client waits; empty where nothing can be sent now.

        Before the head nobody knows what the answer will be, a body has no room for anything, and no event
        can stand within another that passes unread.
        """
        if self.phase is Phase.OVER or not self._takes_events:
            return b""
        return self._closing.aside(self._writer) or self._writer.keepalive()

    @property
    def _takes_events(self) -> bool:
        """Whether events of ours can follow what the client has."""
        return self._closing.streams and not self._answer.torn

    @property
    def _begun(self) -> bool:
        """Whether the head of the answer goes, or went, in front of its end."""
        return self._closing.streams or self._answer.streams

    def _cut_off(self) -> list[Effect]:
        """End an answer that cannot be read from its middle on; what the agent sends again meets the mode."""
        error = Tightened(
            f"a person has set mode {self._now.label!r} for this session while this answer was under way, "
            "so it was cut off; send the request again"
        )
        return [Count(Counted.CUT_OFF), *self._fail(error, head_sent=self._begun)]

    @property
    def _tolerates(self) -> bool:
        """Whether no mode forbids what cannot be read, and nothing of ours stands in the answer yet."""
        return self._treatment is not Treatment.GATE and not self._closing.hops

    def _own_head(self, lines: Headers) -> Headers:
        lines = headers.replace(lines, b"content-length", None)
        lines = headers.replace(lines, b"content-encoding", None)
        lines = lines if self._tolerates else headers.as_utf8(lines)
        mode = self._standing if self._standing.gated else self._now
        return headers.replace(lines, b"x-modegate-mode", mode.label.encode())

    def _log(self, *, durable: bool) -> list[Effect]:
        events, self._events = tuple(self._events), []
        return [Append(events, durable=durable)] if events else []

    def _upstream_error(self) -> list[Effect]:
        """End with the error that the upstream gave in its answer, and with nothing behind it."""
        if self._closing.hops:
            return self._give_up()
        if not self._closing.streams:
            return self._ended("upstream_error", self._closing.end(()))
        return [*self._log(durable=False), StopUpstream(), Finish("upstream_error")]

    def _give_up(self) -> list[Effect]:
        """End an answer of which a later hop failed: text is out, so an error would be sent again."""
        return self._ended("later_hop_failed", self._closing.give_up())

    def _ended(self, outcome: str, end: End) -> list[Effect]:
        """Return the rest of the client's answer, once what was withheld of it is durable."""
        self._events += end.events
        effects: list[Effect] = [end.store] if end.store else []
        known = bool(end.events) and self._standing.gated
        effects += self._log(durable=end.needed or known)
        if not self._closing.streams:
            status, lines = self._head
            length = (b"content-length", str(len(end.body)).encode())
            effects.append(SendHead(status, [*lines, length]))
        return [*effects, SendBytes(end.body), StopUpstream(), Finish(outcome)]

    def _cut(self, error: UpstreamFailed) -> list[Effect]:
        if self._answer.as_it_came and self._answer.streams:
            return [Count(Counted.UPSTREAM_CUT), Finish("cut", broken=True)]
        return [Count(Counted.UPSTREAM_CUT), *self._broken_off(error)]

    def _stopped(self) -> list[Effect]:
        """End where the upstream stopped without saying so: held calls go nowhere, no end is invented."""
        if self._closing.hops and not self._closing.released_any():
            return [Count(Counted.UPSTREAM_CUT), *self._give_up()]
        told = b"" if self._answer.as_it_came else self._writer.stopped()
        say: list[Effect] = [SendBytes(told)] if told else []
        return [Count(Counted.UPSTREAM_CUT), *say, Finish("cut")]

    def _unreadable(self, error: Exception) -> list[Effect]:
        return [Count(Counted.UNREADABLE), *self._broken_off(unreadable(error))]

    def _broken_off(self, error: ModegateError) -> list[Effect]:
        if self._closing.hops and not self._closing.released_any():
            return self._give_up()
        return self._fail(error, head_sent=self._begun)

    def _show(self, error: Shown) -> list[Effect]:
        """Give the client an error as it came, unless it is an answer and a mode is in force."""
        if self._closing.hops:
            return self._give_up()
        rejection = error.rejection
        if not self._tolerates:
            try:
                rejection.check()
            except AnswerUnreadable as failure:
                return self._unreadable(bare(failure))
        self._answer = Relayed(rejection.status, rejection.lines)
        head = SendHead(rejection.status, rejection.lines)
        end = [Finish("relayed")] if error.ended else []
        return [head, SendBytes(bytes(rejection.body)), *end]

    def _fail(self, error: ModegateError, *, head_sent: bool) -> list[Effect]:
        """Refuse in the client's own format; nothing that is held goes out."""
        log = self._log(durable=False)
        if not head_sent:
            body = error_json(error, self._dialect.api.error)
            head = SendHead(error.status, error_head(error, body))
            self._answer = Relayed(head.status, head.headers)
            return [*log, head, SendBytes(body), StopUpstream(), Finish(error.code)]
        if self._takes_events:
            said = SendBytes(self._writer.error(error))
            return [*log, said, StopUpstream(), Finish(error.code)]
        # The client counts the bytes of another body, or has part of a frame: nothing can be said in it.
        return [*log, StopUpstream(), Finish(error.code, broken=True)]

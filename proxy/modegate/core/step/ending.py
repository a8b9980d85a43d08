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
from modegate.core.ids import StepId
from modegate.core.log.events import Event
from modegate.core.policy.in_force import ModesInForce
from modegate.core.step.answer.hop import HopAnswer, StreamedHop
from modegate.core.step.answer.hop_whole import WholeHop
from modegate.core.step.answer.rejection import Rejection
from modegate.core.step.answer.stream_detection import is_stream
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
from modegate.core.wire import headers


class Ending:
    """What an exchange knows of the answer that its client has, and each way to end it."""

    _standing: ModesInForce
    """What the hop under way was assembled under."""
    _now: ModesInForce
    """What the session stood under when that was last read."""

    def __init__(self, dialect: AnyDialect, step: StepId) -> None:
        """Begin with nothing sent."""
        self._dialect = dialect
        self._writer = dialect.stream_writer()
        self._closing = Closing(dialect, step)
        self._answer: HopAnswer | None = None
        self._status = 200
        self._headers: Headers = []
        self._events: list[Event] = []
        self._relay = False
        """The answer goes as it comes."""
        self._default = False
        """The step began in the default mode and is still in it: nothing is filtered or added."""
        self._complaint: Rejection | None = None
        """An error that is on its way."""
        self._head_sent = False
        self._over = False
        self._counts = False
        """The request asks for a number alone."""
        self._streams = False
        """The head that was given last is that of a stream."""

    def failed(self, error: ModegateError, *, begun: bool, over: bool = False) -> list[Effect]:
        """Take that something the step needs is not there: the log, a mode, our own sanity.

        It came up on the way, so who performs the effects says how far they got: whether the client has
        the head of its answer (`begun`), and whether it has the end (`over`).
        """
        self._head_sent, self._over = begun, over
        if over:
            return []
        if begun and not self._streams:
            # The client counts the bytes of another body, so nothing can be said in this one.
            log = self._log(durable=False)
            return [*log, StopUpstream(), *self._finish(error.code, broken=True)]
        return self._fail(error)

    def keepalive(self) -> bytes:
        """Return what ends a silence in which the client waits; empty where nothing can be sent now.

        Before the head nobody knows what the answer will be, a body has no room for anything, and no event
        can stand within another that passes unread.
        """
        if not (self._head_sent and self._streams) or self._over or self._torn:
            return b""
        return self._closing.aside(self._writer) or self._writer.keepalive()

    def _cut_off(self) -> list[Effect]:
        """End an answer that cannot be read from its middle on; what the agent sends again meets the mode."""
        error = Tightened(
            f"a person has set mode {self._now.label!r} for this session while this answer was under way, "
            "so it was cut off; send the request again"
        )
        effects: list[Effect] = [Count(Counted.CUT_OFF)]
        if not self._head_sent or (isinstance(self._answer, StreamedHop) and not self._torn):
            return [*effects, *self._fail(error)]
        return [*effects, StopUpstream(), *self._finish(error.code, broken=True)]

    @property
    def _torn(self) -> bool:
        """Whether no event can follow what the client has: it ends within a frame, or nobody has read it."""
        hop = self._answer
        return self._relay or (
            isinstance(hop, StreamedHop) and (hop.passes_unread or bool(hop.torn))
        )

    @property
    def _checks(self) -> bool:
        """Whether an error, or what a request was counted to, goes on only if it is no answer."""
        if self._counts:
            return self._standing.gated
        return not (self._relay or self._lenient)

    @property
    def _lenient(self) -> bool:
        """Whether no mode forbids what cannot be read, and nothing of ours stands in the answer yet."""
        return self._default and not self._closing.hops

    def _own_head(self, lines: Headers) -> Headers:
        lines = headers.replace(lines, b"content-length", None)
        lines = headers.replace(lines, b"content-encoding", None)
        lines = lines if self._lenient else headers.as_utf8(lines)
        mode = self._standing if self._standing.gated else self._now
        return headers.replace(lines, b"x-modegate-mode", mode.label.encode())

    def _send_head(self, status: int, lines: Headers) -> list[Effect]:
        self._head_sent, self._streams = True, is_stream(lines)
        return [SendHead(status, lines)]

    def _log(self, *, durable: bool) -> list[Effect]:
        events, self._events = tuple(self._events), []
        return [Append(events, durable=durable)] if events else []

    def _upstream_error(self) -> list[Effect]:
        """End with the error that the upstream gave in its answer, and with nothing behind it."""
        if self._closing.hops:
            return self._give_up()
        if isinstance(self._answer, WholeHop):
            return self._ended("upstream_error", self._closing.end((), self._writer))
        return [*self._log(durable=False), StopUpstream(), *self._finish("upstream_error")]

    def _give_up(self) -> list[Effect]:
        """End an answer of which a later hop failed: text is out, so an error would be sent again."""
        return self._ended("later_hop_failed", self._closing.give_up(self._writer))

    def _ended(self, outcome: str, end: End) -> list[Effect]:
        """Return the rest of the client's answer, once what was withheld of it is durable."""
        self._events += end.events
        effects: list[Effect] = [end.store] if end.store else []
        known = bool(end.events) and self._standing.gated
        effects += self._log(durable=end.needed or known)
        if not self._head_sent:
            length = (b"content-length", str(len(end.body)).encode())
            effects += self._send_head(self._status, [*self._headers, length])
        return [*effects, SendBytes(end.body), StopUpstream(), *self._finish(outcome)]

    def _cut(self, error: UpstreamFailed) -> list[Effect]:
        if (self._relay or self._lenient) and self._head_sent:
            return [Count(Counted.UPSTREAM_CUT), *self._finish("cut", broken=True)]
        return [Count(Counted.UPSTREAM_CUT), *self._broken_off(error)]

    def _stopped(self) -> list[Effect]:
        """End where the upstream stopped without saying so: held calls go nowhere, no end is invented."""
        if self._closing.hops and not self._closing.released_any():
            return [Count(Counted.UPSTREAM_CUT), *self._give_up()]
        told = b"" if self._lenient else self._writer.stopped()
        say: list[Effect] = [SendBytes(told)] if told else []
        return [Count(Counted.UPSTREAM_CUT), *say, *self._finish("cut")]

    def _unreadable(self, error: Exception) -> list[Effect]:
        known = error if isinstance(error, ModegateError) else AnswerUnreadable(str(error))
        return [Count(Counted.UNREADABLE), *self._broken_off(known)]

    def _complained(self, complaint: Rejection, *, ended: bool) -> list[Effect]:
        """Give the client an error as it came, unless it is an answer and a mode is in force."""
        self._complaint = None
        if self._closing.hops:
            return self._give_up()
        if self._checks:
            try:
                complaint.check()
            except AnswerUnreadable as error:
                return self._unreadable(bare(error))
        self._relay = True
        self._status, self._headers = complaint.status, complaint.lines
        head = self._send_head(complaint.status, complaint.lines)
        end = self._finish("relayed") if ended else []
        return [*head, SendBytes(bytes(complaint.body)), *end]

    def _broken_off(self, error: ModegateError) -> list[Effect]:
        if self._closing.hops and not self._closing.released_any():
            return self._give_up()
        return self._fail(error)

    def _fail(self, error: ModegateError) -> list[Effect]:
        """Refuse in the client's own format; nothing that is held goes out."""
        log = self._log(durable=False)
        if self._head_sent and self._torn:
            return [*log, StopUpstream(), *self._finish(error.code, broken=True)]
        if self._head_sent:
            body = self._writer.error(error)
            return [*log, SendBytes(body), StopUpstream(), *self._finish(error.code)]
        body = error_json(error, self._dialect.api.error)
        head = self._send_head(error.status, error_head(error, body))
        return [*log, *head, SendBytes(body), StopUpstream(), *self._finish(error.code)]

    def _finish(self, outcome: str, *, broken: bool = False) -> list[Effect]:
        self._over = True
        return [Finish(outcome, broken=broken)]

"""One step's life: its request goes in, effects come out, and what they brought goes in again.

    begin → [blobs] → upstream_head → upstream_data* → [state] → upstream_end → …

An exchange is a plain object: every method gives the effects to perform next, in order (`phase.TABLE` says
which are taken when). It knows no dialect by name, no clock and no store; `modegate.server.proxy.drive`
performs what it asks for.
"""

from __future__ import annotations

from collections.abc import Mapping

from modegate.core.errors import ModegateError
from modegate.core.policy.in_force import ModesInForce
from modegate.core.policy.model import EXIT_TOOL
from modegate.core.step.answer.answer import Answer, Stage
from modegate.core.step.answer.relayed import Passed, Relayed
from modegate.core.step.answer.stream_detection import is_plain_stream
from modegate.core.step.answering import Answering
from modegate.core.step.effects import Count, Counted, Effect, Headers, ReadBlobs
from modegate.core.step.phase import Treatment, takes
from modegate.core.step.request.hop_requests import StepRequest
from modegate.core.step.verdicts import Verdicts

__all__ = ["Exchange", "StepRequest"]


class Exchange(Answering):
    """One step."""

    @takes
    def begin(self, in_force: ModesInForce) -> list[Effect]:
        """Read the request; put back what was withheld, and show the model what the mode allows."""
        self._standing = self._now = in_force
        try:
            refs = self._requests.read(in_force)
        except ModegateError as error:
            return self._fail(error, head_sent=False)
        return [ReadBlobs(refs)] if refs else self._open({})

    @takes
    def blobs(self, stored: Mapping[str, bytes]) -> list[Effect]:
        """Go on with the stored bodies that are still there."""
        return self._open(stored)

    def _open(self, stored: Mapping[str, bytes]) -> list[Effect]:
        requests, in_force = self._requests, self._standing
        try:
            requests.restore(stored)
            if in_force.gated:
                self._treatment = Treatment.GATE
            elif not self._step.counts and requests.may_call_stale_exit(in_force):
                self._treatment = Treatment.WATCH
            else:
                self._treatment = Treatment.RELAY
            if self._step.counts:
                return self._retry.sending(lambda: requests.counted(in_force))
            if self._treatment is Treatment.RELAY:
                return self._retry.sending(lambda: requests.untouched(in_force))
            self._ready()
            here = requests.conversation
            told: list[Effect] = [] if requests.declares_tools else [Count(Counted.NO_TOOLS)]
            told += here.moved_on(in_force) + here.came_back(in_force)
            return [*told, *self._call(in_force)]
        except ModegateError as error:
            return self._fail(error, head_sent=False)

    @takes
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
        if passed is not None:
            self._answer = Relayed(status, lines, passed)
        try:
            self._requests.read(now)
            self._requests.restore({})
            self._read_on(now)
        except ModegateError as error:
            return self._fail(error, head_sent=False) if passed is None else self._cut_off()
        return self._headed(status, lines) if passed is None else self._resume(self._answer)

    def _resume(self, answer: Answer) -> list[Effect]:
        """Read an answer from here on of which the client has the head, and what has passed."""
        if (unread := answer.passed()) is None:
            return []
        status, lines, passed = unread
        if not (is_plain_stream(lines) and 200 <= status < 300) or passed is None:
            return self._cut_off()
        try:
            hop = self._readers.resumed(self._verdicts.offer, self._now.policy.limits)
            whole, begun = hop.overtake(passed)
        except ModegateError:
            return self._cut_off()
        self._under_way(hop)
        if hop.outcome is Stage.ENDED:
            return self._advance()
        judged = self._verdicts.judge_passed(whole, self._now)
        if begun or judged is None:
            return self._cut_off()
        self._events += judged
        return [Count(Counted.READ_ON), *self._advance()]

    @takes
    def tightened(self, now: ModesInForce) -> list[Effect]:
        """Take that a person has set a mode: what passed unread until now is read from here on."""
        if not self.passes_unread:
            return []
        if self._answer.rejects:
            # It is not asked again, as what forbids it now was not in force.
            self._now, self._treatment = now, Treatment.GATE
            return []
        if self._texts_pass and self._requests.texts(now) is None:
            return []
        relayed = self._treatment is Treatment.RELAY or self._answer.passed() is not None
        if relayed and self._requests.readable:
            self._read_on(now)
            return self._resume(self._answer)
        self._now = now
        return self._cut_off()

    def _ready(self) -> None:
        """Be ready to read an answer."""
        requests, closing = self._requests, self._closing
        self._verdicts = Verdicts(self._dialect, self._step.step, requests)
        closing.place, closing.model = requests.conversation.place, requests.model
        closing.naming.kept = requests.kept
        closing.naming.lane = requests.conversation.lane_of(has_tools=True)

    def _read_on(self, now: ModesInForce) -> None:
        """Read what nobody wanted to read when it was asked for."""
        self._ready()
        self._verdicts.offer = self._requests.unfiltered(self._standing, now)
        self._now, self._treatment = now, Treatment.GATE

    # From here on: what is asked of it meanwhile.

    @property
    def passes_unread(self) -> bool:
        """Whether the answer, or a part of it, is not read, since no mode that wants it was in force."""
        if self._answer.rejects:
            return not (self._standing.gated or self._now.gated)
        if self._treatment is Treatment.RELAY or self._answer.passes_unread:
            return not self._step.counts
        return self._texts_pass

    @property
    def _texts_pass(self) -> bool:
        """Whether only its text is not read, though some mode would hold back calls in it."""
        if self._closing.first is None or self._answer.passes_unread:
            return False
        return self._verdicts.offer.texts is None and self._requests.may_hold_texts(self._now)

    @property
    def holding(self) -> bool:
        return self._answer.holding

    def knows(self, tool: str) -> bool:
        """Return whether its agent has this tool, or modegate may have added it."""
        return tool == EXIT_TOOL or tool in self._requests.declared

    @property
    def size(self) -> int:
        """What it may read to decide, in bytes: its request, and what is kept of the answer."""
        return self._step.body.cost + self._answer.size

    @property
    def unread(self) -> int:
        """Bytes that it may read with the next piece of the answer, beside that piece.

        That is an event which has not ended yet, all that a compressed piece may stand for, or the request,
        where another hop may follow.
        """
        refused = self._closing.first is not None and bool(self._verdicts.refused)
        return self._answer.unread + (self._step.body.cost if refused else 0)

    @property
    def kept(self) -> int:
        """Bytes that are kept of the answer under way: what waits for its end, and what is held back."""
        return self._answer.kept

    def let_go(self) -> None:
        """Leave nothing in memory that waits for the collector: the step is over, however it ended."""
        self._retry.let_go()

"""What becomes of the calls of a step: the gate's verdicts, and those that a person gives."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from modegate.core.ids import StepId
from modegate.core.log.approval_events import ApprovalAsked
from modegate.core.log.approvals import Approval, Status
from modegate.core.log.events import Event
from modegate.core.policy.in_force import ModesInForce
from modegate.core.step import exit_tool, texts
from modegate.core.step.answer.answer import Answer
from modegate.core.step.answer.calls import Gathered
from modegate.core.step.answer.gate import Ask, Gate
from modegate.core.step.answer.parts import Refused
from modegate.core.step.answer.rulings import Offer
from modegate.core.step.dialect import AnyDialect
from modegate.core.step.request.hop_requests import HopRequests


class Verdicts:
    """The calls of the hop under way."""

    offer: Offer
    """What its model was shown."""

    def __init__(self, dialect: AnyDialect, step: StepId, requests: HopRequests) -> None:
        self._dialect = dialect
        self._step = step
        self._requests = requests
        self._gate = Gate(step, requests.call_ids)
        self._asks: deque[Ask] = deque()
        self._asked = 0
        self.refused: list[Refused] = []
        self.left = False
        """A person has approved that this step leaves the mode."""

    def judge(self, answer: Answer, now: ModesInForce) -> list[Event]:
        """Judge the calls that wait; give what is to be logged."""
        choices = answer.choices
        cut = {index for index, one in choices.items() if not self._dialect.may_go_on(one.finish)}
        ended = {index for index, one in choices.items() if one.finish}
        judged = self._gate.judge(answer.to_judge(), self.offer, now, cut=cut, ended=ended)
        self.refused += judged.refused
        self._asks.extend(judged.asks)
        return [*judged.events]

    def judge_passed(self, calls: list[Gathered], now: ModesInForce) -> list[Event] | None:
        """Judge calls that the client has got; None where one of them would not have passed."""
        judged = self._gate.judge(calls, self.offer, now)
        return None if judged.refused or judged.asks else [*judged.events]

    def question(self, now: ModesInForce, standing: ModesInForce) -> Ask | None:
        """Return the next call that waits for a person; nobody is asked about leaving what was left."""
        changed = now.modes != standing.modes
        while self._asks and self._asks[0].leave is not None and changed:
            self._refuse(self._asks.popleft(), *texts.not_asked(), person=False)
        return self._asks[0] if self._asks else None

    def asked(self, ask: Ask) -> ApprovalAsked:
        """Return a question as it is put to a person."""
        self._asked += 1
        place = (self._step, self._requests.conversation.lane, self._asked)
        end = self._requests.conversation.end
        return exit_tool.question(ask.call, ask.leave, place, end, native=ask.native)

    def answered(self, approval: Approval, now: ModesInForce) -> None:
        """Take what came of the question."""
        ask = self._asks.popleft()
        answer, note = texts.decided(approval, now.state.mode)
        # Silence is no answer: a model that goes on submitting to nobody runs into the limit of hops.
        person = approval.status is Status.ANSWERED
        if not approval.approved:
            self._refuse(ask, answer, note, person=person)
        elif ask.native and not ask.call.ambiguous:
            # The agent's own tool runs now: it leaves the agent's own plan mode, as ours was left.
            self._gate.hand_over(ask)
        elif ask.leave is not None:
            self.left = True
            self._refuse(ask, answer, note, person=person)
            self.refused[-1] = replace(self.refused[-1], approved=True)
        elif not self._gate.release(ask, now):
            self._refuse(ask, texts.allowed_no_more(), person=person)

    def _refuse(self, ask: Ask, answer: str, note: str = "", *, person: bool) -> None:
        one = self._gate.refuse(ask.call, answer, ask.force, person=person, note=note)
        self.refused.append(one)

"""The hard layer: a verdict for each call of an answer, and what is said to the model about it.

A call is released only if every reading of it is released by what its hop was assembled under and by
what the session stands under at the moment of release (L8). Anything else is answered by modegate (L4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from modegate.core.ids import DEFAULT_MODE, CallId, Seq, StepId, ToolName
from modegate.core.log.events import CallJudged
from modegate.core.policy.in_force import ModeInForce, ModesInForce
from modegate.core.policy.judge import Verdict
from modegate.core.policy.model import Exit
from modegate.core.step import exit_tool, texts
from modegate.core.step.answer.calls import (
    SHORT_ID,
    CallState,
    Gathered,
    arguments_hash,
    digest,
    other_id,
)
from modegate.core.step.answer.parts import Refused
from modegate.core.step.answer.rulings import Offer, Ruling, rule_on


@dataclass(frozen=True, slots=True)
class Ask:
    """A call that waits for a person."""

    call: Gathered
    leave: Exit | None
    """For a call of the exit tool: the ways out of the mode."""
    force: ModeInForce | None
    native: bool = False
    """It is the agent's own exit tool, which runs once the plan is approved."""
    declared: frozenset[str] = frozenset()
    """The tools that its agent has declared."""


@dataclass(slots=True)
class Judged:
    """What came of some calls."""

    events: list[CallJudged] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)


def release_all(calls: Iterable[Gathered]) -> None:
    """Let calls go: those that were judged, and those that need no verdict."""
    for call in calls:
        call.state = CallState.RELEASED


def withhold_all(calls: Iterable[Gathered]) -> None:
    """Let none of these calls go."""
    for call in calls:
        call.state = CallState.WITHHELD


def late_piece(choice: int, kind: str) -> Gathered:
    """Return a call for a piece that came after its own call was judged, so that it goes nowhere."""
    return Gathered(choice, kind, state=CallState.WITHHELD)


class Gate:
    """Judges the calls of one step."""

    def __init__(self, step: StepId, taken_ids: frozenset[str]) -> None:
        """Begin a step whose history already uses some call ids."""
        self._step = step
        self._taken = set(taken_ids)
        self._made = 0
        self._ids: Mapping[str, int] = Counter()

    def judge(
        self,
        calls: Sequence[Gathered],
        offer: Offer,
        now: ModesInForce,
        *,
        cut: Collection[int] = (),
        ended: Collection[int] | None = None,
    ) -> Judged:
        """Settle each call, but for those that a person is to be asked about.

        `cut` are the choices that ended at a limit: no client can run what stops in the middle there.
        `ended` are those of which the end is known (None: all): nobody is asked about what could yet be cut.
        """
        judged = Judged()
        # Withheld ids must differ from those that the client sees in the same answer.
        self._ids = Counter(call.id for call in calls)
        for call in calls:
            ruling = rule_on(call, offer, now, ended=call.choice in cut)
            # If it is judged a second time, the answer has ended, even if it gave no reason.
            early = ended is not None and call.choice not in ended and not call.awaits_end
            if early and not call.text and ruling.judgement.verdict is Verdict.ASK:
                call.awaits_end = True
                continue
            if call.truncated and ruling.judgement.verdict is not Verdict.ANSWER:
                withhold_all((call,))  # and nobody has refused it
                continue
            reason = texts.phrase(ruling.judgement.reason)
            ruling = replace(ruling, judgement=replace(ruling.judgement, reason=reason))
            if ruling.force is not None or ruling.judgement.verdict is Verdict.ANSWER:
                judged.events.append(self._event(call, ruling, now))
            if ruling.judgement.verdict is Verdict.ASK:
                native = offer.native is not None and call.name == offer.native
                ask = Ask(call, ruling.leave, ruling.force, native, offer.declared)
                judged.asks.append(ask)
                continue
            if ruling.judgement.verdict is Verdict.RELEASE:
                release_all((call,))
                self._taken.add(call.id)
            else:
                judged.refused.append(self._refused(call, ruling, offer, now))
        return judged

    def _refused(self, call: Gathered, ruling: Ruling, offer: Offer, now: ModesInForce) -> Refused:
        leave = exit_tool.exit_of(offer.in_force) is not None
        reason = ruling.judgement.reason
        text = texts.refusal(call.name, ruling.force, reason, offer.tools, leave=leave)
        note = texts.no_plan(reason) if ruling.judgement.rule == "exit" else ""
        one = self.refuse(call, "" if call.ran else text, ruling.force, note=note)
        return replace(one, leave=leave and offer.in_force.modes == now.modes)

    def refuse(
        self,
        call: Gathered,
        answer: str,
        force: ModeInForce | None,
        *,
        person: bool = False,
        note: str = "",
    ) -> Refused:
        """Answer a call; `person` if a person did, `note` is what the client is told of it at the end."""
        withhold_all((call,))
        answer = texts.as_note(answer, call.name) if call.text else answer
        return Refused(call, self._id(call, self._ids), answer, force, person=person, note=note)

    def release(self, ask: Ask, now: ModesInForce) -> bool:
        """Release a call that a person allowed, unless what the session stands under now forbids it."""
        # What was released meanwhile can have made another call of it than the one that was shown.
        allowed = not ask.call.ambiguous and all(
            now.judge(reading)[0].verdict is not Verdict.ANSWER
            for reading in ask.call.readings(ask.declared)
        )
        ask.call.by_arguments = allowed
        (release_all if allowed else withhold_all)((ask.call,))
        return allowed

    def hand_over(self, ask: Ask) -> None:
        """Release a call of the agent's own exit tool, whose plan a person has approved."""
        ask.call.by_arguments = True
        release_all((ask.call,))

    def _event(self, call: Gathered, ruling: Ruling, now: ModesInForce) -> CallJudged:
        judgement, force = ruling.judgement, ruling.force
        reason = judgement.reason
        if call.ran and judgement.verdict is Verdict.ANSWER:
            reason = f"{texts.by_provider(call)}, so it was only not shown; {reason}"
        return CallJudged(
            step=self._step,
            call=CallId(call.id[:128]),
            tool=ToolName(call.name[:256]),
            arguments=arguments_hash(call.arguments),
            verdict=judgement.verdict.value,
            rule=judgement.rule,
            mode=force.mode.id if force else DEFAULT_MODE,
            mode_seq=force.seq if force else Seq(0),
            policy=now.policy.hash,
            reason=reason[: texts.MAX_REASON],
        )

    def _id(self, call: Gathered, ids: Mapping[str, int]) -> str:
        made = call.id
        if len(made) < SHORT_ID or made in self._taken or ids[made] > 1:
            self._made += 1
            made = other_id(made, digest(f"{self._step}/{self._made}"))
        self._taken.add(made)
        return made

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
from modegate.core.policy.in_force import STRICTNESS, ModeInForce, ModesInForce
from modegate.core.policy.judge import Judgement, ToolCall, Verdict
from modegate.core.policy.model import EXIT_TOOL, Exit
from modegate.core.policy.similar_names import similar
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
from modegate.core.step.reasons import Reason
from modegate.core.step.text_calls.rules import TextCalls


@dataclass(frozen=True, slots=True)
class Offer:
    """What one hop's model was shown, and what its agent declared."""

    in_force: ModesInForce
    tools: tuple[ToolName, ...]
    declared: frozenset[str]
    native: ToolName | None = None
    """The agent's own exit tool, if that was offered in the place of ours."""
    texts: TextCalls | None = None
    """What counts as a call in the answer's text; None where text is only text."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A call that waits for a person."""

    call: Gathered
    leave: Exit | None
    """For a call of the exit tool: the ways out of the mode."""
    force: ModeInForce | None
    native: bool = False
    """It is the agent's own exit tool, which runs once the plan is approved."""


@dataclass(slots=True)
class Judged:
    """What came of some calls."""

    events: list[CallJudged] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Ruling:
    judgement: Judgement
    force: ModeInForce | None
    leave: Exit | None = None


def _unreadable(why: str, force: ModeInForce) -> _Ruling:
    return _Ruling(Judgement(Verdict.ANSWER, "unreadable", why), force)


def _ungated(call: Gathered, offer: Offer) -> _Ruling:
    """Judge a call in default mode: only one of our own exit tool is not meant for the agent."""
    if call.name == EXIT_TOOL and EXIT_TOOL not in offer.declared:
        return _Ruling(Judgement(Verdict.ANSWER, "exit", Reason.NOT_IN_A_MODE), None)
    return _Ruling(Judgement(Verdict.RELEASE, "no rule", "no mode is in force"), None)


def _exit_ruling(
    call: Gathered, readings: Sequence[ToolCall], offer: Offer, now: ModesInForce, *, ended: bool
) -> _Ruling:
    """Judge a call of the exit tool: a person is asked if it was offered, still is, and has a plan."""
    force = (*offer.in_force.modes, *now.modes)[0]

    def refuse(reason: str) -> _Ruling:
        return _Ruling(Judgement(Verdict.ANSWER, "exit", reason), force)

    leave = exit_tool.exit_of(offer.in_force)
    offered = offer.native or EXIT_TOOL
    if leave is None or offer.in_force.modes != now.modes or call.name != offered:
        return refuse(Reason.NO_EXIT_NOW)
    if ended:
        return refuse(Reason.CUT_SHORT)
    # Ours is answered here, so no client makes another call of it.
    if len(readings) > 1 or (call.ambiguous if offer.native else call.mixed):
        return refuse(Reason.MIXED)
    if call.tangled:
        return refuse(Reason.ARGUMENTS_IN_DIFFERENT_WAYS)
    try:
        _ = exit_tool.native_plan_of(call) if offer.native else exit_tool.plan_of(call)
    except ValueError as error:
        return refuse(str(error))
    return _Ruling(Judgement(Verdict.ASK, "exit", "a person decides on the plan"), force, leave)


def _repaired(readings: Sequence[ToolCall], declared: frozenset[str]) -> list[ToolCall]:
    """Add the calls that a client could make of a name that is a near miss of one of its tools."""
    found = dict.fromkeys(one.name for one in readings)
    more = [
        ToolCall(ToolName(other), one.arguments)
        for one in readings
        if one.name not in declared
        for other in similar(one.name, declared)
        if other not in found
    ]
    return [*readings, *more]


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
            ruling = self._ruling(call, offer, now, ended=call.choice in cut)
            # If it is judged a second time, the answer has ended, even if it gave no reason.
            early = ended is not None and call.choice not in ended and not call.awaits_end
            if early and not call.text and ruling.judgement.verdict is Verdict.ASK:
                call.awaits_end = True
                continue
            if call.truncated and ruling.judgement.verdict is not Verdict.ANSWER:
                withhold_all((call,))  # and nobody has refused it
                continue
            reason = ruling.judgement.reason[: texts.MAX_REASON]
            ruling = replace(ruling, judgement=replace(ruling.judgement, reason=reason))
            if ruling.force is not None or ruling.judgement.verdict is Verdict.ANSWER:
                judged.events.append(self._event(call, ruling, now))
            if ruling.judgement.verdict is Verdict.ASK:
                native = offer.native is not None and call.name == offer.native
                judged.asks.append(Ask(call, ruling.leave, ruling.force, native))
                continue
            if ruling.judgement.verdict is Verdict.RELEASE:
                release_all((call,))
                self._taken.add(call.id)
            else:
                judged.refused.append(self._refused(call, ruling, offer, now))
        return judged

    def _refused(self, call: Gathered, ruling: _Ruling, offer: Offer, now: ModesInForce) -> Refused:
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
            for reading in ask.call.readings(frozenset())
        )
        ask.call.by_arguments = allowed
        (release_all if allowed else withhold_all)((ask.call,))
        return allowed

    def hand_over(self, ask: Ask) -> None:
        """Release a call of the agent's own exit tool, whose plan a person has approved."""
        ask.call.by_arguments = True
        release_all((ask.call,))

    def _ruling(self, call: Gathered, offer: Offer, now: ModesInForce, *, ended: bool) -> _Ruling:
        readings = call.readings(offer.declared)
        forces = (*offer.in_force.modes, *now.modes)
        if not forces:
            return _ungated(call, offer)
        if not readings:
            return _unreadable(call.doubt, forces[0])
        if not call.ran:
            readings = _repaired(readings, offer.declared)
        family = ToolName(call.family)
        if family and offer.in_force.may_run(family) and now.may_run(family):
            # The request was filtered by this name, too.
            readings = [ToolCall(family, None)]
        if any(reading.name in (EXIT_TOOL, offer.native) for reading in readings):
            return _exit_ruling(call, readings, offer, now, ended=ended)
        rulings = [self._strictest(reading, offer, now) for reading in readings]
        strictest = max(rulings, key=lambda ruling: STRICTNESS[ruling.judgement.verdict])
        verdict = strictest.judgement.verdict
        call.by_arguments = verdict is Verdict.RELEASE and self._by_arguments(readings, offer, now)
        asks = verdict is Verdict.ASK
        if verdict is not Verdict.ANSWER and call.broken and (asks or not ended):
            return _unreadable(call.trouble, forces[0])
        if asks and call.ran:
            return _unreadable(Reason.RUN_WITHOUT_ASKING, forces[0])
        if asks and len(call.arguments) > exit_tool.MAX_PLAN:
            return _unreadable(Reason.TOO_LONG_TO_ASK, forces[0])
        many = len({reading.name for reading in readings}) > 1
        if asks and (call.ambiguous or call.tangled or many):
            return _unreadable(Reason.READ_IN_DIFFERENT_WAYS, forces[0])
        return strictest

    def _by_arguments(self, readings: Sequence[ToolCall], offer: Offer, now: ModesInForce) -> bool:
        """Return whether calls are released for their arguments, and would not be with others."""
        blind = [ToolCall(reading.name, None) for reading in readings]
        rulings = [self._strictest(reading, offer, now) for reading in blind]
        return any(ruling.judgement.verdict is not Verdict.RELEASE for ruling in rulings)

    def _strictest(self, reading: ToolCall, offer: Offer, now: ModesInForce) -> _Ruling:
        rulings = [_Ruling(*in_force.judge(reading)) for in_force in (offer.in_force, now)]
        counted = [ruling for ruling in rulings if ruling.force is not None]
        return max(counted, key=lambda ruling: STRICTNESS[ruling.judgement.verdict])

    def _event(self, call: Gathered, ruling: _Ruling, now: ModesInForce) -> CallJudged:
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

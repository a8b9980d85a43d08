"""The verdict on one call, by what its hop was assembled under and by what the session stands under now (L8).

A call that cannot be read, or that clients could read in different ways, is not released (L4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from modegate.core.ids import ToolName
from modegate.core.policy.in_force import STRICTNESS, ModeInForce, ModesInForce
from modegate.core.policy.judge import Judgement, ToolCall, Verdict
from modegate.core.policy.model import EXIT_TOOL, Exit
from modegate.core.policy.names import similar
from modegate.core.step import exit_tool
from modegate.core.step.answer.calls import Gathered
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
class Ruling:
    """A verdict, and the mode that it is by."""

    judgement: Judgement
    force: ModeInForce | None
    leave: Exit | None = None


def _unreadable(why: str, force: ModeInForce) -> Ruling:
    return Ruling(Judgement(Verdict.ANSWER, "unreadable", why), force)


def _ungated(call: Gathered, offer: Offer) -> Ruling:
    """Judge a call in default mode: only one of our own exit tool is not meant for the agent."""
    if call.name == EXIT_TOOL and EXIT_TOOL not in offer.declared:
        return Ruling(Judgement(Verdict.ANSWER, "exit", Reason.NOT_IN_A_MODE), None)
    return Ruling(Judgement(Verdict.RELEASE, "no rule", "no mode is in force"), None)


def _exit_ruling(
    call: Gathered, readings: Sequence[ToolCall], offer: Offer, now: ModesInForce, *, ended: bool
) -> Ruling:
    """Judge a call of the exit tool: a person is asked if it was offered, still is, and has a plan."""
    force = (*offer.in_force.modes, *now.modes)[0]

    def refuse(reason: str) -> Ruling:
        return Ruling(Judgement(Verdict.ANSWER, "exit", reason), force)

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
    return Ruling(Judgement(Verdict.ASK, "exit", "a person decides on the plan"), force, leave)


def _repaired(readings: Sequence[ToolCall], declared: frozenset[str]) -> list[ToolCall]:
    """Add the calls that a client could make of a name that is a near miss of one of its tools."""
    found = dict.fromkeys(one.name for one in readings)
    more = [
        replace(one, name=ToolName(other))
        for one in readings
        if one.name not in declared
        for other in similar(one.name, declared)
        if other not in found
    ]
    return [*readings, *more]


def _by_arguments(readings: Sequence[ToolCall], offer: Offer, now: ModesInForce) -> bool:
    """Return whether calls are released for their arguments, and would not be with others."""
    blind = [ToolCall(reading.name, None) for reading in readings]
    rulings = [_strictest(reading, offer, now) for reading in blind]
    return any(ruling.judgement.verdict is not Verdict.RELEASE for ruling in rulings)


def _known(offer: Offer, now: ModesInForce) -> ModesInForce:
    """Return what the session stands under, read anew for each call, with what is known of commands."""
    return offer.in_force if now.modes == offer.in_force.modes else now


def _strictest(reading: ToolCall, offer: Offer, now: ModesInForce) -> Ruling:
    rulings = [Ruling(*in_force.judge(reading)) for in_force in (offer.in_force, now)]
    counted = [ruling for ruling in rulings if ruling.force is not None]
    return max(counted, key=lambda ruling: STRICTNESS[ruling.judgement.verdict])


def rule_on(call: Gathered, offer: Offer, now: ModesInForce, *, ended: bool) -> Ruling:
    """Judge a call by what its hop was assembled under and by what the session stands under now.

    `ended`: its choice ended at a limit, and no client can run what stops in the middle there.
    """
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
    now = _known(offer, now)
    rulings = [_strictest(reading, offer, now) for reading in readings]
    strictest = max(rulings, key=lambda ruling: STRICTNESS[ruling.judgement.verdict])
    verdict = strictest.judgement.verdict
    call.by_arguments = verdict is Verdict.RELEASE and _by_arguments(readings, offer, now)
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

"""How a mode is left by its exit tool: when it is offered, what it must carry, what a person may answer."""

from __future__ import annotations

import json

from modegate.core.ids import CallId, Lane, StepId, ToolName
from modegate.core.log.approval_events import ApprovalAsked, Option
from modegate.core.policy.in_force import ModesInForce
from modegate.core.policy.model import Exit
from modegate.core.step.answer.calls import Gathered
from modegate.core.step.reasons import Reason
from modegate.core.wire.arguments import parse_arguments

MAX_PLAN = 256 * 1024
"""Bytes of a plan: what a person can be asked to read, and what the log keeps of it."""

REJECT = Option("reject", "Reject", "reject")

DESCRIPTION = (
    "Submit your plan to the user for approval, to leave this mode. Call it when the plan is complete. "
    "The user reads the plan and approves or rejects it; nothing may be changed before that."
)
PLAN = "The whole plan, in markdown: what will be changed, where, in which order, and how it is tested."


def exit_of(in_force: ModesInForce) -> Exit | None:
    """Return the exit of the mode in force: none where a parent's mode is in force too."""
    if len(in_force.modes) != 1 or in_force.modes[0].seq != in_force.state.mode_seq:
        return None
    return in_force.modes[0].mode.exit


def plan_of(call: Gathered) -> str:
    """Return the plan that an exit call carries.

    Raises:
        ValueError: there is none that a person could read; the message is for the model.
    """
    given = parse_arguments(call.arguments)
    if given is None:
        raise ValueError(Reason.PLAN_NOT_IN_OBJECT)
    plan = given.get("plan")
    if plan is None:
        raise ValueError(Reason.PLAN_MISSING)
    if not isinstance(plan, str):
        raise ValueError(Reason.PLAN_NO_STRING)  # noqa: TRY004 -- one kind for callers
    if not plan.strip():
        raise ValueError(Reason.PLAN_EMPTY)
    if len(plan.encode("utf-8", "surrogatepass")) > MAX_PLAN:
        raise ValueError(Reason.PLAN_TOO_LONG.with_(MAX_PLAN // 1024))
    return plan


def exit_options(leave: Exit) -> tuple[Option, ...]:
    """Return what a person may answer to a plan; labels come from policy, never from the model."""
    ways = leave.options
    if len(ways) == 1:
        return (Option("approve", ways[0].label, "approve", ways[0].to), REJECT)
    approving = (
        Option(f"approve-{at}", way.label, "approve", way.to) for at, way in enumerate(ways, 1)
    )
    return (*approving, REJECT)


ASK_OPTIONS = (Option("allow_once", "Allow once", "allow_once"), REJECT)


def native_plan_of(call: Gathered) -> str:
    """Return what a call of the agent's own exit tool asks for: its plan, and whatever else it carries.

    Approved, the whole call goes to the agent, which may take other arguments for granted too (Claude Code's
    `allowedPrompts` are commands that it runs without asking), so that a person must have read them.

    Raises:
        ValueError: as `plan_of`; or the rest is too long to read.
    """
    plan = plan_of(call)
    others = {
        key: value
        for key, value in (parse_arguments(call.arguments) or {}).items()
        if key != "plan"
    }
    if not others:
        return plan
    rest = json.dumps(others, indent=2, ensure_ascii=False)
    if len(rest) > MAX_PLAN:
        raise ValueError(Reason.BESIDE_PLAN_TOO_LONG)
    return f"{plan}\n\n---\n\nApproved as well, as the agent gets it with the plan:\n\n```json\n{rest}\n```"


def question(
    call: Gathered,
    leave: Exit | None,
    who: tuple[StepId, Lane, int],
    place: str,
    *,
    native: bool = False,
) -> ApprovalAsked:
    """Make the question to a person: about a plan, or about one call under an `ask` rule.

    `who` is the step, its lane, and which question of the step this is; `place` where the agent's history
    ends; `native` is for the agent's own exit tool. Raises ValueError as `plan_of` and `native_plan_of`.
    """
    plan = native_plan_of if native else plan_of
    step, lane, number = who
    return ApprovalAsked(
        id=f"mg-perm-{step}-{number}",
        step=step,
        lane=lane,
        call=CallId(call.id[:128]),
        tool=ToolName(call.name[:256]),
        purpose="ask" if leave is None else "exit",
        text=call.arguments if leave is None else plan(call),
        options=ASK_OPTIONS if leave is None else exit_options(leave),
        expires=0,
        place=place,
    )

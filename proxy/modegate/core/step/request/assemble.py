"""The soft layer: the request as the model is to see it, and the event that says so."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Literal

from modegate.core.errors import Refusal
from modegate.core.ids import Lane, ToolName
from modegate.core.log.events import NO_TOOLS, RUNS_TEXT, Event, RequestHeader, RequestHeaderDelta
from modegate.core.policy.in_force import ModesInForce
from modegate.core.policy.model import NATIVE_EXITS
from modegate.core.step.answer.calls import digest
from modegate.core.step.dialect import AnyDialect, Assembled, Request

MAX_LEFT_OUT = 16
"""Named in the log; more have one reason."""


def section_for(request: Request, in_force: ModesInForce) -> str:
    """Return the section that this request gets: none where it declares no tools, unless policy says.

    Raises:
        Refusal: policy refuses requests without tools in this mode.
    """
    if request.declares_tools:
        return in_force.section
    wanted = {force.mode.without_tools for force in in_force.modes}
    if "refuse" in wanted:
        raise Refusal(
            f"mode {in_force.label!r} refuses requests that declare no tools "
            "(without_tools: refuse in policies.yaml)"
        )
    return in_force.section if "guide" in wanted else ""


def assemble(
    dialect: AnyDialect,
    request: Request,
    lane: Lane,
    in_force: ModesInForce,
    *,
    text: Literal["held", "pass"] | None = None,
) -> tuple[Assembled, Event | None]:
    """Filter the tools, add the section; the event is None where the lane's last header says the same.

    `text`: for an agent that is known to run calls in text, whether these are `held` or `pass`.
    """
    section = section_for(request, in_force)
    assembled = dialect.assemble(request, in_force, section)
    if text is not None:
        ungated = RUNS_TEXT if text == "pass" else ""
    else:
        ungated = "" if request.declares_tools else NO_TOOLS
    event = header_event(lane, assembled, section, in_force, ungated)
    if event is None:
        return assembled, None
    return assembled, replace(event, left_out=left_out(request, assembled, in_force))


def left_out(
    request: Request, assembled: Assembled, in_force: ModesInForce
) -> tuple[ToolName, ...]:
    """Return the tools that the mode allows and that were not sent all the same (S7).

    Their declaration leaves a doubt: an unknown object beside the tool could be another tool, or the provider
    would run it, which needs a rule without conditions.
    """
    gone = map(ToolName, sorted(request.declared.difference(assembled.sent, NATIVE_EXITS)))
    allowed = (name for name in gone if in_force.may_offer(name))
    return tuple(islice(allowed, MAX_LEFT_OUT))


def header_event(
    lane: Lane, assembled: Assembled, section: str, in_force: ModesInForce, ungated: str = ""
) -> RequestHeader | RequestHeaderDelta | None:
    """Log what the lane's model is shown: whole at first, then only what changes."""
    mark = digest(section) if section else ""
    policy = in_force.policy.hash
    last = in_force.state.lanes.get(lane)
    if last is None:
        return RequestHeader(lane, in_force.label, policy, assembled.sent, mark, ungated)
    added = tuple(name for name in assembled.sent if name not in last.tools)
    removed = tuple(name for name in last.tools if name not in assembled.sent)
    now = (in_force.label, policy, mark, ungated)
    if not added and not removed and now == (last.mode, last.policy, last.section, last.ungated):
        return None
    return RequestHeaderDelta(lane, in_force.label, policy, added, removed, mark, ungated)

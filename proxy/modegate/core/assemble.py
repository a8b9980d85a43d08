"""The soft layer: the request as the model is to see it, and the event that says so."""

from __future__ import annotations

from typing import Any, Literal

from modegate.core.calls import digest
from modegate.core.dialects.base import Assembled, Dialect
from modegate.core.errors import Refusal
from modegate.core.events import NO_TOOLS, RUNS_TEXT, Event, RequestHeader, RequestHeaderDelta
from modegate.core.ids import Lane
from modegate.core.standing import Standing


def section_for(request: Any, standing: Standing) -> str:
    """Give the section that this request gets: none where it declares no tools, unless policy says.

    Raises:
        Refusal: policy refuses requests without tools in this mode.
    """
    if request.declares_tools:
        return standing.section
    wanted = {force.mode.without_tools for force in standing.forces}
    if "refuse" in wanted:
        raise Refusal(
            f"mode {standing.label!r} refuses requests that declare no tools "
            "(without_tools: refuse in policies.yaml)"
        )
    return standing.section if "guide" in wanted else ""


def assemble(
    dialect: Dialect,
    request: Any,
    lane: Lane,
    standing: Standing,
    *,
    text: Literal["held", "pass"] | None = None,
) -> tuple[Assembled, Event | None]:
    """Filter the tools, add the section; the event is None where the lane's last header says the same.

    `text`: for an agent that is known to run calls in text, whether these are `held` or `pass`.
    """
    section = section_for(request, standing)
    assembled = dialect.assemble(request, standing, section)
    if text is not None:
        ungated = RUNS_TEXT if text == "pass" else ""
    else:
        ungated = "" if request.declares_tools else NO_TOOLS
    return assembled, header_event(lane, assembled, section, standing, ungated)


def header_event(
    lane: Lane, assembled: Assembled, section: str, standing: Standing, ungated: str = ""
) -> RequestHeader | RequestHeaderDelta | None:
    """Log what the lane's model is shown: whole at first, then only what changes."""
    mark = digest(section) if section else ""
    policy = standing.policy.hash
    last = standing.state.lanes.get(lane)
    if last is None:
        return RequestHeader(lane, standing.label, policy, assembled.sent, mark, ungated)
    added = tuple(name for name in assembled.sent if name not in last.tools)
    removed = tuple(name for name in last.tools if name not in assembled.sent)
    now = (standing.label, policy, mark, ungated)
    if not added and not removed and now == (last.mode, last.policy, last.section, last.ungated):
        return None
    return RequestHeaderDelta(lane, standing.label, policy, added, removed, mark, ungated)

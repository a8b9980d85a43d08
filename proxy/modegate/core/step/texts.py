"""What modegate says to a model and, through an answer's text, to a person.

Tool names are written by models: they appear quoted, shortened and without line breaks. A refusal never
claims that a tool does not exist; it names the mode, the tool, what is allowed instead and how the mode
is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from modegate.core.ids import DEFAULT_MODE, ModeId, ToolName
from modegate.core.log.approvals import Approval, Status
from modegate.core.policy.in_force import ModeInForce
from modegate.core.policy.model import EXIT_TOOL
from modegate.core.step.answer.calls import Gathered
from modegate.core.step.answer.parts import Refused
from modegate.core.step.text_calls.shapes import SHAPES

MAX_NAMED = 12
"""Tools named in a refusal; more would only cost tokens."""

MAX_REASON = 300
"""Characters of a reason, which may quote what a model wrote."""


_SIGNS = frozenset("`{}<>:")
"""What calls in plain text are made of (`text_calls`): a quoted name must not become one."""


def phrase(reason: str) -> str:
    """Return a reason as data: on one line, shortened, and such that nothing in it reads as a call.

    It may quote a command, a path or the name of an argument, which a model wrote.
    """
    shown = reason if len(reason) <= MAX_REASON else reason[: MAX_REASON - 1] + "…"
    shown = "".join(c if c.isprintable() else "?" for c in shown)
    for shape in SHAPES:
        # Where one was made harmless, a shorter one can be left: three of four backquotes.
        while (found := shape.head.search(shown)) is not None:
            shown = f"{shown[: found.start()]}?{shown[found.start() + 1 :]}"
    return shown


REFUSED = "was refused"
"""In each refusal: what scripts, the demo and people who search a history look for."""

PLAN_WAITS = "[modegate] The plan waits for a person: modegate watch"
"""What an agent shows while nothing else comes; its model never finds it (`waiting_lines`)."""


def tool(name: str) -> str:
    """Quote a tool's name as data."""
    shown = "".join(c if c.isprintable() and c not in _SIGNS else "?" for c in name[:80])
    return f"`{shown}`" if shown else "a tool without a name"


def refusal(
    name: str, force: ModeInForce | None, reason: str, offered: Sequence[ToolName], *, leave: bool
) -> str:
    """Say to the model that its call was refused, as that call's result."""
    if force is None:
        return (
            f"This call {REFUSED} and did not run: {reason}, so there is nothing to leave. Go on."
        )
    mode = force.mode
    tools = [name for name in offered if name != EXIT_TOOL]
    if tools:
        more = ", and others" if len(tools) > MAX_NAMED else ""
        instead = (
            "Tools that this mode allows: " + ", ".join(map(tool, tools[:MAX_NAMED])) + more + "."
        )
    else:
        instead = "No tool is allowed in this mode: answer in text."
    way = (
        f"To leave the mode, call {tool(EXIT_TOOL)} with your whole plan: a person decides on it."
        if leave
        else "Only a person can change it, outside this conversation."
    )
    return (
        f"This call {REFUSED} and did not run: the session is in mode {mode.id!r} ({mode.name}), which "
        f"does not allow this call of {tool(name)} ({reason}). {instead} Do not try the call again; go on "
        f"within the mode. {way}"
    )


def in_place(name: str) -> str:
    """Say in an answer's text, in the place of a call that stood there, that it was refused."""
    return (
        f"[modegate] A call of {tool(name)} stood here in plain text. It {REFUSED} and did not run."
    )


def as_note(refusal: str, name: str) -> str:
    """Say to the model that a call in its text was refused, as a message, since there is no result."""
    return f"[modegate] Your text held a call of {tool(name)}. {refusal}"


def _listed(calls: Iterable[Gathered]) -> str:
    named = list(dict.fromkeys(tool(call.name) for call in calls))
    return ", ".join(named[:MAX_NAMED]) + (", and others" if len(named) > MAX_NAMED else "")


def by_provider(call: Gathered) -> str:
    """Say of what the provider runs by itself whether it has: of some items nobody knows."""
    return f"the provider {'has run' if call.has_run else 'may have run'} it by itself"


def _ran(calls: Sequence[Gathered]) -> str:
    """Return a phrase that names what the provider has run by itself, and what it may have run."""
    surely = [call for call in calls if call.has_run]
    others = [call for call in calls if not call.has_run]
    said = [f"has run {_listed(surely)}"] if surely else []
    said += [f"may have run {_listed(others)}"] if others else []
    return "the provider itself " + " and ".join(said)


def _where(refused: Sequence[Refused]) -> str:
    force = next((one.force for one in refused if one.force is not None), None)
    return f"mode {force.mode.id!r} ({force.mode.name})" if force else "default mode"


def closing(refused: Sequence[Refused]) -> str:
    """Say in the answer's text what was refused, where the model did not give in, and what is not shown."""
    notes = [one.note for one in refused if one.note]
    named = [one for one in refused if not one.note]
    calls = [one.call for one in named if not one.call.ran]
    ran = [one.call for one in named if one.call.ran]
    said: list[str] = []
    if calls:
        said.append(f"Refused in {_where(refused)}: {_listed(calls)}. Nothing of it ran.")
    if ran:
        said.append(
            f"Not shown in {_where(refused)}: what came of a tool that the mode does not allow;"
        )
        said.append(f"{_ran(ran)}.")
    said += dict.fromkeys(notes)
    open_ = [one for one in refused if one.force is not None and (one.leave or not one.note)]
    if open_:
        said.append(_way_out(leave=any(one.leave for one in open_)))
    return "[modegate] " + " ".join(said)


def no_plan(reason: str) -> str:
    """Say that a call of the exit tool was put to nobody."""
    return f"A plan was put to nobody: {reason}."


def _way_out(*, leave: bool) -> str:
    other = "a person sets another mode for this session"
    if not leave:
        return f"To allow it, {other}."
    return (
        f"To leave the mode, the model calls {tool(EXIT_TOOL)} with its whole plan, on which a person "
        f"decides; or {other}."
    )


def unshown(refused: Sequence[Refused]) -> str:
    """Return what tells the model what of its answer nobody was shown, or nothing.

    That has no result which could say so: the provider has run it, or nobody knows what it was.
    """
    ran = [one for one in refused if one.call.ran]
    if not ran:
        return ""
    way = f" {_way_out(leave=True)}" if any(one.leave for one in ran) else ""
    return (
        f"[modegate] In your answer {_ran([one.call for one in ran])}, which {_where(ran)} does not allow. "
        "It cannot be undone from here: neither the call nor what came of it was shown to the user or to the "
        f"agent. Go on without it, within the mode.{way}"
    )


def decided(approval: Approval, now: ModeId) -> tuple[str, str]:
    """Say what came of a question: to the model as its call's result, and to the client in short.

    `now` is the mode in force by then, which a person can have changed again since the answer.
    """
    what = "plan" if approval.asked.purpose == "exit" else "call"
    comment = f" The user says: «{approval.comment}»." if approval.comment else ""
    if approval.approved:
        rest = "Carry it out." if now == approval.to else "Go on within that mode."
        return (
            f"The user approved the {what}. The session is now in mode {str(now)!r}.{comment} {rest}",
            f"The {what} was approved; the session is in mode {str(now)!r}.",
        )
    if approval.status is Status.ANSWERED:
        rest = (
            "You are still in the same mode: revise the plan, or ask the user what to change. Nothing may be "
            "changed before an approval."
            if what == "plan"
            else "It did not run. Do not try it again as it is: ask the user what to change."
        )
        return (
            f"The user rejected the {what}.{comment} {rest}",
            f"The {what} was rejected.{comment}",
        )
    if approval.status is Status.DETACHED:
        return (
            f"The {what} was not approved: nobody answered ({approval.why}). It can still be answered later. "
            "You are still in the same mode: end your turn now and ask your user to approve or reject it.",
            f"The {what} was not approved: nobody answered. It can still be answered: "
            f"modegate approve {approval.asked.id}",
        )
    return (
        f"The {what} was not approved: the question was withdrawn ({approval.why}). Go on within the mode "
        "that the system text describes.",
        f"The {what} was not approved: the question was withdrawn.",
    )


def allowed_no_more() -> str:
    """Say that a call which a person allowed is no longer allowed by the mode in force."""
    return "This call was allowed by a person, but the mode changed meanwhile and refuses it. It did not run."


def not_asked() -> tuple[str, str]:
    """Say that a plan was put to nobody, since the mode changed while what came before it was decided."""
    return (
        "The user was not asked about this plan: the mode has changed meanwhile, so there is nothing to "
        "leave by it. Go on.",
        "A plan was put to nobody, since the mode had changed by then.",
    )


def notice(before: str, after: str) -> str:
    """Return what tells the model of a mode change made by a person."""
    if after == DEFAULT_MODE:
        rest = "All tools are available again; what was said of that mode before no longer holds."
    else:
        rest = "Its rules are in the system text."
    return f"[modegate] The user changed the mode from {before!r} to {after!r}. {rest}"

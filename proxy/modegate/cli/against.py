"""`modegate check --against`: what agents would lose under a policy, by what they were seen to do."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from modegate.cli.recordings import recorded
from modegate.cli.sessions import all_events, session_path
from modegate.core.errors import ModegateError
from modegate.core.ids import ModeId, ToolName
from modegate.server.printable import printable

if TYPE_CHECKING:
    from modegate.cli.control_client import ControlClient
    from modegate.cli.rehearsal import Rehearsal
    from modegate.core.policy.model import Mode, Policy

SHOWN_CALLS = 20
"""Calls of one agent that are printed; --json has all."""
SHOWN_ARGUMENTS = 90
LARGE = 5_000_000
"""Bytes from which on progress is shown."""

HEADS = {
    "kept": "stays",
    "partly": "stays, for some arguments",
    "asked": "asks a person",
    "lost": "goes",
}
"""How a tool can stand, and how that is told."""
CALLS = {
    "answer": "would be refused",
    "ask": "would wait for a person",
    "release": "would be released",
    "unknown": "would depend on the arguments, which the log does not hold",
}
"""What can become of a call."""


@dataclass(slots=True)
class Report:
    """What one mode would make of one agent, or of one lane of a session."""

    mode: str
    agent: str
    tools: dict[str, str]
    """How each stands: a key of `HEADS`."""
    calls: list[dict[str, Any]]
    """`tool`, `verdict`, `times`; where it is known `arguments`, `reason`, `was`."""
    notes: list[str] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """Return it as `--json` has it."""
        tools = {kind: sorted(n for n, is_ in self.tools.items() if is_ == kind) for kind in HEADS}
        head = {"mode": self.mode, "agent": self.agent}
        return {**head, "tools": tools, "calls": self.calls, "notes": self.notes}

    def text(self) -> Iterator[str]:
        """Yield its lines."""
        yield printable(f"mode {self.mode}, {self.agent}" if self.mode else self.agent)
        for kind, head in HEADS.items():
            names = sorted(name for name, stands in self.tools.items() if stands == kind)
            if names:
                yield printable(f"  {head} ({len(names)}): {', '.join(names)}")
        # What stays as it was says nothing.
        told = [one for one in self.calls if one["verdict"] != one.get("was", "release")]
        for verdict, head in CALLS.items():
            these = [one for one in told if one["verdict"] == verdict]
            if these:
                times = sum(one["times"] for one in these)
                yield f"  {times} call{'' if times == 1 else 's'} {head}:"
                yield from (f"    {_call_line(one)}" for one in these[:SHOWN_CALLS])
            if len(these) > SHOWN_CALLS:
                yield f"    … and {len(these) - SHOWN_CALLS} more; --json has all"
        yield from (printable(f"  note: {note}") for note in self.notes)


def _call_line(call: dict[str, Any]) -> str:
    arguments = call.get("arguments", "")
    if len(arguments) > SHOWN_ARGUMENTS:
        arguments = arguments[: SHOWN_ARGUMENTS - 1] + "…"
    times = f"{call['times']} × " if call["times"] > 1 else ""
    why = f": {call['reason']}" if call.get("reason") else ""
    return printable(f"{times}{call['tool']} {arguments}".rstrip() + why)


def of_capture(path: Path, policy: Policy, modes: Sequence[Mode], *, quiet: bool) -> list[Report]:
    """Report on a file of recorded requests, by agent and mode.

    Raises:
        OSError: it cannot be read.
    """
    from modegate.cli.rehearsal import Rehearsal, dialect_of

    found: dict[tuple[str, str], Rehearsal] = {}
    unread: Counter[str] = Counter()
    with _progress(path.stat().st_size, quiet=quiet) as progress:
        for one in recorded(path, progress):
            dialect = dialect_of(one.body, one.path) if one.body is not None else None
            if dialect is None:
                unread["lines hold no request that a mode holds"] += 1
                continue
            for mode in modes:
                key = (one.agent, mode.id)
                rehearsal = found.setdefault(key, Rehearsal(mode, one.agent, policy))
                try:
                    rehearsal.add(dialect, one.raw)
                except ModegateError as error:
                    unread[f"requests cannot be read: {error}"] += 1
    reports = [_rehearsed(one) for one in found.values()] or [Report("", path.name, {}, [])]
    if not found and not unread:
        reports[-1].notes.append("the file is empty")
    reports[-1].notes += [f"{number} {what}" for what, number in unread.items()]
    return reports


@contextmanager
def _progress(size: int, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Show on stderr how much of a large file was read; give what is told of each piece."""
    if quiet or size < LARGE:
        yield lambda _size: None
        return
    with click.progressbar(length=size, label="Reading", file=sys.stderr) as bar:
        yield bar.update


def _rehearsed(one: Rehearsal) -> Report:
    calls = [
        {
            "tool": call.tool,
            "arguments": call.arguments,
            "verdict": str(call.verdict),
            "reason": "" if call.verdict == "release" else call.reason,
            "times": times,
        }
        for call, times in one.calls.items()
    ]
    notes = [f"{number} requests would be refused: {why}" for why, number in one.refused.items()]
    if one.without_tools:
        what = "declare no tools, so that no rule holds what is read from their answers"
        notes.append(f"{one.without_tools} of {one.requests} requests {what}")
    if one.unreadable:
        notes.append(f"the calls of {one.unreadable} messages cannot be read")
    return Report(one.mode.id, one.agent, dict(sorted(one.tools.items())), calls, notes)


def of_session(
    client: ControlClient, session: str, policy: Policy, modes: Sequence[Mode]
) -> list[Report]:
    """Report on a session by its log, which holds of calls their names, and only a hash of the arguments.

    Without `modes`, those in force are meant. Where its lanes (loops of sub-agents) were shown other tools,
    each has a report, and the calls of all stand in the first.
    """
    path = session_path(session)
    state = client.get(path)
    in_force = state["inForce"]
    own = [policy.modes[ModeId(one)] for one in in_force.split("+") if one in policy.modes]
    if not modes and not own:
        raise click.ClickException(
            f"{session} is in {in_force!r}, which the file does not define: name a mode with --mode"
        )
    seen = _logged(client, path)
    agent = state["agent"] or session
    return [report for mode in modes or own for report in _by_lane(mode, agent, *seen)]


def _logged(
    client: ControlClient, path: str
) -> tuple[dict[str, list[str]], Counter[tuple[str, str]]]:
    """Return the tools that each lane was shown, and how often each call had which verdict."""
    from modegate.core.policy.model import NATIVE_EXITS, NO_TOOL

    no_rule = {*NATIVE_EXITS, NO_TOOL}
    lanes: dict[str, dict[str, None]] = {}
    judged: Counter[tuple[str, str]] = Counter()
    for event in all_events(client, f"{path}/events"):
        data = event["data"]
        if event["type"] == "call/judged" and data["tool"] not in no_rule:
            judged[data["tool"], data["verdict"]] += 1
        elif event["type"] in ("request/header", "request/header-delta"):
            shown = (*data.get("tools", ()), *data.get("added", ()), *data.get("left_out", ()))
            lane = lanes.setdefault(data["lane"], {})
            lane |= dict.fromkeys(name for name in shown if name not in no_rule)
    return {lane: sorted(names) for lane, names in lanes.items()}, judged


def _by_lane(
    mode: Mode, agent: str, lanes: dict[str, list[str]], judged: Counter[tuple[str, str]]
) -> Iterator[Report]:
    from modegate.cli.rehearsal import standing

    becomes = {"kept": "release", "asked": "ask", "lost": "answer", "partly": "unknown"}
    calls = [
        {
            "tool": tool,
            "verdict": becomes[standing(mode, ToolName(tool))],
            "was": was,
            "times": times,
        }
        for (tool, was), times in judged.items()
    ]
    notes = [] if lanes else ["it was never in a mode, and its log holds no tools"]
    # Lanes that were shown the same are told of once.
    apart: dict[tuple[str, ...], str] = {}
    for lane, names in lanes.items():
        apart.setdefault(tuple(names), lane)
    for shown, lane in (apart or {(): ""}).items():
        stand = {name: standing(mode, ToolName(name)) for name in shown}
        called = agent if len(apart) == 1 else f"{agent}, lane {lane}"
        yield Report(mode.id, called, stand, calls, notes)
        calls = []

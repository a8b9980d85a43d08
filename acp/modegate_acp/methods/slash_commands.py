"""What people type at this endpoint: `/mode`, `/status`, `/sessions`, `/help`. Pure.

The endpoint holds modes; prompts are for the agent. A person who types anything else is told so.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from modegate.core.ids import DEFAULT_MODE, SessionId
from modegate.core.log.approvals import Approval
from modegate.core.log.fold import State
from modegate.core.policy.gating import Held
from modegate.core.policy.model import Policy
from modegate.server.printable import printable

ABOUT = (
    "This is modegate. It holds the agent's mode outside the agent; it does not run prompts. Set the mode "
    "with your client's mode picker or here, and give prompts to the agent itself."
)
HELP = f"""{ABOUT}

- `/mode` shows the mode and those there are, `/mode NAME` sets it
- `/status` shows the mode and what waits for your answer
- `/sessions` lists the sessions
- `/help` shows this"""


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """A command: its name without the slash, and what follows it."""

    name: str
    rest: str = ""

    @property
    def sets(self) -> bool:
        """Whether it sets a mode."""
        return self.name == "mode" and bool(self.rest)


def read_slash_command(text: str) -> SlashCommand | None:
    """Read a command; None for any other text."""
    first, _, rest = text.strip().partition(" ")
    known = {"/mode", "/status", "/sessions", "/help"}
    return SlashCommand(first[1:], rest.strip()) if first in known else None


def mode_text(policy: Policy, state: State, held: Held) -> str:
    """Say which mode is in force, by whom, and which there are."""
    names = (state.mode, *(one.mode for one in held.by))
    in_force = {name for name in names if name != DEFAULT_MODE} or {DEFAULT_MODE}
    rows = [_row(DEFAULT_MODE, "no policy", in_force)]
    rows += [_row(one.id, one.description or one.name, in_force) for one in policy.modes.values()]
    return "\n".join([f"Mode: {held.told(state.mode)}", "", *rows])


def _row(mode: str, about: str, in_force: Collection[str]) -> str:
    return f"- `{mode}`{' (in force)' if mode in in_force else ''}: {about}"


def status_text(session: SessionId, state: State, held: Held, questions: Sequence[Approval]) -> str:
    """Say how a session stands."""
    mode = f"Mode: {held.told(state.mode)} (event {state.mode_seq} of {state.seq})"
    lines = [f"Session: {session}", mode]
    if state.opened is not None and state.opened.agent:
        lines.append(f"Agent: {printable(state.opened.agent)}")
    lines.append(f"Open questions: {len(questions)}")
    lines += [f"- {printable(one.asked.tool)} ({one.asked.id})" for one in questions]
    return "\n".join(lines)


def sessions_text(rows: Sequence[tuple[SessionId, str, str]]) -> str:
    """List sessions as (id, mode, agent), newest first."""
    if not rows:
        return "There are no sessions yet."
    return "\n".join(
        f"- `{name}`: {mode}{f' ({printable(agent)})' if agent else ''}"
        for name, mode, agent in rows
    )

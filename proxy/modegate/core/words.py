"""What modegate says to a model and, through an answer's text, to a person.

Tool names are written by models: they appear quoted, shortened and without line breaks. A refusal never
claims that a tool does not exist; it names the mode, the tool, what is allowed instead and how the mode
is left.
"""

from __future__ import annotations

from collections.abc import Sequence

from modegate.core.ids import ToolName
from modegate.core.standing import Force

MAX_NAMED = 12
"""Tools named in a refusal; more would only cost tokens."""

MAX_REASON = 300
"""Characters of a reason, which may quote what a model wrote."""


def tool(name: str) -> str:
    """Quote a tool's name as data."""
    shown = "".join(c if c.isprintable() and c != "`" else "?" for c in name[:80])
    return f"`{shown}`" if shown else "a tool without a name"


def refusal(name: str, force: Force, reason: str, offered: Sequence[ToolName]) -> str:
    """Say to the model that its call was refused, as that call's result."""
    mode = force.mode
    if offered:
        more = ", and others" if len(offered) > MAX_NAMED else ""
        instead = (
            "Tools that this mode allows: " + ", ".join(map(tool, offered[:MAX_NAMED])) + more + "."
        )
    else:
        instead = "No tool is allowed in this mode: answer in text."
    return (
        f"This call was refused and did not run: the session is in mode {mode.id!r} ({mode.name}), which "
        f"does not allow this call of {tool(name)} ({reason}). {instead} Do not try the call again; go on "
        "within the mode. Only a person can change it, outside this conversation."
    )


def closing(names: Sequence[str], force: Force) -> str:
    """Say in the answer's text what was refused, where the model did not give in."""
    named = list(dict.fromkeys(tool(name) for name in names))
    listed = ", ".join(named[:MAX_NAMED]) + (", and others" if len(named) > MAX_NAMED else "")
    mode = force.mode
    return (
        f"[modegate] Refused in mode {mode.id!r} ({mode.name}): {listed}. Nothing of it ran. "
        "To allow it, a person sets another mode for this session."
    )

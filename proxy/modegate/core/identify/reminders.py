"""What agents wrap around a user's words, taken off: the same message then always reads the same.

Agents put `<system-reminder>` blocks into user messages and later drop or move them, one marks the first
message of a plan with `[[PLAN]]`, and one puts the whole prompt in quotes.
"""

from __future__ import annotations

from collections.abc import Iterable

_OPENS = "<system-reminder>"
_CLOSES = "</system-reminder>"
_PLAN = "[[PLAN]]"
_AROUND = " \t\r\n\"'"


def without_reminders(text: str) -> str:
    """Take out every reminder block; one that is not closed stays."""
    kept: list[str] = []
    at = 0
    # A regular expression would look for the closing tag again from every opening one.
    while (opens := text.find(_OPENS, at)) >= 0 and (closes := text.find(_CLOSES, opens)) >= 0:
        kept.append(text[at:opens])
        at = closes + len(_CLOSES)
    kept.append(text[at:])
    return "".join(kept)


def plain(text: str) -> str:
    """Return a user's words alone: no reminder blocks, plan mark, quotes or white space around them."""
    return without_reminders(text).strip(_AROUND).removeprefix(_PLAN).strip(_AROUND)


def plain_parts(parts: Iterable[str]) -> str:
    """Return the words of a message of several text parts; parts that hold nothing else leave no trace."""
    return "\n".join(words for part in parts if (words := plain(part)))

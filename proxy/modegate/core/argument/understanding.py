"""What all readers of arguments share: their one exception, and how a refusal quotes an argument."""

from __future__ import annotations

QUOTED = 60
"""Characters of an argument that a refusal quotes."""


class NotUnderstood(ValueError):
    """An argument that is not understood completely, so that no rule may release it.

    Its text is a phrase for the model, which also goes to the log and to people: "`sort -o` writes".
    """


def quoted(text: str) -> str:
    """Return the beginning of an argument's first line, as a refusal quotes it: a model wrote it."""
    line = text.partition("\n")[0]
    end = "…" if len(line) > QUOTED else ""
    shown = "".join(c if c.isprintable() else "?" for c in line[:QUOTED])
    return f"`{shown.replace('`', chr(39))}{end}`"

"""The one exception of all readers of arguments."""

from __future__ import annotations


class NotUnderstood(ValueError):
    """An argument that is not understood completely, so that no rule may release it.

    Its text is a phrase for the model, which also goes to the log and to people: "`sort -o` writes".
    """

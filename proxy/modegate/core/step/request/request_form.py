"""In which form a request goes out, as far as that is modegate's to choose.

Mode, tools and section are none of it: they are the same in each form.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

MAX_MODEL = 256
"""Characters of a model's name under which something is remembered."""

Thoughts = bool | None
"""How what a model thought goes back in the turns that modegate puts in: True, all of it as it came; False,
none of it; None, as the agent does with its own turns, and all where it has sent none yet."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How an upstream takes the turns that modegate puts in."""

    thoughts: Thoughts = None
    empty: bool | None = None
    """What stands for the text of a turn that only calls: True, an empty one; False, none; None, what the
    agent writes in its own turns, and none where it has sent no such turn yet."""


@dataclass(frozen=True, slots=True)
class Form:
    """One form."""

    manner: Manner = field(default_factory=Manner)
    notices: bool = True
    """Sentences stand in the history that tell of mode changes."""
    withheld: bool = True
    """What was withheld stands in it."""
    chained: bool = True
    """Hops go on from what the provider says that it keeps."""


class _Request(Protocol):
    def value(self, key: str) -> Any: ...


def model_of(request: _Request) -> str:
    """Return the model that a request asks; empty where none is named."""
    name = request.value("model")
    return name if isinstance(name, str) and len(name) <= MAX_MODEL else ""

"""One event of a stream, as the writer needs it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False, slots=True)
class MessagesFrame:
    """One frame as the writer needs it."""

    raw: bytes
    data: bytes = b""
    event: bytes = b""
    kind: str = ""
    """The event's type; empty for a comment."""
    own: bool = False
    """It came in another form, so that its lines are ours."""
    index: int = 0
    reason: str | None = None
    """Why the answer ended, as this frame says."""
    usage: dict[str, Any] = field(default_factory=dict)
    """What the hop cost by now."""

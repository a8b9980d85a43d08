"""What of an answer has passed unread, kept so that it can be read from its middle on.

In the default mode nothing is read. If a person tightens the session while an answer passes, what comes
from then on is judged (L8), and to know what a frame means one must have read those in front of it.
"""

from __future__ import annotations

MAX_PASSED = 2 * 2**20
"""Bytes kept of one answer, some ten thousand tokens; a longer one is cut off where it cannot be read."""


class Passed:
    """The bytes of one answer that its client has got; adding costs next to nothing."""

    __slots__ = ("pieces", "size")

    def __init__(self) -> None:
        """Begin an answer."""
        self.size = 0
        """Bytes that are kept."""
        self.pieces: list[bytes] | None = []
        """None once they are too many."""

    def add(self, piece: bytes) -> None:
        """Take what was sent."""
        if self.pieces is not None:
            self.pieces.append(piece)
            self.size += len(piece)
            if self.size > MAX_PASSED:
                self.forget()

    def forget(self) -> None:
        """Keep nothing any more: there is no room."""
        self.pieces = None
        self.size = 0

"""How many bytes all steps of a process hold at once: request bodies, and answers that are held back.

Each body has a limit of its own, but many at once would use up the process's memory. So a step takes its
share before it keeps bytes. If none is left, its client is told to try again.
"""

from __future__ import annotations

from modegate.core.errors import Overloaded

COPIES = 3
"""Copies of its request that a gated step holds beside the bytes that came: readable, with what is put
back, and as the model is shown it."""


class Memory:
    """What all steps hold; one instance a process."""

    def __init__(self) -> None:
        self.held = 0


class Share:
    """What one step holds."""

    def __init__(self, memory: Memory, limit: int) -> None:
        """Begin with nothing held; `limit` is for all steps together (`limits.memory`)."""
        self._memory = memory
        self._limit = limit
        self._request = 0
        self._answer = 0

    def take(self, size: int) -> None:
        """Hold so many more bytes of the request.

        Raises:
            Overloaded: all steps together would hold more than the limit.
        """
        self._grow(size)
        self._request += size

    def answer(self, size: int) -> None:
        """Hold so many bytes of an answer, instead of those before.

        Raises:
            Overloaded: as above.
        """
        if size != self._answer:
            self._grow(size - self._answer)
            self._answer = size

    def _grow(self, size: int) -> None:
        if size > 0 and self._memory.held + size > self._limit:
            raise Overloaded(
                f"all steps together would hold over {self._limit} bytes (limits.memory); try again"
            )
        self._memory.held += size

    def give_back(self) -> None:
        self._memory.held -= self._request + self._answer
        self._request = self._answer = 0

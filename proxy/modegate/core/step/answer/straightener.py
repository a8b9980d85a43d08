"""Streams of loose servers, brought into the one form that every client reads alike.

Servers leave blocks open, let items stand side by side, leave out an index, an id, an end. A straightener
stands in front of all that reads an answer: it takes frames as they come and gives them in the API's own
form, one block or item behind the other. What was straight leaves as it came. It decides nothing: what it
gives is read, judged and written like any answer, so that a client gets what was judged and nothing else.
A call of which servers could mean two things is given with a doubt, and refused for it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol

from modegate.core.step.answer.calls import SIGNATURE, digest
from modegate.core.wire.sse import Frame


@dataclass(frozen=True, slots=True)
class Straight(Frame):
    """A frame that came in another form, or not at all."""

    doubt: str = ""
    """Why the call that it is of cannot be read; empty if it can."""


class Straightener(Protocol):
    """What a dialect has in front of its reader, for one hop."""

    @property
    def waiting(self) -> int:
        """Bytes of calls that are not complete, and of what stands behind them."""

    def take(self, frame: Frame) -> list[Frame]:
        """Take a frame, and give those that may be read now.

        Raises:
            TooLarge: more would wait than may be held back.
        """

    def passed(self) -> None:
        """Take that the client has all that came so far, as it came."""

    def end(self) -> list[Frame]:
        """Take the end of the stream, and give what is left of it."""


class Ids:
    """Ids of our own, for calls that have none, or that of another call."""

    def __init__(self, seed: str, taken: Collection[str], *, renames: bool = True) -> None:
        """Begin a hop: `seed` tells it from others, `taken` are the ids of calls in its history.

        Without `renames` each stays as it is: a provider that keeps the answer goes by it.
        """
        self._seed = seed
        self._renames = renames
        self._taken = set(taken)
        self._made = 0

    def own(self, given: Any, prefix: str) -> str | None:
        """Return the id that a call needs in the place of the given one; None if that will do."""
        if not self._renames or (given not in (None, "") and not isinstance(given, str)):
            return None  # what is no id at all is refused for it
        if given and given not in self._taken:
            self._taken.add(given)
            return None
        self._made += 1
        # A signature in an id is wanted back as it was.
        _, sign, signature = (given or "").partition(SIGNATURE)
        name = f"{prefix}{digest(f'{self._seed}/{self._made}')}{sign}{signature}"
        self._taken.add(name)
        return name

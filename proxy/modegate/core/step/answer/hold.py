"""What of a streamed answer may go to the client, and when.

Live parts go the moment they come. Parts of calls are held until the calls are complete and judged: then
they leave in order, or not at all. If the API numbers its items (`StreamReader.ordered`), everything after
a held call waits for that call. The finish of a choice is deferred while it depends on what becomes of the
choice's refused calls, and so is everything after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import takewhile

from modegate.core.errors import TooLarge
from modegate.core.step.answer.calls import Gathered
from modegate.core.step.answer.gate import release_all, withhold_all
from modegate.core.step.answer.parts import ChoiceRead, Kind, Part, StreamReader


class Hold:
    """The parts of one hop on their way to the client."""

    def __init__(self, reader: StreamReader, limit: int, *, defer: bool) -> None:
        """Hold back at most `limit` bytes; with `defer`, every finish waits for the end."""
        self.reader = reader
        self._limit = limit
        self.defer = defer
        self._queue: deque[Part] = deque()
        self._held: list[Part] = []
        self.size = 0
        """Bytes that are held back."""
        self.deferred: list[Part] = []
        """Finishes and what follows them, in order."""
        self.done: Part | None = None
        """The end of the answer, once it is reached."""
        self.failed = False
        """That end is an error of the upstream."""

    def take(self, parts: Iterable[Part]) -> None:
        self._queue.extend(parts)

    def advance(self) -> list[Part]:
        """Return the parts that may go now; stops where calls must be judged (`to_judge`) or at the end."""
        out: list[Part] = []
        while self._queue and self.done is None:
            part = self._queue[0]
            if part.kind is not Kind.LIVE and self._unjudged(part):
                break
            self._queue.popleft()
            self._pass(part, out)
        return out

    def to_judge(self) -> list[Gathered]:
        """Return the calls that are complete and have no verdict yet."""
        return self._unjudged(self._queue[0]) if self._queue and self.done is None else []

    @property
    def holding(self) -> bool:
        """Whether some call is held back."""
        return bool(self._held)

    @property
    def holds_words(self) -> bool:
        """Whether something other than a call waits for the verdict on a call."""
        return any(part.kind is Kind.LIVE for part in (*self._held, *self._queue))

    def all_held(self) -> list[Part]:
        """Return all that is held back, with the calls that nobody has refused."""
        release_all(self._pending())
        rest = [
            part
            for part in (*self._held, *self._queue)
            if part.kind not in (Kind.CALL, Kind.DROPPED) or _goes(part)
        ]
        rest += self.deferred
        self._held, self.deferred = [], []
        self._queue.clear()
        return rest

    def _pending(self) -> list[Gathered]:
        calls = (call for choice in self.reader.choices.values() for call in choice.calls)
        return [call for call in calls if call.pending]

    def _unjudged(self, part: Part) -> list[Gathered]:
        choices: Iterable[ChoiceRead] = ()
        if part.kind is Kind.FINISH:
            choices = (self.reader.choices[part.choice],)
        elif part.kind is Kind.DONE:
            choices = self.reader.choices.values()
        ends = (call for call in part.ends if not call.awaits_end)
        calls = [*ends, *(call for choice in choices for call in choice.calls)]
        return [call for call in calls if call.pending]

    def _pass(self, part: Part, out: list[Part]) -> None:
        if part.kind is Kind.LIVE:
            (self._hold if self._waits(part) else out.append)(part)
        elif part.kind in (Kind.CALL, Kind.DROPPED):
            if not all(call.withheld for call in part.calls):
                self._hold(part)
            if self.reader.ordered:
                self._drain(out)
        elif part.kind is Kind.FINISH:
            self._release(part.choice, out)
            # A finish that says "calls were made" makes agents loop or fail if no call goes with it.
            part.stop = not self.reader.choices[part.choice].released()
            if self.defer or self.reader.choices[part.choice].refused():
                self._put_off(part)
            else:
                out.append(part)
        elif part.kind is Kind.TAIL:
            (self._put_off if self.deferred else out.append)(part)
        else:
            self._end(part, out)

    def _end(self, part: Part, out: list[Part]) -> None:
        self.done = part
        if part.kind is Kind.DONE:
            self._release(None, out)
            return
        # What is held of an answer that failed goes nowhere, and nobody is asked about it.
        withhold_all(self._pending())
        self._held, self.deferred, self.size = [], [], 0
        self._queue.clear()
        self.failed = True
        out.append(part)

    def _waits(self, part: Part) -> bool:
        if self.reader.ordered:
            return bool(self._held)
        # A frame that holds text, calls and their finish is judged at once and can stay whole.
        kinds = {other.kind for other in part.frame.parts if other.choice == part.choice}
        return {Kind.CALL, Kind.FINISH} <= kinds

    def _hold(self, part: Part) -> None:
        self._held.append(part)
        self._grow(part)

    def _put_off(self, part: Part) -> None:
        self.deferred.append(part)
        self._grow(part)

    def _grow(self, part: Part) -> None:
        self.size += part.size
        if self.size > self._limit:
            raise over(self._limit)

    def _drain(self, out: list[Part]) -> None:
        """Let everything go that stands in front of the first pending call."""
        front = list(
            takewhile(lambda part: not any(call.pending for call in part.calls), self._held)
        )
        del self._held[: len(front)]
        self._leave(front, out)

    def _release(self, choice: int | None, out: list[Part]) -> None:
        goes = [part for part in self._held if choice in (None, part.choice)]
        self._held = [part for part in self._held if choice not in (None, part.choice)]
        self._leave(goes, out)

    def _leave(self, parts: Sequence[Part], out: list[Part]) -> None:
        self.size -= sum(part.size for part in parts)
        out += [part for part in parts if _goes(part)]


def over(limit: int) -> TooLarge:
    """Return the error of an answer of which more would be held back."""
    return TooLarge(f"over {limit} bytes of the answer are held back (limits.held)")


def _goes(part: Part) -> bool:
    return part.kind is Kind.LIVE or any(call.released for call in part.calls)

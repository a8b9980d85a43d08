"""Where the core decides: on the event loop, or in a thread if there is much to read.

The core is pure, and a step asks it one thing at a time, so any thread will do. Reading a body of some
megabytes takes as long as a hundred small requests. In a thread, it shares the interpreter with the loop,
which then waits for a turn of `SWITCH_S` instead of for the end.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

Result = TypeVar("Result")
Given = TypeVarTuple("Given")

LARGE = 256 * 2**10
"""Bytes from which on a thread pays off. A thread costs some 0.1 ms; the worst text below takes some 50
ms."""

HUGE = 4 * 2**20
"""Bytes from which on a text waits in a queue of its own, so that everyday requests do not wait behind it."""

SWITCH_S = 0.001
"""How long a thread keeps the interpreter from the loop (`sys.setswitchinterval`)."""


def share_turns() -> None:
    """Let the loop have its turn soon while threads read; for the whole process."""
    sys.setswitchinterval(SWITCH_S)


class Executor:
    """Runs functions of the core; one instance a process."""

    def __init__(self) -> None:
        """Start no thread yet. Each queue has one: more would only take turns with each other."""
        self._large = ThreadPoolExecutor(1, "modegate-large")
        self._huge = ThreadPoolExecutor(1, "modegate-huge")

    async def __call__(
        self, size: int, decide: Callable[[*Given], Result], *given: *Given
    ) -> Result:
        """Return what `decide` returns for these arguments; `size` is how many bytes it may read.

        A caller that is cancelled waits for its end: what is being read must not be released before.
        """
        if size < LARGE:
            return decide(*given)
        work = (self._huge if size >= HUGE else self._large).submit(decide, *given)
        done = asyncio.wrap_future(work)
        try:
            try:
                await asyncio.wait([done])
            except asyncio.CancelledError:
                if not work.cancel():
                    await asyncio.wait([done])
                    done.exception()  # or it would be complained about that nobody has looked
                raise
            return done.result()
        finally:
            # What it raised has this frame, which would keep what has raised it.
            del work, done

    def close(self) -> None:
        """Take no more work; what is under way ends by itself."""
        for pool in (self._large, self._huge):
            pool.shutdown(wait=False, cancel_futures=True)

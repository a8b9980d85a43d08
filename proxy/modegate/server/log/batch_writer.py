"""Records that nothing depends on, written in batches off the path of a request.

`call/judged` of released calls and the rows of the index may be written after what they tell of. What cannot
be written is counted and reported. Nothing waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress

from modegate.core.errors import ModegateError
from modegate.core.ids import SessionKey
from modegate.core.log.records import Entry
from modegate.server.clock import Clock
from modegate.server.log.folds import Folds
from modegate.server.log.protocol import Seen

logger = logging.getLogger(__name__)

PERIOD_S = 0.05
"""How long a record may wait for others."""

BATCH = 200
"""Events that are written without waiting longer."""

MAX_WAITING = 10_000
"""Events kept while the store is slow; more are lost."""

TOUCH_EVERY_S = 5.0
"""How often the index is told of a session that keeps sending requests in the same way."""

MAX_TOUCHED = 10_000
REPORT_EVERY_S = 60.0


class BatchWriter:
    """Collects records and rows of the index, and writes them while `run` runs."""

    def __init__(self, folds: Folds, clock: Clock) -> None:
        self.lost = 0
        """Events that were not written, or of which nobody knows whether they were."""
        self._folds = folds
        self._clock = clock
        self._entries: dict[SessionKey, list[Entry]] = {}
        self._waiting = 0
        self._touches: dict[SessionKey, Seen] = {}
        self._touched: OrderedDict[SessionKey, tuple[str, str, float]] = OrderedDict()
        self._some = asyncio.Event()
        self._enough = asyncio.Event()
        self._writing = asyncio.Lock()
        self._stopped = False
        self._unreported = 0
        self._report_at = 0.0

    def record(self, key: SessionKey, entries: Sequence[Entry]) -> None:
        """Take events to be appended soon."""
        if self._waiting + len(entries) > MAX_WAITING:
            self._lose(len(entries), "too many are waiting")
            return
        self._entries.setdefault(key, []).extend(entries)
        self._waiting += len(entries)
        self._some.set()
        if self._waiting >= BATCH:
            self._enough.set()

    def touch(self, seen: Seen) -> None:
        """Take a row of the index; dropped if the same was noted within `TOUCH_EVERY_S`."""
        now = self._clock.monotonic()
        agent, how, at = self._touched.get(seen.key, ("", "", 0.0))
        if (agent, how) == (seen.agent, seen.how) and now - at < TOUCH_EVERY_S:
            return
        self._touched[seen.key] = (seen.agent, seen.how, now)
        self._touched.move_to_end(seen.key)
        if len(self._touched) > MAX_TOUCHED:
            self._touched.popitem(last=False)
        self._touches[seen.key] = seen
        self._some.set()

    async def run(self) -> None:
        """Write what comes, until `stop` is called and all is written."""
        try:
            while not self._stopped:
                await self._some.wait()
                with suppress(TimeoutError):
                    async with asyncio.timeout(PERIOD_S):
                        await self._enough.wait()
                await self.flush()
        finally:
            await self.flush()

    def stop(self) -> None:
        """Let `run` write what is there and end."""
        self._stopped = True
        self._some.set()
        self._enough.set()

    async def flush(self) -> None:
        """Write all that was taken before, and wait for what is being written already."""
        async with self._writing:
            await self._write_taken()

    async def _write_taken(self) -> None:
        entries, self._entries = self._entries, {}
        touches, self._touches = self._touches, {}
        self._waiting = 0
        if not self._stopped:
            self._some.clear()
            self._enough.clear()
        async with asyncio.TaskGroup() as group:
            if touches:
                group.create_task(self._write_touches(list(touches.values())))
            for key, batch in entries.items():
                group.create_task(self._write(key, batch))

    async def _write(self, key: SessionKey, batch: list[Entry]) -> None:
        try:
            await self._folds.append(key, batch)
        except ModegateError as error:
            self._lose(len(batch), str(error))
        except BaseException:
            self._lose(len(batch), "interrupted")
            raise

    async def _write_touches(self, touches: list[Seen]) -> None:
        try:
            await self._folds.log.touch(touches)
        except ModegateError:
            # Not counted: the next request of each session notes it again.
            for seen in touches:
                self._touched.pop(seen.key, None)

    def _lose(self, count: int, why: str) -> None:
        self.lost += count
        self._unreported += count
        now = self._clock.monotonic()
        if now >= self._report_at:
            logger.warning("%d records were not written to the log: %s", self._unreported, why)
            self._unreported, self._report_at = 0, now + REPORT_EVERY_S

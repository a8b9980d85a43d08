"""A process that appends to a session's log with compare-and-append and says what was acknowledged.

    python -m support.log_writer URL SESSION NAME COUNT

It says `ready`, waits for a line, then sets the modes NAME-1, NAME-2 … and writes each one's seq when it
has been acknowledged. COUNT 0: until it is killed.
"""

from __future__ import annotations

import asyncio
import itertools
import sys

from modegate.core.errors import Conflict
from modegate.core.ids import ModeId, Seq
from modegate.core.log.events import ModeSet
from modegate.core.log.fold import fold_all
from modegate.server.log.open import open_log
from modegate.server.log.protocol import EventLog
from support.stores import entry, key_of


async def append(log: EventLog, session: str, mode: str) -> Seq:
    """Append one event at the log's end, wherever that is."""
    key = key_of(session)
    while True:
        end = fold_all(await log.read(key)).seq
        try:
            return await log.append(key, [entry(ModeSet(ModeId(mode)))], expect=end)
        except Conflict:
            continue


async def main(url: str, session: str, name: str, count: int) -> None:
    """Write as the module says."""
    log = open_log(url)
    await log.ping()
    print("ready", flush=True)  # noqa: T201 -- the protocol of this process
    await asyncio.to_thread(sys.stdin.readline)
    for n in range(1, count + 1) if count else itertools.count(1):
        print(await append(log, session, f"{name}-{n}"), flush=True)  # noqa: T201
    await log.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))

"""What waits for news of a session."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

from modegate.server.clock import SystemClock
from modegate.server.log.batch_writer import BatchWriter
from modegate.server.log.folds import Folds
from modegate.server.log.sqlite import EmbeddedLog
from modegate.server.policies import Policies
from modegate.server.proxy.sessions import Sessions
from modegate.server.proxy.watchers import Watchers
from support.stores import key_of, mode_set
from support.waiting import PATIENCE

S = key_of("s")


async def test_the_end_of_the_process_is_no_change_of_a_mode(tmp_path: Path) -> None:
    """Who waits for a person looks; an answer that passes needs no log to go on to its end."""
    log = EmbeddedLog(tmp_path / "log.db", SystemClock())
    folds = Folds(log, SystemClock())
    sessions = Sessions(log, folds, BatchWriter(folds, SystemClock()), SystemClock())
    watchers = Watchers(log)
    # Nobody looks at a policy here.
    with (
        watchers.watch(sessions, cast(Policies, None), S) as watch,
        watchers.wake(S) as woken,
    ):
        watchers.wake_all()
        assert woken.is_set()
        assert not watch.mark.changed
        woken.clear()
        watchers.changed(S)
        assert woken.is_set()
        assert watch.mark.changed
    await log.close()


async def test_a_watcher_that_comes_late_is_told_what_it_may_have_missed(tmp_path: Path) -> None:
    """It follows the feed only while a step is under way, and its first look tells everybody."""
    log = EmbeddedLog(tmp_path / "log.db", SystemClock())
    watchers = Watchers(log)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        task = group.create_task(watchers.run())
        with watchers.wake(S) as woken:
            await woken.wait()
        with watchers.wake(S) as woken:
            await log.append(S, [mode_set("plan")])
            await woken.wait()
        task.cancel()
    await log.close()

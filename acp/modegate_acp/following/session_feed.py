"""What the log brings, to every connection of this process that follows the session.

One task reads the feed. A mode's event comes this way in the log's order, whoever set it, on whichever
process. A session's state is read once for all its followers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Set
from typing import Any, Protocol

from modegate.core.errors import LogUnavailable, ModegateError
from modegate.core.ids import SessionId, SessionKey
from modegate.core.log.fold import State
from modegate.core.policy.gating import ALONE, Held
from modegate.server.extension import Services
from modegate.server.log.feed import FeedFollower
from modegate.server.proxy.sessions import held_by
from modegate_acp.following.catch_up import Snapshot

logger = logging.getLogger(__name__)

TICK_S = 1.0
"""How often the connections are asked what else is due."""


class Follower(Protocol):
    """Who is told what the log brings."""

    def offer(self, snapshot: Snapshot) -> None:
        """Take the newest of a session, to be told when there is room."""

    def expired(self, now_ms: int) -> list[SessionId]:
        """Return the sessions in which a question that was asked has expired."""

    def may_answer(self, session: SessionId, name: str) -> bool:
        """Return whether its person can still answer a question, or is about to be asked."""


class SessionFeed:
    """The followers of this process, and the tasks that run for them."""

    def __init__(self, services: Services, on_tick: Callable[[], None]) -> None:
        """Follow nothing yet; `on_tick` is called about once a second while `run` runs."""
        self._services = services
        self._on_tick = on_tick
        self._followers: dict[SessionKey, set[Follower]] = {}
        self._someone = asyncio.Event()
        self._stopped = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._changes = FeedFollower(services.log)
        self._children: dict[SessionKey, set[SessionKey]] = {}
        self._parents: dict[SessionKey, set[SessionKey]] = {}
        self._missed: set[SessionKey] = set()
        """Sessions whose newest state could not be read."""

    def attach(self, key: SessionKey, follower: Follower) -> None:
        """Offer the follower what the log brings about a session, from now on."""
        self._followers.setdefault(key, set()).add(follower)
        self._someone.set()

    def detach(self, key: SessionKey, follower: Follower) -> None:
        followers = self._followers.get(key)
        if followers is not None:
            followers.discard(follower)
            if not followers:
                del self._followers[key]
                self._note(key, ALONE)

    def followers(self, key: SessionKey) -> frozenset[Follower]:
        return frozenset(self._followers.get(key, ()))

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something to its end; its failure is logged and ends nothing else."""
        if self._group is None:
            work.close()
            raise RuntimeError("the feed does not run")
        task = self._group.create_task(_logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def retry(self, key: SessionKey) -> None:
        """Show a session anew, as soon as its state can be read."""
        self._missed.add(key)

    def refresh_all(self) -> None:
        """Show every followed session anew: the policy has changed."""
        self._missed.update(self._followers)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            feeding = group.create_task(self._feed())
            ticking = group.create_task(self._tick())
            await self._stopped.wait()
            self._group = None
            for task in (feeding, ticking, *self._tasks):
                task.cancel()

    def stop(self) -> None:
        self._stopped.set()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._on_tick()

    async def _feed(self) -> None:
        while True:
            await self._idle()
            try:
                await self._show(await self._changed())
            except LogUnavailable as error:
                await self._changes.pause(error, "clients of /acp are told nothing new")

    async def _idle(self) -> None:
        """While nobody follows anything, leave the log alone; what happened then is read afterwards."""
        if not self._followers:
            self._someone.clear()
            self._changes.restart()
            await self._someone.wait()

    async def _changed(self) -> Set[SessionKey]:
        changed = await anext(self._changes)
        return set(self._followers) if changed.every else changed.keys | self._expired()

    def _expired(self) -> set[SessionKey]:
        now = self._services.clock.now_ms()
        return {
            key
            for key, followers in self._followers.items()
            if any(key.session in one.expired(now) for one in followers)
        }

    async def _show(self, keys: Set[SessionKey]) -> None:
        # A child is shown its parents' modes, too.
        self._missed |= keys | {child for key in keys for child in self._children.get(key, ())}
        for key in sorted(self._missed & self._followers.keys(), key=str):
            try:
                snapshot = await read_snapshot(self._services, key)
            except LogUnavailable:
                raise
            except ModegateError as error:
                logger.warning("session %s cannot be shown: %s", key, error)
            else:
                self._note(key, snapshot.held)
                for follower in self.followers(key):
                    follower.offer(snapshot)
            self._missed.discard(key)
        self._missed &= self._followers.keys()

    def follow_parents(self, key: SessionKey, held: Held) -> None:
        """Offer a session's state also when one of its parents changes."""
        self._note(key, held)
        if held.parents:
            # One may have changed since it was looked at.
            self._missed.add(key)

    def _note(self, child: SessionKey, held: Held) -> None:
        parents = {SessionKey(child.tenant, parent) for parent in held.parents}
        for parent in self._parents.pop(child, set()) - parents:
            self._children[parent].discard(child)
            if not self._children[parent]:
                del self._children[parent]
        if parents:
            self._parents[child] = parents
        for parent in parents:
            self._children.setdefault(parent, set()).add(child)


async def snapshot_of(services: Services, key: SessionKey, state: State) -> Snapshot:
    held = await held_by(services.folds, key, state)
    return Snapshot(key.session, state, services.policies.current, held)


async def read_snapshot(services: Services, key: SessionKey) -> Snapshot:
    return await snapshot_of(services, key, await services.folds.state(key))


async def _logged(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception:
        logger.exception("a task of /acp failed")

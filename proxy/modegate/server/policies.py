"""The policy in force: loaded at start, watched, swapped when the file's content changes.

One mechanism notices every way of writing: twice a second the file is opened by its name and read, and
its digest compared. Opening by name follows whatever the name leads to now, so it sees a write in place,
a rename over it, an editor that moves the old file away first, and the swap of a symlink anywhere on the
path, as Kubernetes does for a ConfigMap; on a network file system, opening is also what makes the client
ask for news. Waiting for events fails at several of these (the old inode is watched, or the wrong
folder), and comparing sizes and times misses a second write within one tick of a coarse clock. A policy
is a few kilobytes, so reading it costs less than being clever.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from modegate.core.errors import DialectName
from modegate.core.policy.file.problems import PolicyProblems, Problem
from modegate.core.policy.model import Policy
from modegate.server.clock import Clock
from modegate.server.policy_reader import Content, Reader, look

POLL = 0.5
"""Seconds between looks, so that a change is in force within a second."""

SETTLE = 0.05
"""Seconds for which new content must stand still, since half a file can be a valid and looser policy."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PolicyStatus:
    """What is in force, and what became of the last reload."""

    path: str
    generation: int
    """1 for the policy of the start, and one more for each that replaced it."""
    hash: str
    loaded_at: int
    """When it came into force, milliseconds since the epoch."""
    at: int
    """When new content of the file was last judged."""
    problems: tuple[Problem, ...] = ()
    """Why the file as it is now is not in force; empty if it is."""


class Policies:
    """Holds the policy in force and keeps up with its file; a bad file changes nothing."""

    def __init__(
        self, path: Path, clock: Clock, content: Content, dialects: Sequence[DialectName]
    ) -> None:
        self._dialects = dialects
        self.current = content.policy(dialects)
        now = clock.now_ms()
        self.status = PolicyStatus(str(path), 1, self.current.hash, now, now)
        self.on_change: list[Callable[[Policy], None]] = []
        """Called on the event loop with each new policy, once it is in force."""
        self.on_failure: list[Callable[[tuple[Problem, ...]], None]] = []
        """Called on the event loop with what is wrong with new content, once for each."""
        self._path = path
        self._clock = clock
        self._reader = Reader(lambda: look(path))
        self._woken = asyncio.Event()
        self._seen = content.digest()
        self._adopt: Callable[[Policy], None] = lambda _policy: None

    @classmethod
    def load(cls, path: Path, clock: Clock, dialects: Sequence[DialectName]) -> Policies:
        """Load the policy with which the process starts; its routes may name these dialects.

        Raises:
            PolicyProblems: with all that is wrong; nothing should start then.
        """
        return cls(path, clock, look(path), dialects)

    def adopted_by(self, adopt: Callable[[Policy], None]) -> None:
        """Ask `adopt`, now and on the event loop before each new policy comes into force, to make it work.

        Raises:
            PolicyProblems: what the policy names is not there; a new policy does not come into force then.
        """
        adopt(self.current)
        self._adopt = adopt
        self._warn(self.current)

    async def watch(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), POLL)
            asked = self._woken.is_set()
            self._woken.clear()
            await self.poll()
            if asked:
                problems = len(self.status.problems)
                now = f"not in force, for {problems} problem(s)" if problems else "in force"
                logger.info("%s was read as asked: it is %s", self._path, now)

    def reread(self) -> None:
        """Have the file looked at now, and say how it stands; on the event loop."""
        self._woken.set()

    async def poll(self, settle: float = SETTLE) -> None:
        """Look once; content that is new and stands still is put in force, or it is said why not."""
        content = await self._reader.look()
        if content.digest() == self._seen:
            return
        await asyncio.sleep(settle)
        if await self._reader.look() != content:
            return
        self._seen = content.digest()
        try:
            # In a thread, since parsing the largest file that is allowed takes a second or two.
            policy = await asyncio.to_thread(content.policy, self._dialects)
            self._adopt(policy)
        except PolicyProblems as error:
            self._refuse(error.problems)
        else:
            self._accept(policy)

    def _accept(self, policy: Policy) -> None:
        now = self._clock.now_ms()
        if policy.hash == self.current.hash:
            self.status = replace(self.status, at=now, problems=())
            # Its warnings may have gone, or stand in other lines.
            self.current = replace(self.current, warnings=policy.warnings)
            logger.info("%s means the same as before, policy %s", self._path, policy.hash)
            self._warn(policy)
            return
        self.current = policy
        generation = self.status.generation + 1
        self.status = PolicyStatus(self.status.path, generation, policy.hash, now, now)
        logger.info("policy %s is in force, from %s", policy.hash, self._path)
        self._warn(policy)
        for listener in self.on_change:
            listener(policy)

    def _warn(self, policy: Policy) -> None:
        for warning in policy.warnings:
            logger.warning("%s: %s", self._path, warning)

    def _refuse(self, problems: tuple[Problem, ...]) -> None:
        self.status = replace(self.status, at=self._clock.now_ms(), problems=problems)
        for problem in problems:
            logger.error("policy %s stays in force; %s: %s", self.current.hash, self._path, problem)
        for listener in self.on_failure:
            listener(problems)

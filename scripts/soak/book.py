"""The notes of a run: what each agent and each person asked for and was told, by one clock."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from support.history import Flip, Got, Logged, Session, Settled, Step
from support.replicas import Replica

now = time.monotonic


@dataclass
class Told:
    """What the answer to an operation said, if one came."""

    seq: int = 0
    changed: bool = True
    acknowledged: bool = False


@dataclass
class Book:
    """What was seen, by all together."""

    seen: Counter[str] = field(default_factory=Counter)
    sessions: dict[str, Session] = field(default_factory=dict)
    offered: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By step: the tools that its model was shown."""
    broken: list[str] = field(default_factory=list)
    """What must not happen, whatever the history."""
    steps: int = 0

    def session(self, name: str) -> Session:
        """Return the notes on a session."""
        return self.sessions.setdefault(name, Session(name))

    def name_step(self) -> str:
        """Return the next step its name."""
        self.steps += 1
        return f"step-{self.steps}"

    @contextmanager
    def flip(self, session: str, mode: str) -> Iterator[Told]:
        """Note that a mode is asked for, before it is; and then what was told."""
        flips, told = self.session(session).flips, Told()
        place = len(flips)
        flips.append(Flip(mode, now()))
        yield told
        if told.acknowledged:
            flips[place] = replace(
                flips[place], ended=now(), seq=told.seq, changed=told.changed
            )  # fmt: skip

    @contextmanager
    def settle(self, session: str, approval: str, option: str) -> Iterator[Told]:
        """Note that a question is answered, before it is; and then what was told."""
        settled, told = self.session(session).settled, Told()
        place = len(settled)
        settled.append(Settled(approval, option, now()))
        yield told
        if told.acknowledged:
            settled[place] = replace(settled[place], ended=now())

    def step(
        self, session: str, name: str, began: float, got: list[Got], *, served: bool
    ) -> None:  # fmt: skip
        """Note a step that is over."""
        offered = frozenset(self.offered.pop(name, ()))
        step = Step(name, began, now(), tuple(got), offered, served)
        self.session(session).steps.append(step)

    async def read_logs(self, replica: Replica) -> None:
        """Read what was left of each session."""
        for name, session in self.sessions.items():
            session.log = await log_of(replica, name)


async def log_of(replica: Replica, session: str) -> list[Logged]:
    """Read one session's log, whole."""
    events: list[Logged] = []
    while True:
        after = events[-1].seq if events else 0
        answer = await replica.control("GET", f"/sessions/{session}/events?after={after}")
        if answer.status_code == 404:  # nothing of it was ever written
            return events
        page = answer.raise_for_status().json()["events"]
        if not page:
            return events
        events += [Logged(one["seq"], one["type"], one["by"], one["data"]) for one in page]

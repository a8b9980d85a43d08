"""The stages of a run: what stands in each, what is broken there and when, and what came of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import breaking
import httpx
from agents import Agent, Person
from book import Book
from breaking import Break
from model import Model, Upstream
from weigh import Weight, counted, weigh

from support.history import Rules, faults
from support.nginx import nginx
from support.redis_server import RedisServer
from support.replicas import PolicyFolder, Replica
from support.sentinel import cluster
from support.speeches import SPEECHES

POLICIES = """
sessions: {initial_mode: plan}
modes: {plan: {section: SECTION-PLAN, tools: [read, grep, exit_plan_mode]}}
"""
RULES = Rules("plan", {"plan": frozenset({"read", "grep", "exit_plan_mode"})}, grace=5.0)
"""The grace covers what is broken: a process that stands still cannot hear of a switch."""

WARM_UP = 0.25
CALM = 0.9
"""From when on nothing is broken any more, as a part of the time."""
SETTLE_S = 3.0
EVERY_S = 10.0
PEOPLE = 2


@dataclass(frozen=True)
class Options:
    """How hard and how long."""

    seconds: float
    agents: int
    faults: float
    seed: int


@dataclass
class Ground:
    """What stands in a stage."""

    log: str
    breaks: Callable[[list[Replica]], Sequence[Break]]
    replicas: dict[str, tuple[str, ...]]
    """Their options, by name; the first two stand behind nginx."""
    weighed: tuple[str, ...] = ()
    """Replicas that are never killed, whose weight must not grow."""


@dataclass(frozen=True)
class Stage:
    """How much of the time it gets, and how it is built."""

    part: float
    build: Callable[[ExitStack, Path], Ground]


def on_redis(stack: ExitStack, folder: Path) -> Ground:
    """Two replicas behind nginx, and one of several workers beside it, on one Redis."""
    redis = RedisServer(folder, "--appendonly", "yes", "--appendfsync", "always")
    redis.start()
    stack.callback(redis.close)

    def breaks(replicas: list[Replica]) -> Sequence[Break]:
        _, two, three = replicas
        return (
            breaking.redis_killed(redis),
            breaking.replica_killed(three),
            breaking.redis_full(redis),
            breaking.worker_killed(three),
            breaking.redis_paused(redis),
            breaking.replica_paused(two),
            breaking.redis_killed(redis),
            breaking.replica_paused(three),
        )

    more = {"three": ("--workers", "2")}
    return Ground(redis.url, breaks, {"one": (), "two": (), **more}, weighed=("one", "two"))


def failing_over(stack: ExitStack, folder: Path) -> Ground:
    """Two replicas on a Redis with a replica of its own, and a Sentinel."""
    servers = stack.enter_context(cluster(folder))
    breaks = (breaking.failed_over(servers),)
    return Ground(servers.url, lambda _: breaks, {"one": (), "two": ()})


def on_sqlite(_stack: ExitStack, folder: Path) -> Ground:
    """Two processes on one file, one of them with workers."""

    def breaks(replicas: list[Replica]) -> Sequence[Break]:
        one, two = replicas
        full = breaking.disk_full(replicas)
        return full, breaking.replica_killed(two), breaking.replica_paused(one), full

    log = f"sqlite:{folder / 'log.sqlite'}"
    return Ground(log, breaks, {"one": (), "two": ("--workers", "2")})


STAGES = {
    "redis": Stage(0.6, on_redis),
    "failover": Stage(0.15, failing_over),
    "sqlite": Stage(0.25, on_sqlite),
}


async def play(name: str, stage: Stage, options: Options, folder: Path) -> int:
    """Build a stage, run it, print what came of it, and give the number of faults."""
    book = Book()
    model = Model(options.seed, options.faults, book.offered)
    limits = httpx.Limits(max_connections=None)
    with ExitStack() as stack:
        ground = stage.build(stack, folder)
        policies = PolicyFolder(folder / "policies")
        policies.swap(POLICIES)
        async with (
            Upstream(model) as up,
            httpx.AsyncClient(trust_env=False, timeout=30, limits=limits) as http,
        ):
            replicas = []
            for one, given in ground.replicas.items():
                replica = Replica(folder / one, up.base_url, ground.log, policies.file, http)
                stack.callback(replica.kill)
                replica.options = ("--log-level", "warning", *given)
                replica.start()
                replicas.append(replica)
            ports = [one.port for one in replicas[:2]], [one.control_port for one in replicas[:2]]
            front = stack.enter_context(nginx(folder / "nginx", *ports))
            run = Run(name, options, replicas, book)
            await run.work(ground, up, (front.agents, front.people))
            return await run.judge(model, ground)


@dataclass
class Run:
    """One stage under way."""

    name: str
    options: Options
    replicas: list[Replica]
    book: Book
    began: float = field(default_factory=time.monotonic)
    weights: list[list[Weight]] = field(default_factory=list)

    @property
    def http(self) -> httpx.AsyncClient:
        """The client that all share."""
        return self.replicas[0].http

    async def work(self, ground: Ground, up: Upstream, front: tuple[str, str]) -> None:
        """Let agents and people work, and break one thing after the other."""
        self._say(f"{self.options.seconds:.0f} s with {self.options.agents} agents")
        people = [*(f"http://127.0.0.1:{one.control_port}" for one in self.replicas), front[1]]
        bases = [front[0], *(one.url for one in self.replicas[2:])]
        agents = [
            Agent(number, SPEECHES[number % len(SPEECHES)], self.http, self.book)
            for number in range(self.options.agents)
        ]
        await self._weigh(ground, [])
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one.run(self.name, bases, people)) for one in agents]
            for seed in range(PEOPLE):
                person = Person(seed, self.http, self.book)
                tasks.append(group.create_task(person.run(people)))
            tasks.append(group.create_task(self._progress(up)))
            await self._until(WARM_UP)
            await self._weigh(ground, agents)
            await self._break(ground)
            await self._until(1.0)
            await self._weigh(ground, agents, resume=False)
            for task in tasks:
                task.cancel()

    async def _break(self, ground: Ground) -> None:
        breaks = ground.breaks(self.replicas)
        for number, (said, work) in enumerate(breaks):
            await self._until(WARM_UP + (CALM - WARM_UP) * number / len(breaks))
            self._say(said)
            await work()
            self._say("mended")
            # What was started again is to be up before the next thing breaks.
            await asyncio.sleep(SETTLE_S)

    async def _until(self, part: float) -> None:
        end = self.began + part * self.options.seconds
        await asyncio.sleep(max(0.0, end - time.monotonic()))

    async def _weigh(self, ground: Ground, agents: list[Agent], *, resume: bool = True) -> None:
        """Weigh replicas while nobody asks anything."""
        await asyncio.gather(*(one.pause() for one in agents))
        await asyncio.sleep(SETTLE_S)
        weighed = [one for one in self.replicas if one.folder.name in ground.weighed]
        self.weights.append([await weigh(one, self.http) for one in weighed])
        for one in agents if resume else ():
            one.resume()

    async def _progress(self, up: Upstream) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            up.forget()
            seen = sum(self.book.seen.values())
            said = ", ".join(f"{count} {what}" for what, count in self.book.seen.most_common(6))
            self._say(f"{seen} requests: {said}")

    async def judge(self, model: Model, ground: Ground) -> int:
        """Hold the notes against the log; print a table and each fault."""
        await self.book.read_logs(self.replicas[0])
        wrong = [*self.book.broken, *model.broken]
        for session in self.book.sessions.values():
            wrong += faults(session, RULES)
        start, warm, end = self.weights
        for name, *cells in zip(ground.weighed, start, warm, end, strict=True):
            wrong += [f"replica {name}: {what}" for what in cells[2].grew(cells[1])]
        for one in self.replicas:
            if one.process is None or one.process.poll() is not None:
                wrong.append(f"replica {one.folder.name} has ended")
            if "Traceback" in one.stderr.read_text(encoding="utf-8"):
                wrong.append(f"a traceback in {one.stderr}")
                print(one.stderr.read_text(encoding="utf-8")[:6000])
        await self._table(model, ground)
        for line in wrong[:20]:
            print(f"FAILED: {line}")
        print(f"{self.name}: {'FAILED' if wrong else 'passed'}, {len(wrong)} faults", flush=True)
        return len(wrong)

    async def _table(self, model: Model, ground: Ground) -> None:
        book, sessions = self.book, self.book.sessions.values()
        print(f"\n{self.name}: {time.monotonic() - self.began:.0f} s, {book.steps} steps")
        for name, *cells in zip(ground.weighed, *self.weights, strict=True):
            print(f"  weight {name}: " + " | ".join(map(str, cells)))
        print("  clients:  " + ", ".join(f"{n} {what}" for what, n in book.seen.most_common()))
        print("  model:    " + ", ".join(f"{n} {what}" for what, n in model.given.most_common()))
        for one in self.replicas:
            counts = await counted(one, self.http)
            said = ", ".join(f"{n:.0f} {what}" for what, n in counts.items())
            print(f"  metrics {one.folder.name}: {said}")
        flips = [flip for session in sessions for flip in session.flips]
        settled = [one for session in sessions for one in session.settled]
        judged = [e for session in sessions for e in session.log if e.type == "call/judged"]
        linked = sum(e.data["call"].startswith("step-") for e in judged)
        print(
            f"  history:  {len(sessions)} sessions, {sum(len(s.log) for s in sessions)} events, "
            f"{sum(f.ended is not None for f in flips)} of {len(flips)} flips and "
            f"{sum(s.ended is not None for s in settled)} of {len(settled)} answers acknowledged, "
            f"{len(judged)} verdicts, {linked} of them of a known step"
        )

    def _say(self, text: str) -> None:
        seconds = time.monotonic() - self.began
        print(f"{time.strftime('%H:%M:%S')} {self.name} {seconds:4.0f} s  {text}", flush=True)

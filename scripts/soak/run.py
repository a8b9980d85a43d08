"""Two replicas behind nginx on one Redis, for minutes: clients vanish, upstreams fail, Redis is killed twice.

Fails if a refused call leaks, if an acknowledged event is gone, or if memory, tasks or file descriptors grow.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import httpx
from agents import Agent, Book
from model import Model, Upstream
from weigh import Weight, counted, lost, weigh

from support.nginx import nginx
from support.redis_server import RedisServer
from support.replicas import PolicyFolder, Replica
from support.speeches import SPEECHES

POLICIES = "modes: {plan: {section: SECTION-PLAN, tools: [read, grep, exit_plan_mode]}}\n"
WARM_UP = 0.25
KILLS = (0.45, 0.7)
"""When, as parts of the whole time."""
DOWN_S = 2.0
SETTLE_S = 3.0
EVERY_S = 10.0


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long (default: 600)")
    parser.add_argument("--agents", type=int, default=12, help="how many at once (default: 12)")
    parser.add_argument("--faults", type=float, default=0.2, help="part of answers that fail")
    parser.add_argument("--seed", type=int, default=1, help="of the model's failures")
    return parser.parse_args(argv)


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


class Soak:
    """One run."""

    def __init__(self, options: argparse.Namespace, replicas: list[Replica], book: Book) -> None:
        """Take what runs."""
        self._options = options
        self._replicas = replicas
        self._book = book
        self._http = replicas[0].http
        self._weights: list[list[Weight]] = []
        self._began = time.monotonic()

    async def run(
        self, redis: RedisServer, model: Model, up: Upstream, front: tuple[str, str]
    ) -> int:
        """Do everything, and give the exit code."""
        people = tuple(f"http://127.0.0.1:{one.control_port}" for one in self._replicas)
        agents = [
            Agent(number, SPEECHES[number % len(SPEECHES)], self._http, self._book)
            for number in range(self._options.agents)
        ]
        await self._weigh([])
        async with asyncio.TaskGroup() as group:
            work = [group.create_task(one.run(front[0], (*people, front[1]))) for one in agents]
            watch = group.create_task(self._progress(up))
            await self._until(WARM_UP)
            await self._weigh(agents)
            say(f"warm: {' | '.join(map(str, self._weights[-1]))}")
            for part in KILLS:
                await self._until(part)
                say("redis: killed")
                redis.kill()
                await asyncio.sleep(DOWN_S)
                await asyncio.to_thread(redis.start)
                say("redis: started again")
            await self._until(1.0)
            await self._weigh(agents, resume=False)
            for task in (*work, watch):
                task.cancel()
        return await self._judge(model)

    async def _until(self, part: float) -> None:
        end = self._began + part * self._options.seconds
        await asyncio.sleep(max(0.0, end - time.monotonic()))

    async def _weigh(self, agents: list[Agent], *, resume: bool = True) -> None:
        """Weigh all replicas while nobody asks anything."""
        await asyncio.gather(*(one.pause() for one in agents))
        await asyncio.sleep(SETTLE_S)
        self._weights.append([await weigh(one, self._http) for one in self._replicas])
        for one in agents if resume else ():
            one.resume()

    async def _progress(self, up: Upstream) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            up.forget()
            seen = sum(self._book.seen.values())
            said = ", ".join(f"{count} {what}" for what, count in self._book.seen.most_common(6))
            say(f"{time.monotonic() - self._began:4.0f} s  {seen} requests: {said}")

    async def _judge(self, model: Model) -> int:
        wrong = [*self._book.broken, *model.broken]
        events, missing = await lost(self._replicas[0], self._book)
        wrong += missing
        start, warm, end = self._weights
        for name, *cells in zip(("one", "two"), start, warm, end, strict=True):
            wrong += [f"replica {name}: {what}" for what in cells[2].grew(cells[1])]
        for one in self._replicas:
            if "Traceback" in one.stderr.read_text(encoding="utf-8"):
                wrong.append(f"a traceback in {one.stderr}")
        await self._table(model, events)
        for line in wrong[:20]:
            print(f"FAILED: {line}")
        print(f"{'FAILED' if wrong else 'passed'}: {len(wrong)} faults")
        return 1 if wrong else 0

    async def _table(self, model: Model, events: int) -> None:
        seconds = time.monotonic() - self._began
        steps = sum(self._book.seen.values()) - sum(
            count for what, count in self._book.seen.items() if what.startswith("mode")
        )
        print(f"\n{seconds:.0f} s, {self._options.agents} agents, {steps} steps")
        print(f"{'':10} {'at the start':>27} {'warm':>27} {'at the end':>27}")
        for name, *cells in zip(("one", "two"), *self._weights, strict=True):
            print(f"replica {name} " + " ".join(f"{cell!s:>27}" for cell in cells))
        print("clients:  " + ", ".join(f"{n} {what}" for what, n in self._book.seen.most_common()))
        print("model:    " + ", ".join(f"{n} {what}" for what, n in model.given.most_common()))
        for name, one in zip(("one", "two"), self._replicas, strict=True):
            counts = await counted(one, self._http)
            print(f"metrics {name}: " + ", ".join(f"{n:.0f} {what}" for what, n in counts.items()))
        acknowledged = sum(map(len, self._book.acknowledged.values()))
        sessions = len(self._book.acknowledged)
        print(
            f"log:      {events} events of {sessions} sessions; {acknowledged} modes acknowledged"
        )


async def main(options: argparse.Namespace) -> int:
    """Start everything and run."""
    book, model = Book(), Model(options.seed, options.faults)
    limits = httpx.Limits(max_connections=None)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="modegate-soak-")))
        redis = RedisServer(folder, "--appendonly", "yes", "--appendfsync", "always")
        redis.start()
        stack.callback(redis.close)
        policies = PolicyFolder(folder / "policies")
        policies.swap(POLICIES)
        async with (
            Upstream(model) as up,
            httpx.AsyncClient(trust_env=False, timeout=30, limits=limits) as http,
        ):
            replicas = []
            for name in ("one", "two"):
                replica = Replica(folder / name, up.base_url, redis.url, policies.file, http)
                stack.callback(replica.kill)
                replica.options = ("--log-level", "warning")
                replica.start()
                replicas.append(replica)
            ports = [one.port for one in replicas], [one.control_port for one in replicas]
            front = stack.enter_context(nginx(folder / "nginx", *ports))
            say(f"{options.seconds:.0f} s with {options.agents} agents")
            soak = Soak(options, replicas, book)
            return await soak.run(redis, model, up, (front.agents, front.people))


if __name__ == "__main__":
    sys.exit(asyncio.run(main(parse())))

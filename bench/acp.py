"""Measure ACP: what 1,000 WebSocket connections weigh, and how late they hear of 100 mode flips a second.

Ten connections follow each of a hundred sessions. Ten more flip ten sessions each in turn, over ACP too. A
lag is the time from sending `session/set_mode` to the arrival of `current_mode_update` at one follower, so
the log, the fan-out, and the reading of the benchmark itself are in it. Only reported; nothing depends on it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import resource
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import proc
import targets
from targets import BenchError, Cores, Server
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

CONNECTIONS = 1_000
SESSIONS = 100
TOKENS = 20
"""The endpoint takes 64 connections of one token."""

FLIPPERS = 10
FLIPS_A_SECOND = 100
SECONDS = 30
SETTLE_S = 2.0
OPENING = 50
"""Connections opened at the same time."""

POLICIES = """
modes:
  plan: {section: Read only., tools: [read]}
control:
  acp: {confirm_loosening: false}
  tokens:
"""
MODES = ("plan", "default")


@dataclass
class Heard:
    """What the followers heard."""

    sent: dict[tuple[str, int], float] = field(default_factory=dict)
    """When a flip was sent, by session and the seq that it leads to."""
    lags: list[float] = field(default_factory=list)
    answers: list[float] = field(default_factory=list)
    updates: int = 0


class Connection:
    """One WebSocket, with requests one at a time."""

    def __init__(self, socket: ClientConnection, heard: Heard) -> None:
        """Take the socket; `follow` must run once requests are done."""
        self._socket = socket
        self._heard = heard
        self._ids = itertools.count()

    async def call(self, method: str, **params: Any) -> Any:
        """Send a request and wait for its result; what comes before is dropped."""
        name = next(self._ids)
        message = {"jsonrpc": "2.0", "id": name, "method": method, "params": params}
        await self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(await self._socket.recv())
            if answer.get("id") == name:
                if "error" in answer:
                    raise BenchError(f"{method}: {answer['error']}")
                return answer["result"]

    async def follow(self) -> None:
        """Note each mode that is told, until the connection ends."""
        heard = self._heard
        try:
            while True:
                text = await self._socket.recv()
                now = time.perf_counter()
                if "current_mode_update" not in text:
                    continue
                heard.updates += 1
                params = json.loads(text)["params"]
                flip = (params["sessionId"], params["_meta"]["modegate/seq"])
                if (sent := heard.sent.get(flip)) is not None:
                    heard.lags.append(now - sent)
        except ConnectionClosed as error:
            raise BenchError(f"a connection was closed: {error}") from error


@asynccontextmanager
async def connections(
    server: Server, tokens: list[str], count: int, heard: Heard
) -> AsyncIterator[list[Connection]]:
    """Open connections and initialize them."""
    async with AsyncExitStack() as stack:
        opening = asyncio.Semaphore(OPENING)

        async def one(token: str) -> Connection:
            async with opening:
                head = {"Authorization": f"Bearer {token}"}
                url = f"ws://127.0.0.1:{server.port}/acp"
                socket = await stack.enter_async_context(
                    connect(
                        url,
                        additional_headers=head,
                        proxy=None,
                        compression=None,
                        ping_interval=None,
                        open_timeout=60,
                    )
                )
                opened = Connection(socket, heard)
                await opened.call("initialize", protocolVersion=1, clientCapabilities={})
                return opened

        yield list(await asyncio.gather(*(one(tokens[n % len(tokens)]) for n in range(count))))


async def flip(flipper: Connection, number: int, sessions: list[str], heard: Heard) -> float:
    """Flip some sessions in turn, as one flipper of several; give how late it was at the end, in seconds."""
    between = FLIPPERS / FLIPS_A_SECOND
    began = time.perf_counter() + number * between / FLIPPERS
    for turn in range(FLIPS_A_SECOND * SECONDS // FLIPPERS):
        await asyncio.sleep(max(0.0, began + turn * between - time.perf_counter()))
        session, lap = sessions[turn % len(sessions)], turn // len(sessions)
        # The first event of a session is its opening, and every flip is one more.
        sent = heard.sent[session, lap + 2] = time.perf_counter()
        await flipper.call("session/set_mode", sessionId=session, modeId=MODES[lap % len(MODES)])
        heard.answers.append(time.perf_counter() - sent)
    return max(0.0, time.perf_counter() - began - SECONDS)


async def measure(server: Server, tokens: list[str]) -> dict[str, Any]:
    """Open everything, flip, and give the figures."""
    heard = Heard()
    before = proc.memory_kib(server.pid, "Pss")
    async with (
        connections(server, tokens[:1], FLIPPERS, heard) as flippers,
        connections(server, tokens[1:], CONNECTIONS, heard) as followers,
    ):
        initialized = proc.memory_kib(server.pid, "Pss")
        new = {"cwd": "/", "mcpServers": []}
        sessions = [
            (await flippers[n % FLIPPERS].call("session/new", **new))["sessionId"]
            for n in range(SESSIONS)
        ]
        for number, follower in enumerate(followers):
            session = sessions[number % SESSIONS]
            await follower.call("session/resume", sessionId=session, **new)
        attached = proc.memory_kib(server.pid, "Pss")
        async with asyncio.TaskGroup() as group:
            following = [group.create_task(follower.follow()) for follower in followers]
            cpu, began = proc.cpu_seconds(server.pid), time.perf_counter()
            await asyncio.sleep(SETTLE_S)
            idle = (proc.cpu_seconds(server.pid) - cpu) / (time.perf_counter() - began)
            cpu, began = proc.cpu_seconds(server.pid), time.perf_counter()
            behind = await asyncio.gather(
                *(flip(one, n, sessions[n::FLIPPERS], heard) for n, one in enumerate(flippers))
            )
            busy = (proc.cpu_seconds(server.pid) - cpu) / (time.perf_counter() - began)
            await asyncio.sleep(SETTLE_S)
            for task in following:
                task.cancel()
        after = proc.memory_kib(server.pid, "Pss")
    return {
        "connections": CONNECTIONS,
        "flips": len(heard.answers),
        "kib_a_connection": (initialized - before) / CONNECTIONS,
        "kib_a_connection_attached": (attached - before) / CONNECTIONS,
        "growth_while_flipping_kib": after - attached,
        "idle_cpu": idle,
        "flipping_cpu": busy,
        "behind_s": max(behind),
        "answer_ms": _spread(heard.answers),
        "lag_ms": _spread(heard.lags),
        "told": heard.updates,
        "told_at_most": len(heard.answers) * CONNECTIONS // SESSIONS,
    }


def _spread(seconds: list[float]) -> dict[str, float]:
    if not seconds:
        raise BenchError("no connection heard of any flip")
    found = sorted(seconds)
    return {
        name: 1000 * found[min(len(found) - 1, int(part * len(found)))]
        for name, part in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
    }


def run(folder: Path, command: Path, *, as_json: bool) -> str:
    """Run the benchmark and give its report.

    Raises:
        BenchError: a connection failed, or nothing was heard.
    """
    cores = Cores.choose()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # the server inherits it
    names = [f"T{number}" for number in range(TOKENS + 1)]
    secrets_ = {f"BENCH_{name}": secrets.token_urlsafe(16) for name in names}
    policies = folder / "policies.yaml"
    lines = [f"    - {{name: {name}, env: BENCH_{name}, level: full}}\n" for name in names]
    policies.write_text(POLICIES + "".join(lines), encoding="utf-8")
    environ = {**secrets_, "MODEGATE_LOG_LEVEL": "warning"}
    files = {"command": command, "policies": policies}
    with targets.serve(folder, cores.proxy, "http://127.0.0.1:9", environ, **files) as server:
        os.sched_setaffinity(0, {cores.rest})
        found = asyncio.run(measure(server, list(secrets_.values())))
    return json.dumps(found, indent=2) if as_json else _text(found)


def _text(found: dict[str, Any]) -> str:
    answer, lag = found["answer_ms"], found["lag_ms"]
    rows = {
        "memory a connection": f"{found['kib_a_connection']:.1f} KiB, "
        f"{found['kib_a_connection_attached']:.1f} KiB once it follows a session",
        "growth while flipping": f"{found['growth_while_flipping_kib'] / 1024:.1f} MiB",
        "CPU": f"{100 * found['idle_cpu']:.1f} % of a core idle, "
        f"{100 * found['flipping_cpu']:.0f} % flipping",
        "answer to set_mode": f"p50 {answer['p50']:.1f} ms, p99 {answer['p99']:.1f}, "
        f"max {answer['max']:.1f}",
        "lag at a follower": f"p50 {lag['p50']:.1f} ms, p99 {lag['p99']:.1f}, max {lag['max']:.1f}",
        "told": f"{found['told']} of {found['told_at_most']} at most",
        "behind at the end": f"{found['behind_s']:.2f} s",
    }
    head = (
        f"ACP: {found['connections']} WebSocket connections on {SESSIONS} sessions, "
        f"{found['flips']} flips in {SECONDS} s"
    )
    return "\n".join([head, *(f"  {name:<22} {text}" for name, text in rows.items())])

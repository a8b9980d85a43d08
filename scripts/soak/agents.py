"""Agents that work in default and in plan mode, and vanish at random; and what they may never be shown."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field

import httpx
from model import PATHS, SAYS_NO, SECRET

from support.replicas import control
from support.speech import Speech

TOOLS = ("read", "grep", "write")
STATUSES = {200, 429, 500, 502, 503, 504}
PATIENCE_S = 5.0
"""A client gives up then; the model hangs now and then."""
RETRY_S = 0.1
EPISODE = 25
"""Steps of a session, before its agent begins another."""


@dataclass
class Book:
    """What was seen, by all agents together."""

    seen: Counter[str] = field(default_factory=Counter)
    acknowledged: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """By session: each `mode/set` that was acknowledged, with its seq."""
    broken: list[str] = field(default_factory=list)
    """What must not happen."""


class Agent:
    """One agent, one step after the other."""

    def __init__(self, number: int, speech: Speech, http: httpx.AsyncClient, book: Book) -> None:
        """Take what it speaks."""
        self._name = f"{speech.name}{number}"
        self._speech = speech
        self._http = http
        self._book = book
        self._random = random.Random(number)
        self._pause = asyncio.Event()
        self._pause.set()
        self._idle = asyncio.Event()

    async def run(self, agents: str, people: tuple[str, ...]) -> None:
        """Work for ever, at these base URLs."""
        episode = 0
        while True:
            session = f"{self._name}-{episode}"
            episode += 1
            for _ in range(EPISODE // 5):
                mode = self._random.choice(("plan", "plan", "default"))
                await self._set(session, mode, self._random.choice(people))
                for _ in range(5):
                    await self._waited()
                    await self._step(f"{agents}/s/{session}/v1", mode)

    async def pause(self) -> None:
        """Wait until it does nothing."""
        self._idle.clear()
        self._pause.clear()
        await self._idle.wait()

    def resume(self) -> None:
        """Let it go on."""
        self._pause.set()

    async def _waited(self) -> None:
        if not self._pause.is_set():
            self._idle.set()
            await self._pause.wait()

    async def _set(self, session: str, mode: str, base: str) -> None:
        """Set the mode until that is acknowledged."""
        while True:
            await self._waited()
            try:
                path = f"/sessions/{session}/mode"
                answer = await control(self._http, base, "PUT", path, json={"mode": mode})
            except httpx.TransportError:
                self._book.seen["mode not acknowledged"] += 1
            else:
                if answer.status_code == 200:
                    said = answer.json()
                    if said["changed"]:
                        kept = self._book.acknowledged.setdefault(session, [])
                        kept.append((said["seq"], mode))
                    self._book.seen["mode set"] += 1
                    return
                self._book.seen["mode refused"] += 1
                if answer.status_code not in (502, 503, 504):
                    self._book.broken.append(f"mode: {answer.status_code} {answer.text[:200]}")
            await asyncio.sleep(RETRY_S)

    async def _step(self, base: str, mode: str) -> None:
        user = [self._speech.api.user(f"rename foo {self._random.randrange(1000)}")]
        body = self._speech.api.request(user, TOOLS, streamed=self._speech.streamed)
        got = bytearray()
        vanish = self._random.choice((None, None, None, 0, 1, 3))
        outcome = "vanished"
        try:
            async with asyncio.timeout(
                PATIENCE_S if vanish is None else self._random.uniform(0, 0.3)
            ):
                url = f"{base}{PATHS[self._speech.name].decode()}"
                headers = {"connection": "close"}
                async with self._http.stream("POST", url, json=body, headers=headers) as answer:
                    outcome = await self._read(answer, got, vanish)
        except TimeoutError:
            outcome = "vanished" if vanish is not None else "gave up"
        except httpx.TransportError:
            outcome = "broke off"
        self._book.seen[outcome] += 1
        if mode == "plan" and SECRET.encode() in got:
            self._book.broken.append(f"LEAK in {base}: {bytes(got)[:300]!r}")

    async def _read(self, answer: httpx.Response, got: bytearray, vanish: int | None) -> str:
        parts = 0
        async for part in answer.aiter_raw():
            got += part
            parts += 1
            if vanish is not None and parts > vanish:
                return "vanished"
        status = answer.status_code
        if status not in STATUSES or (status == 500 and SAYS_NO not in got):
            self._book.broken.append(f"{status} {bytes(got)[:200]!r}")
        return str(status)

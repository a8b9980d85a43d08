"""Agents that work and vanish at random, and people who flip their modes and settle their questions."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import httpx
from book import Book, now
from model import PATHS, SAYS_NO, SECRET

from support.history import Got
from support.replicas import control
from support.speech import Speech

TOOLS = ("read", "grep", "write")
STATUSES = {200, 429, 500, 502, 503, 504}
PATIENCE_S = 12.0
"""A client gives up then; the model hangs now and then."""
RETRY_S = 0.1
ROUNDS = 5
"""Flips of a session, before its agent begins another."""
STEPS = 4
"""After each flip."""
LOOKS_S = 0.3
"""How often people look for questions."""


class Agent:
    """One agent with its user, one session after the other."""

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

    async def run(self, stage: str, agents: Sequence[str], people: Sequence[str]) -> None:
        """Work for ever, at these base URLs."""
        episode = 0
        while True:
            session = f"{stage}-{self._name}-{episode}"
            episode += 1
            await self._begin(session, agents, people)
            for _ in range(ROUNDS):
                await self._waited()
                mode = self._random.choice(("plan", "plan", "default"))
                flip = self._set(session, mode, people)
                if self._random.random() < 0.5:
                    await asyncio.gather(flip, self._step(session, agents))
                else:
                    await flip
                for _ in range(STEPS):
                    await self._waited()
                    await self._step(session, agents)

    async def _begin(self, session: str, agents: Sequence[str], people: Sequence[str]) -> None:
        """Begin a session: by several first requests at once, by a person, or by nothing."""
        await self._waited()
        how = self._random.choice(("at once", "default", "nothing"))
        if how == "at once":
            await asyncio.gather(*(self._step(session, agents) for _ in range(3)))
        elif how == "default":
            # It passes raw from here on: never was a mode in force.
            await self._set(session, "default", people)

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

    async def _set(self, session: str, mode: str, people: Sequence[str]) -> None:
        """Set the mode until that is acknowledged."""
        path = f"/sessions/{session}/mode"
        while True:
            base = self._random.choice(people)
            with self._book.flip(session, mode) as told:
                answer = await asked(self._http, base, "PUT", path, {"mode": mode})
                if answer is not None and answer.status_code == 200:
                    said = answer.json()
                    told.acknowledged = True
                    told.seq, told.changed = said["seq"], said["changed"]
            if told.acknowledged:
                self._book.seen["mode set"] += 1
                return
            self._book.seen["mode not set"] += 1
            if answer is not None and answer.status_code not in (502, 503, 504):
                self._book.broken.append(f"mode: {answer.status_code} {answer.text[:200]}")
            await asyncio.sleep(RETRY_S)

    async def _step(self, session: str, agents: Sequence[str]) -> None:
        name = self._book.name_step()
        user = [self._speech.api.user(f"rename foo in {name}.")]
        body = self._speech.api.request(user, TOOLS, streamed=self._speech.streamed)
        url = f"{self._random.choice(agents)}/s/{session}/v1{PATHS[self._speech.name].decode()}"
        vanish = self._random.choice((None, None, None, None, 0, 1, 3))
        patience = PATIENCE_S if vanish is None else self._random.uniform(0, 0.3)
        got, began, outcome = _Answer(), now(), "vanished"
        try:
            async with asyncio.timeout(patience):
                headers = {"connection": "close"}
                async with self._http.stream("POST", url, json=body, headers=headers) as answer:
                    outcome = await self._read(answer, got, vanish)
        except TimeoutError:
            outcome = "vanished" if vanish is not None else "gave up"
        except httpx.TransportError:
            outcome = "broke off"
        self._book.seen[outcome] += 1
        self._book.step(session, name, began, got.calls, served=got.status == 200)

    async def _read(self, answer: httpx.Response, got: _Answer, vanish: int | None) -> str:
        got.status = answer.status_code
        parts = 0
        async for part in answer.aiter_raw():
            got.take(part)
            parts += 1
            if vanish is not None and parts > vanish:
                return "vanished"
        if got.status not in STATUSES or (got.status == 500 and SAYS_NO not in got.body):
            self._book.broken.append(f"{got.status} {bytes(got.body)[:200]!r}")
        return str(got.status)


class _Answer:
    """What an agent has of an answer so far."""

    def __init__(self) -> None:
        self.status = 0
        self.body = bytearray()
        self.calls: list[Got] = []

    def take(self, part: bytes) -> None:
        """Take a piece, and note when what plan forbids began to arrive."""
        self.body += part
        if not self.calls and SECRET.encode() in self.body:
            self.calls.append(Got("write", now()))


class Person:
    """Looks for questions, and answers most; another one may be faster, at another replica."""

    def __init__(self, seed: int, http: httpx.AsyncClient, book: Book) -> None:
        """Take the notes."""
        self._http = http
        self._book = book
        self._random = random.Random(seed)

    async def run(self, people: Sequence[str]) -> None:
        """Look for ever."""
        while True:
            await asyncio.sleep(LOOKS_S)
            found = await asked(self._http, self._random.choice(people), "GET", "/approvals")
            if found is None or found.status_code != 200:
                continue
            questions = found.json()["approvals"]
            for question in self._random.sample(questions, min(3, len(questions))):
                await self._settle(question, self._random.choice(people))

    async def _settle(self, question: dict[str, object], base: str) -> None:
        path = f"/approvals/{question['id']}"
        await asked(self._http, base, "POST", f"{path}/delivered", {"via": "soak"})
        choice = self._random.choice(("approve", "approve", "reject", None))
        if choice is None:
            return
        with self._book.settle(str(question["session"]), str(question["id"]), choice) as told:
            answer = await asked(self._http, base, "POST", path, {"option": choice})
            told.acknowledged = answer is not None and answer.status_code == 200
        said = "nothing" if answer is None else str(answer.status_code)
        self._book.seen[f"answered: {said}"] += 1


async def asked(
    http: httpx.AsyncClient, base: str, method: str, path: str, body: object = None
) -> httpx.Response | None:
    """Ask the control API; None if no answer came."""
    try:
        return await control(http, base, method, path, json=body)
    except httpx.TransportError:
        return None

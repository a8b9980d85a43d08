"""A model that tries what is forbidden, and that fails at random in every way an upstream can."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter, defaultdict
from typing import Any

from modegate.scripted.model import ScriptedCall, Turn
from support.raw_upstream import (
    Act,
    RawUpstream,
    Received,
    chunk,
    chunked,
    head,
    until_close,
    whole,
)
from support.speech import Speech
from support.speeches import APIS

SECRET = "S3CRET"
"""Only ever in the arguments of `write`, several times, so that each piece of them holds it whole."""
PATHS = {"chat": b"/chat/completions", "responses": b"/responses", "messages": b"/messages"}
SAYS_NO = b'{"error":{"message":"upstream says no","type":"x"}}'

_STEP = re.compile(rb"step-\d+")
"""The step that a request is of: agents write its name into what they ask."""
SLOW = 0.1
"""Part of the streamed answers that stop in the middle for a while, as models do that think."""
SLOW_S = 8.0

FAULTS = ("error", "busy", "before", "middle", "short", "half", "garbage", "html", "hang")


class Model:
    """Answers requests; `fault` is how often it fails, from 0 to 1."""

    def __init__(self, seed: int, fault: float, offered: defaultdict[str, set[str]]) -> None:
        """Begin a run; note in `offered` which tools the model was shown in each step."""
        self._offered = offered
        self._calls = 0
        self._random = random.Random(seed)
        self._fault = fault
        self.given: Counter[str] = Counter()
        self.broken: list[str] = []
        """What the model was shown that no model should be."""

    def __call__(self, received: Received) -> Any:
        """Return the pieces of an answer."""
        name = next(name for name, end in PATHS.items() if received.target.endswith(end))
        asked = APIS[name].script.read(received.body)
        tools = APIS[name].tools(json.loads(received.body))
        step = _STEP.findall(received.body)[-1].decode()
        self._offered[step].update(tools)
        if b"SECTION-PLAN" in received.body and "write" in tools:
            self.broken.append("a forbidden tool was offered in plan mode")
        body = (
            Speech(name, APIS[name], asked.stream)
            .reply(self._turn(asked, step), received.body)
            .body
        )
        fault = self._random.random() < self._fault
        what = self._random.choice(FAULTS) if fault else "answer"
        self.given[what] += 1
        return self._played(what, body, streamed=asked.stream)

    def _turn(self, asked: Any, step: str) -> Turn:
        last = asked.results[-1] if asked.results else ""
        if "refused" in last and self._random.random() < 0.8:
            return Turn("Then I read.", calls=(self._call(step, "read", '{"path":"a"}'),))
        if "exit_plan_mode" in asked.tools and self._random.random() < 0.3:
            plan = json.dumps({"plan": f"# What {step} is about"})
            return Turn("I have a plan.", calls=(self._call(step, "exit_plan_mode", plan),))
        secret = json.dumps({"path": SECRET * 4, "text": SECRET * 4})
        calls = (self._call(step, "write", secret),)
        if self._random.random() < 0.3:
            calls = (self._call(step, "read", '{"path":"b"}'), *calls)
        return Turn("I write. " * self._random.randint(1, 40), calls=calls)

    def _call(self, step: str, name: str, arguments: str) -> ScriptedCall:
        self._calls += 1
        return ScriptedCall(name, arguments, id=f"{step}-{self._calls}")

    def _played(self, what: str, body: bytes, *, streamed: bool) -> Any:
        cut = self._random.randrange(1, len(body))
        half = body[:cut]
        match what:
            case "answer":
                return self._told(half, body[cut:]) if streamed else whole(body)
            case "error":
                return whole(SAYS_NO, 500)
            case "busy":
                return whole(
                    SAYS_NO, 429, [("Retry-After", "1"), ("Content-Type", "application/json")]
                )
            case "before":
                return [Act.RESET]
            case "middle":
                return [chunked(half)[0], chunk(half), Act.RESET]
            case "short":
                return [
                    *whole(body)[:0],
                    head(200, [("Content-Length", str(len(body)))]) + half,
                    Act.CLOSE,
                ]
            case "half":
                return until_close(half)
            case "garbage":
                return chunked(half, b"data: {\x00\n\n", body[cut:])
            case "html":
                return whole(b"<html>", 200, [("Content-Type", "text/html")])
            case _:
                return [chunked(half)[0], chunk(half), Act.HANG]

    def _told(self, half: bytes, rest: bytes) -> Any:
        if self._random.random() >= SLOW:
            return chunked(half, rest)
        self.given["slow answer"] += 1
        thought = asyncio.Event()
        wait = self._random.uniform(0, SLOW_S)
        asyncio.get_running_loop().call_later(wait, thought.set)
        return chunked(half, thought, rest)


class Upstream(RawUpstream):
    """The double of the tests, which forgets what it recorded: this run is long."""

    def forget(self) -> None:
        """Drop the records of what is over."""
        self.requests.clear()
        self.heads.clear()
        self._tasks = [task for task in self._tasks if not task.done()]
        self._connections = [one for one in self._connections if not one.gone.is_set()]

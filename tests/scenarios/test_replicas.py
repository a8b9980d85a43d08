"""Two replicas behind real nginx on one real Redis, while agents run: as if they were one process.

The configuration of nginx and the user of Redis are those of `deploy/`; the policy is swapped as Kubernetes
swaps a ConfigMap, and one replica at a time is restarted as a rolling update does it.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from modegate.core.errors import DialectName
from modegate.scripted.model import ScriptedCall, Turn
from support.nginx import Front, nginx
from support.raw_upstream import RawUpstream, Received, chunked, whole
from support.redis_server import redis_server
from support.replicas import PolicyFolder, Replica, control
from support.running import client
from support.speech import Heard, Json, Speech
from support.speeches import APIS, SPEECHES
from support.waiting import PATIENCE

TOOLS = ("read", "grep", "write", "bash")
POLICIES = {
    "A": "modes: {plan: {section: SECTION-A, tools: [read, exit_plan_mode]}}\n",
    "B": "modes: {plan: {section: SECTION-B, tools: [read, grep, exit_plan_mode]}}\n",
}
SHOWN = {"A": ["read", "exit_plan_mode"], "B": ["read", "grep", "exit_plan_mode"]}
ALLOWED = {name: {*tools} - {"exit_plan_mode"} for name, tools in SHOWN.items()}
BOTH = ["read"]
"""What a later hop is shown if the policy changed within its step: no more than either of them allows."""
PLAN = "# Rename foo"
THINKING_S = 0.1


def call(name: str, **arguments: str) -> ScriptedCall:
    return ScriptedCall(name, json.dumps(arguments))


class Model:
    """Tries what is forbidden, gives in when told so, and sees whether what it is shown fits together."""

    def __init__(self) -> None:
        self.shown: Counter[str] = Counter()
        """Requests by the policy that they were assembled under."""
        self.failures: list[BaseException] = []

    def __call__(self, received: Received) -> Any:
        """Answer a request; what goes wrong here is kept, since a connection has nobody to tell."""
        try:
            return self._answer(received)
        except Exception as error:
            self.failures.append(error)
            raise

    def _answer(self, received: Received) -> Any:
        name = next(name for name, end in PATHS.items() if received.target.endswith(end))
        body = json.loads(received.body)
        asked = APIS[name].script.read(received.body)
        self._look(received.body, APIS[name].tools(body), later=bool(asked.results))
        reply = Speech(name, APIS[name], asked.stream).reply(turn(asked), received.body)
        if not asked.stream:
            return whole(reply.body)
        # In two pieces, so that steps last for a while and are under way when a replica ends.
        half = len(reply.body) // 2
        return chunked(reply.body[:half], reply.body[half:])

    def _look(self, body: bytes, tools: list[str], *, later: bool) -> None:
        sections = [name for name in POLICIES if f"SECTION-{name}".encode() in body]
        if not sections:
            assert tools == list(TOOLS), "a session in default mode was shown other tools"
            self.shown["default"] += 1
            return
        (section,) = sections  # never of two policies
        assert tools == SHOWN[section] or (later and tools == BOTH)
        self.shown[section] += 1


PATHS: dict[DialectName, bytes] = {
    "chat": b"/chat/completions",
    "responses": b"/responses",
    "messages": b"/messages",
}


def turn(asked: Any) -> Turn:
    last = asked.results[-1] if asked.results else ""
    if "approved the plan" in last:
        return Turn("Now I write.", calls=(call("write", path="S3CRET"),))
    if "refused" in last:
        return Turn("Then I read.", calls=(call("read", path="a"),))
    if "plan please" in asked.messages[-1] or "nobody answered" in last:
        return Turn("My plan.", calls=(call("exit_plan_mode", plan=PLAN),))
    return Turn("I write.", calls=(call("grep", pattern="x"), call("write", path="S3CRET")))


@dataclass
class Deployment:
    """What runs."""

    http: httpx.AsyncClient
    front: Front
    replicas: tuple[Replica, Replica]
    policies: PolicyFolder
    steps: asyncio.Condition = field(default_factory=asyncio.Condition)
    done: int = 0
    hashes: dict[str, str] = field(default_factory=dict)
    """Which policy has which hash."""

    async def one_more(self) -> None:
        """Count a step of an agent; then it thinks for a moment, so that processes can start meanwhile."""
        async with self.steps:
            self.done += 1
            self.steps.notify_all()
        await asyncio.sleep(THINKING_S)

    async def go_on(self, steps: int) -> None:
        """Wait until agents have made so many more steps."""
        async with asyncio.timeout(2 * PATIENCE), self.steps:
            until = self.done + steps
            await self.steps.wait_for(lambda: self.done >= until)

    async def put_in_force(self, name: str) -> None:
        """Swap the policy and wait until both replicas obey it."""
        self.policies.swap(POLICIES[name])
        for replica in self.replicas:
            await self.learn(replica, name)

    async def learn(self, replica: Replica, name: str) -> None:
        async def obeyed() -> bool:
            said = (await replica.control("GET", "/policy")).json()
            known = self.hashes.get(name)
            if known is None and said["hash"] not in self.hashes.values():
                self.hashes[name] = said["hash"]
            return bool(said["hash"] == self.hashes.get(name))

        await until(obeyed)

    async def set_mode(self, session: str, mode: str, first: int) -> None:
        """Do so at one replica, or at the other while that one is away."""
        for replica in (self.replicas[first], self.replicas[1 - first]):
            try:
                answer = await replica.control(
                    "PUT", f"/sessions/{session}/mode", json={"mode": mode}
                )
            except httpx.ConnectError:
                continue
            assert answer.status_code == 200, answer.text
            return
        raise AssertionError("both replicas are away")


async def until(found: Callable[[], Awaitable[Any]]) -> Any:
    """Ask again until there is something."""
    async with asyncio.timeout(PATIENCE):
        while not (value := await found()):  # noqa: ASYNC110 -- other processes are asked
            await asyncio.sleep(0.02)
        return value


@asynccontextmanager
async def deployed(folder: Path) -> AsyncIterator[tuple[Deployment, Model]]:
    """Start everything."""
    model = Model()
    policies = PolicyFolder(folder / "policies")
    policies.swap(POLICIES["A"])
    async with RawUpstream(model) as up, client() as http:
        with ExitStack() as stack:
            redis = stack.enter_context(redis_server(folder, "--appendonly", "yes"))
            replicas = []
            for name in ("one", "two"):
                replica = Replica(folder / name, up.base_url, redis.url, policies.file, http)
                stack.callback(replica.kill)
                replica.start()
                replicas.append(replica)
            ports = [r.port for r in replicas], [r.control_port for r in replicas]
            front = stack.enter_context(nginx(folder / "nginx", *ports))
            deployment = Deployment(http, front, (replicas[0], replicas[1]), policies)
            for replica in replicas:
                await deployment.learn(replica, "A")
            yield deployment, model
        assert model.failures == []


async def step(deployment: Deployment, base: str, session: str, speech: Speech, text: str) -> Heard:
    """Ask once, over a connection of its own, and read the answer strictly."""
    user = [speech.api.user(text)]
    body = speech.api.request(user, TOOLS, streamed=speech.streamed)
    url = f"{base}/s/{session}/v1{PATHS[speech.name].decode()}"
    answer = await deployment.http.post(url, json=body, headers={"connection": "close"})
    assert answer.status_code == 200, answer.text
    return speech.api.heard(answer.content, streamed=speech.streamed)


async def agent(deployment: Deployment, session: str, speech: Speech, over: asyncio.Event) -> None:
    """Work in turn in default and in plan mode, set at one replica or the other, until it is over."""
    turns = 0
    while not over.is_set():
        first = turns % 2
        await deployment.set_mode(session, "plan", first)
        for _ in range(2):
            heard = await step(deployment, deployment.front.agents, session, speech, "rename foo")
            assert "write" not in heard.names
            assert set(heard.names) <= {"read", "grep"}
            assert heard.names, "the model gave in, or only one of two calls was refused"
            await deployment.one_more()
        await deployment.set_mode(session, "default", 1 - first)
        heard = await step(deployment, deployment.front.agents, session, speech, "rename foo")
        assert heard.names == ["grep", "write"]
        await deployment.one_more()
        turns += 1


async def approve_across(deployment: Deployment, session: str, asked: int, speech: Speech) -> None:
    """A plan that one replica's step submits is approved at the other, and obeyed by both."""
    here, there = deployment.replicas[asked], deployment.replicas[1 - asked]
    await there.control("PUT", f"/sessions/{session}/mode", json={"mode": "plan"})
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(step(deployment, here.url, session, speech, "plan please"))

        async def question() -> Any:
            found = (await there.control("GET", "/approvals")).json()["approvals"]
            return [one for one in found if one["session"] == session]

        (one,) = await until(question)
        assert one["text"] == PLAN
        await there.control("POST", f"/approvals/{one['id']}/delivered", json={"via": "test"})
        settled = await there.control("POST", f"/approvals/{one['id']}", json={"option": "approve"})
        assert settled.json()["mode"] == "default", settled.text
    assert waiting.result().names == ["write"]
    for base in (here.url, there.url):
        assert (await step(deployment, base, session, speech, "rename foo")).names == [
            "grep",
            "write",
        ]


async def events(deployment: Deployment, session: str) -> list[Json]:
    found: list[Json] = []
    while True:
        path = f"/sessions/{session}/events?after={found[-1]['seq'] if found else 0}"
        page = (await control(deployment.http, deployment.front.people, "GET", path)).json()[
            "events"
        ]
        if not page:
            return found
        found += page


def judged_by_whole_policies(log: list[Json], hashes: dict[str, str]) -> set[str]:
    """Check what the log says against each policy's own words; give the names of those that were in force."""
    names = {digest: name for name, digest in hashes.items()}
    seen = set()
    shown: set[str] = set()
    for event in log:
        data = event["data"]
        match event["type"]:
            case "request/header":
                shown = set(data["tools"])
            case "request/header-delta":
                shown = (shown - set(data["removed"])) | set(data["added"])
            case "call/judged":
                if data["mode"] == "plan" and data["verdict"] == "release":
                    assert data["tool"] in ALLOWED[names[data["policy"]]]
                continue
            case _:
                continue
        if data["mode"] == "plan":
            seen.add(names[data["policy"]])
            assert shown in (set(SHOWN[names[data["policy"]]]), set(BOTH))
    return seen


@pytest.mark.timeout(180)
async def test_replicas_are_as_one(tmp_path: Path) -> None:
    async with deployed(tmp_path) as (deployment, model):
        over = asyncio.Event()
        sessions = {f"s-{speech}": speech for speech in SPEECHES}
        async with asyncio.TaskGroup() as group:
            for session, speech in sessions.items():
                group.create_task(agent(deployment, session, speech, over))
            await deployment.go_on(10)
            for number, name in enumerate(("B", "A")):
                await deployment.put_in_force(name)
                await deployment.go_on(10)
                await deployment.replicas[number].restart()
                await deployment.go_on(10)
                await deployment.learn(deployment.replicas[number], name)
                await approve_across(deployment, f"p-{number}", number, SPEECHES[number])
            over.set()
        assert set(deployment.front.statuses()) == {200}, deployment.front.errors
        assert min(model.shown[name] for name in ("default", "A", "B")) > 0
        used = set()
        for session in sessions:
            log = await events(deployment, session)
            assert [event["seq"] for event in log] == list(range(1, len(log) + 1))
            used |= judged_by_whole_policies(log, deployment.hashes)
        assert used == {"A", "B"}

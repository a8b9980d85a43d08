"""The table of back ends: real SDKs through the whole proxy to each, in every story that a session has.

A back end is data (`tests/backends`); it answers as the real one does and refuses what the real one refuses.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import httpx
import pytest

from modegate.core.policy.model import Waits
from support.backends.agents import Agent, Heard, Sdks
from support.backends.entry import BACK_ENDS, BackEnd, Json
from support.backends.model import NOTICE
from support.backends.server import BackEnds, Seen
from support.backends.told import offered, told
from support.raw_upstream import RawUpstream
from support.running import TOKEN, Running, client, policies_file, running
from support.waiting import PATIENCE

WAITS = Waits(nobody=PATIENCE, streamed=PATIENCE, whole=PATIENCE)
POLICIES = """
modes:
  plan:
    section: PLAN-SECTION
    tools: [read, exit_plan_mode]
"""


@dataclass
class World:
    """The proxy, what is behind it, and the SDKs in front of it."""

    proxy: Running
    back_ends: BackEnds
    sdks: Sdks
    http: httpx.AsyncClient

    async def person(self, method: str, path: str, body: Json | None = None) -> Json:
        """Do something as a person, over one connection that is kept."""
        answer = await self.http.request(method, path, json=body)
        assert answer.status_code == 200, answer.text
        given: Json = answer.json()
        return given

    async def set_mode(self, mode: str, session: str) -> None:
        """Set a session's mode."""
        await self.person("PUT", f"/sessions/{session}/mode", {"mode": mode})


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Run all tests of this file in one loop, so that they share a proxy."""
    return "asyncio"


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """Yield what all tests share."""
    folder = tmp_path_factory.mktemp("world")
    back_ends = BackEnds()
    async with AsyncExitStack() as stack:
        up = await stack.enter_async_context(RawUpstream(back_ends))
        policies = policies_file(folder, POLICIES)
        proxy = await stack.enter_async_context(
            running(folder, up.base_url, waits=WAITS, policies=policies)
        )
        sdks = Sdks(proxy.url)
        stack.push_async_callback(sdks.close)
        http = await stack.enter_async_context(client())
        http.base_url = httpx.URL(f"{proxy.url}/control/v1")
        http.headers["authorization"] = f"Bearer {TOKEN}"
        yield World(proxy, back_ends, sdks, http)


@dataclass
class Conversation:
    """One agent's session with one back end, and what came of it."""

    world: World
    agent: Agent
    session: str
    seen: Seen
    heard: list[Heard]

    async def say(self, text: str) -> Heard:
        """Ask for something."""
        self.heard.append(await self.agent.say(text))
        return self.heard[-1]

    async def give(self, heard: Heard) -> Heard:
        """Run what was called, and go on."""
        self.heard.append(await self.agent.give(heard))
        return self.heard[-1]

    async def set_mode(self, mode: str) -> None:
        """Do what a person does."""
        await self.world.set_mode(mode, self.session)

    async def decided(self, text: str, option: str) -> Heard:
        """Ask for something of which a person decides."""
        async with asyncio.TaskGroup() as group:
            answer = group.create_task(self.say(text))
            name = await self.question(answer)
            await self.world.person("POST", f"/approvals/{name}", {"option": option})
        return answer.result()

    async def question(self, answer: asyncio.Task[Heard]) -> str:
        """Wait for a question to people, which comes before the answer ends."""
        async with asyncio.timeout(PATIENCE):
            while True:
                for one in (await self.world.person("GET", "/approvals"))["approvals"]:
                    if one["session"] == self.session:
                        return str(one["id"])
                assert not answer.done(), "nobody was asked"
                await asyncio.sleep(0)

    def asked(self, accepted: int) -> None:
        """Hold what the back end was asked against what holds for every story."""
        refused = [said for said, _ in self.seen.refused]
        assert refused == [] or (self.agent.entry.learned and len(refused) == 1)
        assert len(self.seen.accepted) == accepted
        for body in self.seen.accepted:
            history = told(self.agent.entry.api, body)
            assert not any("[modegate]" in one.text for one in history if one.kind == "says")
            thoughts = [one.text for one in history if one.kind == "thinks"]
            assert set(thoughts) <= set(self.seen.said), "reasoning that nobody said"
            self.thoughtful(body)
            if any("PLAN-SECTION" in one.text for one in history if one.kind == "system"):
                assert "write" not in offered(self.agent.entry.api, body)

    def thoughtful(self, body: Json) -> None:
        """Each answer has what the agent sends back of its own, also those that it never saw."""
        for message in body.get("messages", ()):
            if message["role"] == "assistant":
                assert set(self.agent.entry.sends_back) <= message.keys()


def plain(heard: Heard) -> tuple[str, list[tuple[str, str]]]:
    """Return an answer without what modegate says in it itself, and without ids."""
    texts = [one for one in heard.text.split("\n\n") if not one.startswith("[modegate]")]
    return "\n\n".join(texts).strip(), [(call.name, call.arguments) for call in heard.calls]


READS = [("read", '{"path": "a.py"}')]
OPENS = [("write", '{"path": "b.py", "text": "yes"}')]


async def hello(talk: Conversation) -> None:
    """A plain answer, and the next."""
    assert plain(await talk.say("hello")) == ("Hello there.", [])
    assert plain(await talk.say("hello")) == ("Hello there.", [])
    talk.asked(2)


async def allowed(talk: Conversation) -> None:
    """An allowed call runs; so does the next."""
    for _ in range(2):
        heard = await talk.say("read")
        assert plain(heard) == ("", READS)
        assert plain(await talk.give(heard)) == ("It says: read ran.", [])
    talk.asked(4)


async def refused(talk: Conversation) -> None:
    """A refused call never reaches the client; the model finds it in each later request."""
    assert plain(await talk.say("write")) == ("Then I only plan.", [])
    assert plain(await talk.say("what do you know")) == ("I know of 1 refused and 0 rejected.", [])
    assert plain(await talk.say("write")) == ("Then I only plan.", [])
    assert plain(await talk.say("what do you know")) == ("I know of 2 refused and 0 rejected.", [])
    talk.asked(6)


async def both(talk: Conversation) -> None:
    """Of two calls in one answer the allowed one runs, and the model finds the refusal beside its result."""
    heard = await talk.say("both")
    assert plain(heard) == ("Both at once.", READS)
    text, calls = plain(await talk.give(heard))
    assert (sorted(text.removeprefix("It came to: ")[:-1].split(", ")), calls) == (
        ["read ran", "refused"],
        [],
    )
    assert plain(await talk.say("what do you know")) == ("I know of 1 refused and 0 rejected.", [])
    talk.asked(3)


async def several(talk: Conversation) -> None:
    """An allowed call between two that are refused runs alone, and each has its result in the end."""
    heard = await talk.say("several")
    assert plain(heard) == ("All at once.", READS)
    text, calls = plain(await talk.give(heard))
    assert (text.count("refused"), text.count("read ran"), calls) == (2, 1, [])
    assert plain(await talk.say("what do you know")) == ("I know of 2 refused and 0 rejected.", [])
    talk.asked(3)


async def insists(talk: Conversation) -> None:
    """Two refused answers in a row are two turns in each later request."""
    assert plain(await talk.say("insist")) == ("Then so.\n\nThen I only plan.", [])
    assert plain(await talk.say("what do you know")) == ("I know of 2 refused and 0 rejected.", [])
    talk.asked(4)


async def approved(talk: Conversation) -> None:
    """A person approves the plan: the same answer goes on with a call of what the mode had not."""
    heard = await talk.decided("plan", "approve")
    assert plain(heard) == ("Here is my plan.\n\nNow I write.", OPENS)
    assert plain(await talk.give(heard)) == ("It is done.", [])
    assert plain(await talk.say("hello")) == ("Hello there.", [])
    talk.asked(4)


async def rejected(talk: Conversation) -> None:
    """A person rejects the plan: the model changes it, and remembers."""
    heard = await talk.decided("plan", "reject")
    assert plain(heard) == ("Here is my plan.\n\nI change it.", [])
    assert plain(await talk.say("what do you know")) == ("I know of 0 refused and 1 rejected.", [])
    talk.asked(3)


async def flipped(talk: Conversation) -> None:
    """A person leaves the mode while a tool runs: no later request is refused for what tells of it."""
    heard = await talk.say("look")
    assert plain(heard) == ("I look.", READS)
    await talk.set_mode("default")
    text, calls = plain(await talk.give(heard))
    assert (text in ("The mode has changed.", "I have looked."), calls) == (True, [])
    heard = await talk.say("write now")
    assert plain(heard) == ("I write it now.", OPENS)
    await talk.set_mode("plan")
    assert plain(await talk.give(heard)) == ("It is done.", [])
    heard = await talk.say("look")
    assert plain(await talk.give(heard)) == ("The mode has changed.", [])
    talk.asked(6)
    assert any(NOTICE in one.text for one in told(talk.agent.entry.api, talk.seen.accepted[-1]))


async def left(talk: Conversation) -> None:
    """What was refused is still there once the mode was left, and the tool is there again."""
    assert plain(await talk.say("write")) == ("Then I only plan.", [])
    await talk.set_mode("default")
    heard = await talk.say("write now")
    assert plain(heard) == ("I write it now.", OPENS)
    assert plain(await talk.give(heard)) == ("It is done.", [])
    assert plain(await talk.say("what do you know")) == ("I know of 1 refused and 0 rejected.", [])
    talk.asked(5)


Story = Callable[[Conversation], Awaitable[None]]
STORIES: list[Story] = [
    hello,
    allowed,
    refused,
    both,
    several,
    insists,
    approved,
    rejected,
    flipped,
    left,
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("entry", BACK_ENDS, ids=lambda entry: entry.key)
async def test_back_end(world: World, entry: BackEnd, story: Story, *, streamed: bool) -> None:
    """The client's answer is usable, the denied call never arrives, and the back end refuses nothing."""
    form = "streamed" if streamed else "whole"
    session = f"{entry.key}-{story.__name__}-{form}"
    model = f"{entry.key}/{story.__name__}-{form}"
    await world.set_mode("plan", session)
    agent = world.sdks.agent(entry, session, model, streamed=streamed)
    talk = Conversation(world, agent, session, world.back_ends.seen[model], [])
    await story(talk)
    assert "S3CRET" not in str(talk.heard)

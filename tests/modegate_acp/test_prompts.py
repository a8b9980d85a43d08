"""Clients whose people see a question only while a prompt of theirs runs, as acpx and CodeCompanion."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modegate_acp.following.catch_up import Snapshot
from modegate_acp.following.followed_sessions import FollowedSessions
from support.acp import (
    AcpError,
    Client,
    Connect,
    Json,
    Streams,
    is_question,
    socket,
    streams,
    updated,
)
from support.acp_story import GIVES_IN, PLAN, POLICIES, WAITS, WRITES, mode, proxied, step
from support.running import Running
from support.waiting import PATIENCE

AT_ONCE = replace(WAITS, nobody=0.05)
"""Where nobody can be asked, a test does not wait for it."""

TWO_WAYS = POLICIES.replace(
    "    aliases:",
    "    exit: {options: [{label: Edit by edit, to: review}, {label: All at once, to: default}]}\n"
    "    aliases:",
)

Opened = Callable[..., AbstractAsyncContextManager[tuple[Running, Client]]]


@pytest.fixture(params=[("acpx", socket), ("CodeCompanion.nvim", streams)], ids=lambda one: one[0])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    """Give a way to have a proxy whose session `s` is in plan, and such a client that follows it."""

    @asynccontextmanager
    async def opened(**more: Any) -> AsyncIterator[tuple[Running, Client]]:
        name, connect = request.param
        async with proxied(tmp_path, **more) as proxy, connect(proxy, name=name) as client:
            await proxy.set_mode("plan")
            await client.load("s")
            yield proxy, client

    return opened


def questions(client: Client) -> list[Json]:
    """Return what it was asked so far."""
    return [one for one in client.seen if is_question(one)]


def said(client: Client) -> str:
    """Return all text that came so far."""
    return "".join(one["content"]["text"] for one in client.updates("agent_message_chunk"))


async def prompt(client: Client, text: str = "/status") -> int:
    """Begin a prompt."""
    return await client.start(
        "session/prompt", sessionId="s", prompt=[{"type": "text", "text": text}]
    )


async def test_a1_a2_a_plan_is_put_to_it_when_a_prompt_begins(opened: Opened) -> None:
    async with opened(waits=AT_ONCE) as (proxy, client):
        # It counts as nobody: the agent does not wait for who shows nothing.
        assert "Here is my plan." in (await step(proxy) or "")
        await client.settled()
        assert questions(client) == []
        assert client.updates("tool_call") == []
        running = await prompt(client, "what now?")
        question = await client.question()
        assert question["params"]["toolCall"]["content"][0]["content"]["text"] == PLAN
        await client.choose(question, "approve")
        assert await client.answer(running) == {"stopReason": "end_turn"}
        assert await mode(proxy) == "default"
        # What such a client is told after its prompt it may not show.
        end = next(at for at, one in enumerate(client.seen) if one.get("id") == running)
        told = [updated(one).get("sessionUpdate") for one in client.seen[:end]]
        assert "current_mode_update" in told
        assert client.updates("tool_call_update")[-1]["status"] == "completed"


async def test_a1_who_approves_everything_approves_no_later_plan(opened: Opened) -> None:
    async with opened(waits=AT_ONCE) as (proxy, client), asyncio.TaskGroup() as group:
        answering = group.create_task(approve_everything(client))
        assert await client.answer(await prompt(client, "/mode default")) == {
            "stopReason": "end_turn"
        }
        assert await mode(proxy) == "default"
        await proxy.set_mode("plan")
        await client.update("current_mode_update", currentModeId="plan")
        asked = len(questions(client))
        await step(proxy)
        await client.settled()
        assert (len(questions(client)), await mode(proxy)) == (asked, "plan")
        answering.cancel()


async def approve_everything(client: Client) -> None:
    """Say yes to whatever comes, as a process in the background does."""
    after = 0
    while True:
        question = await client.find(is_question, after=after)
        after = client.seen.index(question) + 1
        await client.choose(question, question["params"]["options"][0]["optionId"])


async def test_a2_a_plan_that_comes_while_a_prompt_waits_is_put_too(opened: Opened) -> None:
    async with opened() as (proxy, client), asyncio.TaskGroup() as group:
        first = group.create_task(step(proxy))
        await until_open(proxy)
        running = await prompt(client)
        one = await client.question()
        # A sub-agent of the session has a plan, too.
        second = group.create_task(step(proxy, "rename bar"))
        other = await client.question(after=client.seen.index(one) + 1)
        await client.choose(one, "reject")
        assert (await first or "").endswith(GIVES_IN)
        await client.settled()
        assert not any(message.get("id") == running for message in client.seen)
        await client.choose(other, "approve")
        assert (await second or "").endswith(WRITES)
        assert await client.answer(running) == {"stopReason": "end_turn"}


async def until_open(proxy: Running) -> None:
    """Wait until a plan waits for a person."""
    async with asyncio.timeout(PATIENCE):
        while not (await proxy.control("GET", "/approvals")).json()["approvals"]:  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_a2_a_prompt_ends_when_somebody_else_has_answered(opened: Opened) -> None:
    async with opened() as (proxy, client), socket(proxy) as other, asyncio.TaskGroup() as group:
        await other.load("s")
        asking = group.create_task(step(proxy))
        elsewhere = await other.question()
        running = await prompt(client)
        mine = await client.question()
        await other.choose(elsewhere, "reject")
        assert await client.answer(running) == {"stopReason": "end_turn"}
        await client.find(lambda one: one.get("params") == {"requestId": mine["id"]})
        assert (await asking or "").endswith(GIVES_IN)


async def test_a2_what_was_dismissed_is_put_again_in_the_next_prompt(opened: Opened) -> None:
    async with opened() as (proxy, client), socket(proxy) as other, asyncio.TaskGroup() as group:
        await other.load("s")
        asking = group.create_task(step(proxy))
        elsewhere = await other.question()
        running = await prompt(client)
        await client.reply(await client.question(), {"outcome": "cancelled"})
        assert await client.answer(running) == {"stopReason": "end_turn"}
        asked = len(client.seen)
        running = await prompt(client)
        second = await client.question(after=asked)
        await client.notify("session/cancel", sessionId="s")
        assert await client.answer(running) == {"stopReason": "cancelled"}
        await client.find(lambda one: one.get("params") == {"requestId": second["id"]})
        # It has dismissed it twice, and the other one still shows it.
        assert len((await proxy.control("GET", "/approvals")).json()["approvals"]) == 1
        await other.choose(elsewhere, "approve")
        assert (await asking or "").endswith(WRITES)


async def test_a2_a_dismissal_elsewhere_is_a_no_as_it_shows_nothing(opened: Opened) -> None:
    async with opened() as (proxy, _client), socket(proxy) as other, asyncio.TaskGroup() as group:
        await other.load("s")
        asking = group.create_task(step(proxy))
        await other.reply(await other.question(), {"outcome": "cancelled"})
        assert (await asking or "").endswith(GIVES_IN)


@pytest.mark.parametrize("way", ["mode", "option"])
async def test_a2_an_option_that_loosens_is_answered_at_once(opened: Opened, way: str) -> None:
    """CodeCompanion waits 20 s for its answer and shows no dialog meanwhile."""
    async with opened() as (proxy, client):
        methods = {
            "mode": ("session/set_mode", {"modeId": "default"}),
            "option": ("session/set_config_option", {"configId": "mode", "value": "default"}),
        }
        method, wanted = methods[way]
        with pytest.raises(AcpError) as refused:
            await client.call(method, sessionId="s", **wanted)
        assert (refused.value.code, refused.value.data) == (-32800, {"modeId": "plan"})
        assert "`/mode default`" in str(refused.value)
        assert questions(client) == []
        # Its picker shows the mode that it wanted.
        assert client.updates("config_option_update")[-1]["configOptions"][0]["currentValue"] == (
            "plan"
        )
        running = await prompt(client, "/mode default")
        await client.choose(await client.question(), "confirm")
        await client.answer(running)
        assert await mode(proxy) == "default"
        assert "Leave mode 'plan' for 'default'?" in said(client)


async def test_a2_a_mode_typed_beside_a_plan_asks_about_the_mode_alone(opened: Opened) -> None:
    """The flags of acpx say yes to all that is asked meanwhile, and a plan was not what was typed."""
    async with opened(waits=AT_ONCE) as (proxy, client):
        await step(proxy)
        running = await prompt(client, "/mode default")
        await client.choose(await client.question(), "confirm")
        await client.answer(running)
        assert len(questions(client)) == 1
        answered = [one for one in await proxy.events("s") if one["type"] == "approval/answered"]
        assert (answered, await mode(proxy)) == ([], "default")


@pytest.mark.parametrize("typed", ["/mode plan", "/mode nonsense"])
async def test_a1_a_mode_that_is_in_force_already_asks_nothing(opened: Opened, typed: str) -> None:
    """`acpx --approve-all prompt "/mode plan"` would else leave plan mode by a plan that nobody has read."""
    async with opened(waits=AT_ONCE) as (proxy, client), asyncio.TaskGroup() as group:
        await step(proxy)
        answering = group.create_task(approve_everything(client))
        assert await client.answer(await prompt(client, typed)) == {"stopReason": "end_turn"}
        assert (questions(client), await mode(proxy)) == ([], "plan")
        answering.cancel()


async def test_a2_it_reads_the_plan_and_is_offered_one_way(opened: Opened) -> None:
    """Its dialog is a title with yes and no, so what yes is must stand in the text."""
    async with opened(policies=TWO_WAYS, waits=AT_ONCE) as (proxy, client):
        await step(proxy)
        running = await prompt(client)
        question = await client.question()
        offered = [(one["name"], one["kind"]) for one in question["params"]["options"]]
        assert offered == [("Edit by edit", "allow_once"), ("Reject", "reject_once")]
        text = said(client)
        assert "> # Rename foo\n> \n> 1. Rename it — everywhere." in text
        assert "Yes is: Edit by edit\nNo is: Reject\n" in text
        assert "--option approve-2`: All at once" in text
        await client.choose(question, "approve-2")
        # That was not offered here: it decides nothing, and the prompt ends.
        await client.answer(running)
        assert await mode(proxy) == "plan"


async def test_a2_a_prompt_goes_on_to_wait_where_the_session_is_loaded_again(
    opened: Opened,
) -> None:
    """What was asked before may be lost with the stream or the window that showed it."""
    async with opened() as (proxy, client), asyncio.TaskGroup() as group:
        asking = group.create_task(step(proxy))
        await until_open(proxy)
        running = await prompt(client)
        first = await client.question()
        if isinstance(client, Streams):
            await client.drop("s")
            await client.open("s")
        else:
            await client.load("s")
        second = await client.question(after=client.seen.index(first) + 1)
        await client.choose(first, "reject")
        await client.settled()
        assert not any(one.get("id") == running for one in client.seen)
        await client.choose(second, "approve")
        assert (await asking or "").endswith(WRITES)
        assert await client.answer(running) == {"stopReason": "end_turn"}


async def test_a2_a_prompt_does_not_end_before_the_loaded_session_has_asked_again(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever wakes it meanwhile, as the answer to another question does."""
    show, turns = FollowedSessions.show, 20

    def show_late(self: FollowedSessions, snapshot: Snapshot) -> None:
        mark = self.send_queue.mark
        with monkeypatch.context() as patch:
            patch.setattr(self.send_queue, "mark", lambda _: None)
            show(self, snapshot)

        async def wake_and_mark() -> None:
            self.questions._prompts.wake(snapshot.session)
            for _ in range(turns):
                await asyncio.sleep(0)
            mark(snapshot.session)

        _ = self._feed.spawn(wake_and_mark())

    async with opened() as (proxy, client), asyncio.TaskGroup() as group:
        asking = group.create_task(step(proxy))
        await until_open(proxy)
        running = await prompt(client)
        first = await client.question()
        monkeypatch.setattr(FollowedSessions, "show", show_late)
        await client.load("s")
        second = await client.question(after=client.seen.index(first) + 1)
        await client.choose(second, "approve")
        assert (await asking or "").endswith(WRITES)
        assert await client.answer(running) == {"stopReason": "end_turn"}


async def test_a2_who_closes_the_session_in_a_prompt_shows_nothing_any_more(
    opened: Opened,
) -> None:
    async with opened(waits=AT_ONCE) as (proxy, client), asyncio.TaskGroup() as group:
        await step(proxy)
        running = await prompt(client)
        await client.question()
        asking = group.create_task(step(proxy))
        await client.call("session/close", sessionId="s")
        with pytest.raises(AcpError) as ended:
            await client.answer(running)
        assert ended.value.code == -32800
        # Nobody is left, which is no answer.
        await asking
        kinds = [one["type"] for one in await proxy.events("s")]
        assert ("approval/answered" in kinds, await mode(proxy)) == (False, "plan")


async def test_a2_agent_shell_is_asked_at_any_time_and_reads_the_plan_in_front(
    tmp_path: Path, connect: Connect
) -> None:
    """It shows no content of a call that is pending; its buttons have the options' names."""
    async with proxied(tmp_path, policies=TWO_WAYS) as proxy, asyncio.TaskGroup() as group:
        await proxy.set_mode("plan")
        async with connect(proxy, name="agent-shell") as client:
            await client.load("s")
            asking = group.create_task(step(proxy))
            question = await client.question()
            assert "> # Rename foo\n> \n> 1. Rename it" in said(client)
            assert "Yes is" not in said(client)
            names = [one["name"] for one in question["params"]["options"]]
            assert names == ["Edit by edit", "All at once", "Reject"]
            await client.choose(question, "reject")
            assert (await asking or "").endswith(GIVES_IN)


async def test_a2_a_prompt_of_who_may_not_answer_does_not_wait(
    tmp_path: Path, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOKER", "a-token-that-looks-only")
    looker = "control: {tokens: [{name: looker, env: LOOKER, level: observe}]}\n"
    async with proxied(tmp_path, policies=POLICIES + looker, waits=AT_ONCE) as proxy:
        await proxy.set_mode("plan")
        async with connect(proxy, token="a-token-that-looks-only", name="acpx") as client:
            await client.load("s")
            await step(proxy)
            assert await client.prompt("s", "/status") == {"stopReason": "end_turn"}
            assert questions(client) == []


async def test_a3_an_error_is_no_answer_and_the_agent_does_not_wait_for_it(
    tmp_path: Path, connect: Connect
) -> None:
    async with proxied(tmp_path, waits=AT_ONCE) as proxy, connect(proxy, name="zed") as client:
        await proxy.set_mode("plan")
        await client.load("s")
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(step(proxy))
            question = await client.question()
            error = {"code": -32603, "message": "no window"}
            await client.transmit({"jsonrpc": "2.0", "id": question["id"], "error": error})
            await asking
        events = [one["type"] for one in await proxy.events("s")]
        assert "approval/detached" in events
        assert "approval/answered" not in events
        assert await mode(proxy) == "plan"

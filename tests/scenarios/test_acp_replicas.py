"""Two proxies on one log, a client on each: flips and answers cross over in order, and are enforced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from modegate.core.policy.model import Waits
from support.acp import AcpError, Client, Connect, Json, eventually, socket, streams, updated
from support.playbook import call, request, stream
from support.raw_upstream import RawUpstream, chunked
from support.redis_server import redis_server
from support.running import Running, client, policies_file, process, running
from support.sdk_clients import openai_client
from support.waiting import PATIENCE

WAITS = Waits(nobody=PATIENCE, streamed=PATIENCE, whole=PATIENCE)
POLICIES = """
modes:
  plan: {section: S, tools: [read, exit_plan_mode]}
  review: {section: R, tools: [read, bash]}
control: {acp: {confirm_loosening: false}}
"""
SCRIPT = """
answers:
  - when: {last_result: "approved the plan", offers: write}
    text: "Now I write."
  - when: {last_result: "nobody answered"}
    text: "Please answer."
  - when: {last_result: "rejected"}
    text: "I revise."
  - when: {offers: exit_plan_mode}
    calls: [{name: exit_plan_mode, arguments: {plan: "# Rename foo"}}]
  - text: "Nothing."
    calls: [{name: write, arguments: {path: a}}]
"""
TOOLS: Any = request("read", "write")["tools"]


@pytest.fixture(params=["sqlite", "redis"])
def log_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Yield the URL of a log that two proxies share."""
    if request.param == "sqlite":
        yield f"sqlite:{tmp_path / 'log.db'}"
    else:
        with redis_server(tmp_path) as server:
            yield server.url


@asynccontextmanager
async def two(
    folder: Path, log: str, waits: Waits = WAITS
) -> AsyncIterator[tuple[Running, Running]]:
    """Run two proxies on one log."""
    script = folder / "script.yaml"
    script.write_text(SCRIPT, encoding="utf-8")
    folders = (folder / "one", folder / "two")
    for one in folders:
        one.mkdir()
    more: dict[str, Any] = {"waits": waits, "log": log}
    async with (
        running(
            folders[0], f"scripted:{script}", policies=policies_file(folders[0], POLICIES), **more
        ) as first,
        running(
            folders[1], f"scripted:{script}", policies=policies_file(folders[1], POLICIES), **more
        ) as second,
    ):
        yield first, second


async def step(proxy: Running, session: str) -> tuple[str, list[str]]:
    """Ask the model, and give its text and the tools that it calls."""
    async with openai_client(proxy.base(session)) as openai:
        messages: Any = [{"role": "user", "content": "rename foo"}]
        answer = await openai.chat.completions.create(model="m", messages=messages, tools=TOOLS)
    message = answer.choices[0].message
    calls = [one.function.name for one in message.tool_calls or [] if one.type == "function"]
    return str(message.content), calls


def told(message: Json) -> int | None:
    """Return the seq of an update that tells a mode."""
    if "currentModeId" not in updated(message):
        return None
    return int(message["params"]["_meta"]["modegate/seq"])


def seqs(client: Client) -> list[int]:
    return [seq for one in client.seen if (seq := told(one)) is not None]


@pytest.mark.parametrize("connect", [socket, streams], ids=["websocket", "http"])
async def test_flips_cross_over_in_order_and_are_enforced(
    tmp_path: Path, log_url: str, connect: Connect
) -> None:
    """Cline 13088 (B169): the very next request is judged in the new mode, at either proxy."""
    async with (
        two(tmp_path, log_url) as (first, second),
        connect(first, name="desk") as desk,
        connect(second, name="phone") as phone,
    ):
        session = await desk.new()
        assert (await phone.load(session))["modes"]["currentModeId"] == "default"
        assert (await step(second, session))[1] == ["write"]
        await phone.set_mode(session, "review")
        assert (await step(first, session))[1] == []
        await desk.update("current_mode_update", currentModeId="review")
        await desk.set_mode(session, "default")
        assert (await step(second, session))[1] == ["write"]
        await phone.update("current_mode_update", currentModeId="default")
        for mode in ("plan", "review", "default", "plan"):
            await desk.set_mode(session, mode)
        last = seqs(desk)[-1]
        await phone.find(lambda one: told(one) == last)
        assert seqs(phone) == sorted(set(seqs(phone)))
        assert seqs(desk) == sorted(set(seqs(desk)))
        assert updated(next(one for one in phone.seen if told(one) == last))["modeId"] == "plan"


async def test_an_approval_crosses_over(tmp_path: Path, log_url: str) -> None:
    async with (
        two(tmp_path, log_url) as (first, second),
        socket(first, name="desk") as desk,
        streams(second, name="phone") as phone,
    ):
        session = await desk.new()
        await desk.set_mode(session, "plan")
        await phone.load(session)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(step(first, session))
            asked, same = await desk.question(), await phone.question()
            assert text(asked) == text(same) == "# Rename foo"
            await phone.choose(same, "approve")
            assert (await waiting)[0].endswith("Now I write.")
        await desk.find(lambda one: one.get("params") == {"requestId": asked["id"]})
        for person in (desk, phone):
            await person.update("tool_call_update", status="completed")
            await person.update("current_mode_update", currentModeId="default")
        assert (await step(second, session))[1] == ["write"]


async def dismiss(client: Client, question: Json, how: str) -> None:
    """End a dialog without a decision."""
    if how == "cancelled":
        await client.reply(question, {"outcome": "cancelled"})
    else:
        error = {"code": -32603, "message": "this client shows no dialogs"}
        await client.transmit({"jsonrpc": "2.0", "id": question["id"], "error": error})


async def has_left(proxy: Running, session: str, times: int) -> None:
    async def left() -> bool:
        kinds = [event["type"] for event in await proxy.events(session)]
        return kinds.count("client/left") == times

    await eventually(left)


@pytest.mark.parametrize("how", ["cancelled", "an error"])
async def test_a7_a_dismissal_leaves_it_to_the_other_replica(
    tmp_path: Path, log_url: str, how: str
) -> None:
    """A dismissal at one replica is an abstention while a client of another has the question."""
    async with (
        two(tmp_path, log_url) as (first, second),
        socket(first, name="desk") as desk,
        streams(second, name="phone") as phone,
    ):
        session = await desk.new()
        await desk.set_mode(session, "plan")
        await phone.load(session)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(step(first, session))
            asked, same = await desk.question(), await phone.question()
            await dismiss(desk, asked, how)
            await has_left(first, session, 1)
            await phone.choose(same, "approve")
            assert (await waiting)[0].endswith("Now I write.")


async def test_a7_dismissed_by_all_is_a_no(tmp_path: Path, log_url: str) -> None:
    async with (
        two(tmp_path, log_url) as (first, second),
        socket(first, name="desk") as desk,
        socket(second, name="phone") as phone,
    ):
        session = await desk.new()
        await desk.set_mode(session, "plan")
        await phone.load(session)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(step(first, session))
            asked, same = await desk.question(), await phone.question()
            await dismiss(desk, asked, "cancelled")
            await has_left(first, session, 1)
            await dismiss(phone, same, "cancelled")
            assert (await waiting)[0].endswith("I revise.")


@pytest.mark.parametrize("how", ["cancelled", "an error"])
async def test_a7_a_step_does_not_wait_where_nobody_is_left(
    tmp_path: Path, log_url: str, how: str
) -> None:
    """One dismisses it, the other's socket ends: the step goes on long before its time is over."""
    waits = Waits(nobody=2.0, streamed=PATIENCE * 10, whole=PATIENCE * 10)
    async with two(tmp_path, log_url, waits) as (first, second), socket(first) as desk:
        session = await desk.new()
        await desk.set_mode(session, "plan")
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            async with socket(second, name="phone") as phone:
                await phone.load(session)
                waiting = group.create_task(step(first, session))
                asked, _same = await desk.question(), await phone.question()
                await dismiss(desk, asked, how)
                await has_left(first, session, 1)
                phone.socket.transport.abort()
                await phone.until_closed()
            assert (await waiting)[0].endswith("Please answer.")
        (detached,) = [
            event for event in await first.events(session) if event["type"] == "approval/detached"
        ]
        assert detached["data"]["why"] == "nobody"


def text(question: Json) -> str:
    found: str = question["params"]["toolCall"]["content"][0]["content"]["text"]
    return found


async def test_b170_plan_set_before_the_first_request_survives_kill_9(
    tmp_path: Path, log_url: str
) -> None:
    """Set before anything of the session exists, it is in force from the first request on."""
    async with RawUpstream(chunked(stream(call("write", '{"path":"S3CRET"}')))) as up:
        with process(tmp_path, up.base_url, log=log_url) as first:
            async with socket(first.running) as desk:
                session = await desk.new()
                await desk.set_mode(session, "default")
                await desk.set_mode(session, "plan")
            first.kill()
        with process(tmp_path, up.base_url, log=log_url) as again:
            async with client() as http:
                body = request("read", "write", stream=True)
                url = f"{again.running.base(session)}/chat/completions"
                assert b"S3CRET" not in (await http.post(url, json=body)).content
            async with streams(again.running) as phone:
                assert (await phone.load(session))["modes"]["currentModeId"] == "plan"
            again.kill()


async def test_what_the_log_cannot_take_is_not_told(tmp_path: Path) -> None:
    """Nothing takes effect before it is durable, and no client is shown what did not."""
    with redis_server(tmp_path) as server:
        async with running(tmp_path, "http://127.0.0.1:9", log=server.url) as proxy:
            async with socket(proxy) as desk:
                session = await desk.new()
                server.kill()
                with pytest.raises(AcpError) as caught:
                    await desk.set_mode(session, "plan")
                assert (caught.value.code, caught.value.data) == (
                    -32603,
                    {"code": "log_unavailable"},
                )
                assert desk.updates("current_mode_update") == []
                server.start()


async def test_an_answer_that_the_log_could_not_take_is_asked_for_again(tmp_path: Path) -> None:
    """qwen-code PR 5910: no answer is accepted and lost."""
    options = ("--appendonly", "yes", "--appendfsync", "always")
    with redis_server(tmp_path, *options) as server:
        async with (
            two(tmp_path, server.url) as (first, second),
            socket(first) as desk,
            streams(second) as phone,
        ):
            session = await desk.new()
            await desk.set_mode(session, "plan")
            await phone.load(session)
            async with asyncio.TaskGroup() as group:
                waiting = group.create_task(step(first, session))
                lost = await desk.question()
                await phone.question()
                server.kill()
                await desk.choose(lost, "approve")
                after = len(desk.seen)
                refused = await desk.start("session/set_mode", sessionId=session, modeId="review")
                with pytest.raises(AcpError):
                    await desk.answer(refused)
                server.start()
                await desk.choose(await desk.question(after=after), "approve")
                assert (await waiting)[0].endswith("Now I write.")
            for person in (desk, phone):
                await person.update("current_mode_update", currentModeId="default")

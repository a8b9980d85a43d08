"""Plan mode is left by an approved plan: real sockets, the real openai SDK, two proxies on one log."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessage

from modegate.core.policy.model import Waits
from modegate.core.step.texts import PLAN_WAITS
from support.playbook import request
from support.running import Running, client, policies_file, running
from support.sdk_clients import openai_client
from support.waiting import PATIENCE

Ask = Callable[[AsyncOpenAI], Coroutine[Any, Any, ChatCompletionMessage]]
WAITS = Waits(nobody=PATIENCE, streamed=PATIENCE, whole=PATIENCE)
POLICIES = """
modes:
  plan:
    section: PLAN-SECTION
    tools: [read, exit_plan_mode]
"""
SCRIPT = """
answers:
  - when: {last_result: "approved the plan", offers: write, lacks: exit_plan_mode}
    text: "Now I write."
    calls: [{name: write, arguments: {path: notes.txt}}]
  - when: {last_result: "nobody answered"}
    text: "Please answer."
  - when: {any: "from 'plan' to 'default'", offers: write}
    text: "You approved it meanwhile."
  - when: {offers: exit_plan_mode}
    text: "Here is my plan."
    calls: [{name: exit_plan_mode, arguments: {plan: "# Rename foo"}}]
  - text: "Something else was asked."
"""
TOOLS: Any = request("read", "write")["tools"]
MESSAGES: Any = [{"role": "user", "content": "rename foo"}]
BODY = request("read", "write", messages=MESSAGES)


@asynccontextmanager
async def planning(folder: Path, **more: Any) -> AsyncIterator[Running]:
    """Run a proxy whose model submits a plan, with session `s` in plan mode."""
    script = folder / "script.yaml"
    script.write_text(SCRIPT, encoding="utf-8")
    more = {"waits": WAITS, "policies": policies_file(folder, POLICIES), **more}
    async with running(folder, f"scripted:{script}", **more) as proxy:
        await proxy.set_mode("plan")
        yield proxy


async def until(found: Callable[[], Awaitable[Any]]) -> Any:
    """Ask again until there is something."""
    async with asyncio.timeout(PATIENCE):
        while not (value := await found()):  # noqa: ASYNC110 -- the proxy is asked each time
            await asyncio.sleep(0)
        return value


async def question(proxy: Running) -> dict[str, Any]:
    """Wait for a question to people, as one who lists them."""

    async def asked() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await proxy.control("GET", "/approvals")).json()["approvals"]
        return found

    (one,) = await until(asked)
    found: dict[str, Any] = one
    return found


async def deliver(proxy: Running, name: str) -> None:
    answer = await proxy.control("POST", f"/approvals/{name}/delivered", json={"via": "test"})
    assert answer.json()["status"] == "delivered"


async def settle(proxy: Running, name: str, option: str) -> dict[str, Any]:
    answer = await proxy.control("POST", f"/approvals/{name}", json={"option": option})
    assert answer.status_code == 200, answer.text
    settled: dict[str, Any] = answer.json()
    return settled


async def mode(proxy: Running) -> str:
    return str((await proxy.control("GET", "/sessions/s")).json()["mode"])


async def kinds(proxy: Running) -> list[str]:
    return [event["type"] for event in await proxy.events()]


async def streamed(openai: AsyncOpenAI) -> ChatCompletionMessage:
    """Ask as an agent that streams."""
    stream = openai.chat.completions.stream(model="m", messages=MESSAGES, tools=TOOLS)
    async with stream as events:
        async for _ in events:
            pass
        return (await events.get_final_completion()).choices[0].message


async def whole(openai: AsyncOpenAI) -> ChatCompletionMessage:
    """Ask as an agent that does not."""
    answer = await openai.chat.completions.create(model="m", messages=MESSAGES, tools=TOOLS)
    return answer.choices[0].message


def sdk(proxy: Running) -> AsyncOpenAI:
    return openai_client(proxy.base())


@pytest.mark.parametrize("ask", [streamed, whole])
async def test_approved_at_another_process_the_waiting_request_goes_on(
    tmp_path: Path, ask: Ask
) -> None:
    """The SDK sees one answer that ends in the call of a tool that plan mode does not have."""
    other = tmp_path / "other"
    other.mkdir()
    log = f"sqlite:{tmp_path / 'log.db'}"
    async with (
        planning(tmp_path, log=log, keepalive=0.01) as proxy,
        running(other, "http://127.0.0.1:9", log=log) as second,
        sdk(proxy) as openai,
        asyncio.TaskGroup() as group,
    ):
        answer = group.create_task(ask(openai))
        asked = await question(second)
        assert (asked["session"], asked["text"]) == ("s", "# Rename foo")
        await deliver(second, asked["id"])
        settled = await settle(second, asked["id"], "approve")
        assert (settled["mode"], settled["waited"]) == ("default", True)
        message = await answer
        assert await mode(proxy) == "default"
        log_of_both = await kinds(proxy)
    # Where it streams, the screen says that the plan waits, once there was a silence.
    content = (message.content or "").replace(f"\n\n{PLAN_WAITS}", "")
    assert content == "Here is my plan.\n\nNow I write."
    assert message.tool_calls is not None
    assert [one.function.name for one in message.tool_calls if one.type == "function"] == ["write"]
    at = log_of_both.index("approval/answered")
    assert log_of_both[at : at + 2] == ["approval/answered", "mode/set"]
    assert log_of_both.count("mode/set") == 2


async def test_a_stream_is_kept_alive_while_a_person_thinks(tmp_path: Path) -> None:
    """Events come that say nothing, which idle timers count, and behind them the rest of the answer."""
    async with planning(tmp_path, keepalive=0.01) as proxy, client() as http:
        url, body = f"{proxy.base()}/chat/completions", {**BODY, "stream": True}
        async with http.stream("POST", url, json=body) as answer:
            assert answer.status_code == 200
            lines = answer.aiter_lines()
            empty = 0
            while empty < 2:
                empty += '"delta":{},"finish_reason":null' in await anext(lines)
            asked = await question(proxy)
            await settle(proxy, asked["id"], "approve")
            rest = [line async for line in lines]
    assert "data: [DONE]" in rest
    assert any('"write"' in line for line in rest)
    assert not any("exit_plan_mode" in line for line in rest)


async def hang_up(proxy: Running, *, stream: bool) -> str:
    """Ask as an agent that breaks off its request while a person reads; give the question's id."""
    body = json.dumps({**BODY, "stream": stream}).encode()
    _, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    head = "POST /s/s/v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length:"
    writer.write(f"{head} {len(body)}\r\n\r\n".encode() + body)
    asked = await question(proxy)
    await deliver(proxy, asked["id"])
    writer.close()

    async def dropped() -> bool:
        return "approval/dropped" in await kinds(proxy)

    await until(dropped)
    return str(asked["id"])


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_client_that_leaves_takes_its_question_along(tmp_path: Path, stream: bool) -> None:
    """An interrupt is no approval, and nobody can approve for it once it does not come back."""
    async with planning(tmp_path, waits=replace(WAITS, back=0.05)) as proxy:
        name = await hang_up(proxy, stream=stream)

        async def closed() -> bool:
            return "approval/closed" in await kinds(proxy)

        await until(closed)
        (event,) = [one for one in await proxy.events() if one["type"] == "approval/closed"]
        assert event["data"]["why"] == "abandoned"
        late = await proxy.control("POST", f"/approvals/{name}", json={"option": "approve"})
        assert (late.status_code, late.json()["error"]["code"]) == (409, "not_open")
        assert (late.json()["error"]["status"], late.json()["error"]["why"]) == (
            "closed",
            "abandoned",
        )
        assert await mode(proxy) == "plan"
        assert (await kinds(proxy)).count("mode/set") == 1


@pytest.mark.parametrize("ask", [streamed, whole])
async def test_r1_a_client_that_comes_back_joins_its_question(tmp_path: Path, ask: Ask) -> None:
    """At another process: the person's dialog is still the one, and the answer reaches the second request."""
    other = tmp_path / "other"
    other.mkdir()
    log = f"sqlite:{tmp_path / 'log.db'}"
    async with (
        planning(tmp_path, log=log) as proxy,
        planning(other, log=log) as second,
        sdk(second) as openai,
        asyncio.TaskGroup() as group,
    ):
        name = await hang_up(proxy, stream=ask is streamed)
        answer = group.create_task(ask(openai))

        async def joined() -> bool:
            return "approval/joined" in await kinds(second)

        await until(joined)
        asked = await question(second)
        assert asked["id"] == name
        settled = await settle(proxy, name, "approve")
        assert (settled["mode"], settled["waited"]) == ("default", True)
        message = await answer
        assert (await kinds(proxy)).count("approval/asked") == 1
    assert message.content == "Here is my plan.\n\nNow I write."


@pytest.mark.parametrize("ask", [streamed, whole])
async def test_a_shutdown_detaches_and_a_later_approval_is_noticed(
    tmp_path: Path, ask: Ask
) -> None:
    """The agent gets its answer, the plan outlives the process, and the next request tells the model."""
    async with (
        planning(tmp_path) as proxy,
        sdk(proxy) as openai,
        asyncio.TaskGroup() as group,
    ):
        answer = group.create_task(ask(openai))
        asked = await question(proxy)
        await deliver(proxy, asked["id"])
        assert proxy.composed is not None
        proxy.composed.drain()
        message = await answer
    assert message.content == "Here is my plan.\n\nPlease answer."
    assert not message.tool_calls
    script, policies = tmp_path / "script.yaml", tmp_path / "policies.yaml"
    async with running(tmp_path, f"scripted:{script}", policies=policies) as again:
        (event,) = [one for one in await again.events() if one["type"] == "approval/detached"]
        assert event["data"]["why"] == "shutdown"
        assert await mode(again) == "plan"
        settled = await settle(again, asked["id"], "approve")
        assert (settled["waited"], settled["mode"]) == (False, "default")
        assert await mode(again) == "default"
        async with sdk(again) as openai:
            noticed = await ask(openai)
    assert noticed.content == "You approved it meanwhile."


@pytest.mark.parametrize("ask", [streamed, whole])
async def test_with_nobody_there_the_request_goes_on_in_plan_mode(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, ask: Ask
) -> None:
    """Silence is no approval; and who got the whole answer counts as answered, not as gone."""
    waits = Waits(nobody=0, streamed=PATIENCE, whole=PATIENCE)
    with caplog.at_level(logging.INFO):
        async with planning(tmp_path, waits=waits) as proxy, sdk(proxy) as openai:
            message = await ask(openai)
            assert message.content == "Here is my plan.\n\nPlease answer."
            assert await mode(proxy) == "plan"
            assert (await question(proxy))["why"] == "nobody"
    (step,) = [one.getMessage() for one in caplog.records if one.name == "modegate.step"]
    assert "outcome=answered" in step

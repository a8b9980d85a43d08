"""The official SDKs as clients: modes are flipped and plans are answered, over every transport."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.acp_clients import Refused, SdkClient, connected, sdks
from support.acp_story import GIVES_IN, PLAN, WRITES, mode, proxied, step

pytestmark = pytest.mark.timeout(150)
"""Processes start here, which takes long where a machine has other work; nothing waits for the time."""

CLIENTS = [
    f"{language} {transport}"
    for language in ("python", "typescript")
    for transport in ("ws", "http", "stdio")
]


@pytest.fixture(scope="module")
def sockets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    with sdks(tmp_path_factory.mktemp("sdks")) as sockets:
        yield sockets


async def set_mode(client: SdkClient, wanted: str) -> None:
    assert await client.call("session/set_mode", sessionId="s", modeId=wanted) in ({}, None)


async def leave_by(client: SdkClient, method: str, **params: str) -> Any:
    """Set default, and confirm in the dialog that asks for it."""
    number = client.begin(method, sessionId="s", **params)
    ask, shown = await client.asked()
    assert shown["toolCall"]["rawInput"] == {"from": "plan", "to": "default"}
    client.choose(ask, "confirm")
    return await client.end(number)


@pytest.mark.parametrize("name", CLIENTS)
async def test_modes_are_listed_set_and_told(
    tmp_path: Path, sockets: dict[str, Path], name: str
) -> None:
    async with proxied(tmp_path) as proxy, connected(sockets, name, proxy) as client:
        (row,) = (await client.call("session/list"))["sessions"]
        assert row["sessionId"] == "s"

        loaded = await client.load()
        assert loaded["modes"]["currentModeId"] == "default"
        ids = [one["id"] for one in loaded["modes"]["availableModes"]]
        assert ids == ["default", "plan", "review"]
        assert [one["value"] for one in loaded["configOptions"][0]["options"]] == ids

        await set_mode(client, "plan")
        assert await mode(proxy) == "plan"
        await client.told_of("plan")
        assert await leave_by(client, "session/set_mode", modeId="default") in ({}, None)
        assert await mode(proxy) == "default"
        await client.told_of("default")

        await set_mode(client, "architect")
        await client.told_of("plan")
        value: dict[str, Any] = {"configId": "mode", "value": "default"}
        changed = await leave_by(client, "session/set_config_option", **value)
        assert changed["configOptions"][0]["currentValue"] == "default"

        # Somebody else changes it.
        await proxy.set_mode("review")
        await client.told_of("review")
        with pytest.raises(Refused) as refused:
            await set_mode(client, "nonsense")
        assert refused.value.code == -32602
        assert (refused.value.data or {})["available"] == ids
        assert await mode(proxy) == "review"


@pytest.mark.parametrize("name", CLIENTS)
async def test_a_plan_is_shown_rejected_dismissed_and_approved(
    tmp_path: Path, sockets: dict[str, Path], name: str
) -> None:
    async with proxied(tmp_path) as proxy, connected(sockets, name, proxy) as client:
        await client.load()
        await set_mode(client, "plan")

        async with asyncio.TaskGroup() as group:
            asking = group.create_task(step(proxy))
            ask, shown = await client.asked()
            call = shown["toolCall"]
            assert [part["content"]["text"] for part in call["content"]] == [PLAN]
            assert call["rawInput"] == {"tool": "exit_plan_mode"}
            assert [one["optionId"] for one in shown["options"]] == ["approve", "reject"]
            assert shown["options"][-1]["kind"] == "reject_once"
            pending = await client.update("tool_call")
            assert (pending["toolCallId"], pending["kind"]) == (call["toolCallId"], "switch_mode")
            client.choose(ask, "reject")
        assert (asking.result() or "").endswith(GIVES_IN)
        assert (await client.update("tool_call_update"))["status"] == "failed"
        assert await mode(proxy) == "plan"

        async with asyncio.TaskGroup() as group:
            asking = group.create_task(step(proxy))
            ask, _ = await client.asked()
            # An open question holds nothing up.
            assert (await client.call("session/list"))["sessions"]
            # The last one who could answer does not want to: that is a no.
            client.dismiss(ask)
        assert (asking.result() or "").endswith(GIVES_IN)
        assert await mode(proxy) == "plan"

        async with asyncio.TaskGroup() as group:
            asking = group.create_task(step(proxy))
            ask, _ = await client.asked()
            client.choose(ask, "approve")
        assert (asking.result() or "").endswith(WRITES)
        await client.told_of("default")
        assert await mode(proxy) == "default"
        answered = [e for e in await proxy.events() if e["type"] == "approval/answered"]
        assert [event["data"]["option"] for event in answered] == ["reject", "reject", "approve"]
        assert all(event["by"].startswith("person:acp") for event in answered)


@pytest.mark.parametrize("name", CLIENTS)
async def test_a_question_is_withdrawn_and_a_prompt_can_be_cancelled(
    tmp_path: Path, sockets: dict[str, Path], name: str
) -> None:
    async with proxied(tmp_path) as proxy, connected(sockets, name, proxy) as client:
        await client.load()
        await set_mode(client, "plan")
        async with asyncio.TaskGroup() as group:
            group.create_task(step(proxy))
            ask, _ = await client.asked()
            (one,) = (await proxy.control("GET", "/approvals")).json()["approvals"]
            await proxy.control("POST", f"/approvals/{one['id']}", json={"option": "approve"})
        if name.startswith("typescript"):
            # The Python SDK does not know $/cancel_request; its clients see the call's final status.
            await client.take(lambda line: line.get("withdrawn") == ask)
        assert (await client.update("tool_call_update"))["status"] == "completed"
        await client.told_of("default")

        async def prompt(text: str) -> int:
            block = [{"type": "text", "text": text}]
            return client.begin("session/prompt", sessionId="s", prompt=block)

        await client.end(await prompt("/mode plan"))
        await client.told_of("plan")
        number = await prompt("/mode default")
        await client.asked()
        client.tell(notify="session/cancel", params={"sessionId": "s"})
        assert (await client.end(number))["stopReason"] == "cancelled"
        assert (await client.end(await prompt("/status")))["stopReason"] == "end_turn"
        assert await mode(proxy) == "plan"


@pytest.mark.parametrize("name", CLIENTS)
async def test_who_connects_again_is_shown_what_is_so_and_asked_what_is_open(
    tmp_path: Path, sockets: dict[str, Path], name: str
) -> None:
    async with proxied(tmp_path) as proxy:
        async with connected(sockets, name, proxy) as first:
            await first.load()
            await set_mode(first, "plan")
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(step(proxy))
            async with connected(sockets, name, proxy) as second:
                resumed = await second.call("session/resume", sessionId="s", cwd="/", mcpServers=[])
                assert resumed["modes"]["currentModeId"] == "plan"
                await second.asked()
            async with connected(sockets, name, proxy) as third:
                await third.load()
                ask, shown = await third.asked()
                assert shown["toolCall"]["content"][0]["content"]["text"] == PLAN
                third.choose(ask, "approve")
                await third.told_of("default")
        assert (asking.result() or "").endswith(WRITES)

"""Leaving a mode over ACP: the person at the same client confirms it, and nothing else is a yes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modegate_acp.methods import set_mode
from support.acp import AcpError, Client, Connect, Json, socket, updated
from support.running import Running, policies_file, running


async def confirm(client: Client, option: str = "confirm", *, after: int = 0) -> Json:
    question = await client.question(after=after)
    await client.choose(question, option)
    return question


async def test_leaving_a_mode_is_confirmed_at_the_same_client(
    proxy: Running, connect: Connect
) -> None:
    """Acpx replays saved modes when it reconnects, so that a wish is no proof of a person's decision."""
    async with connect(proxy) as client, connect(proxy) as other:
        session = await client.new()
        await other.load(session)
        await client.set_mode(session, "plan")
        wish = await client.start("session/set_mode", sessionId=session, modeId="default")
        question = await confirm(client)
        assert await client.answer(wish) == {}
        call = question["params"]["toolCall"]
        assert (call["kind"], call["status"]) == ("switch_mode", "pending")
        assert call["rawInput"] == {"from": "plan", "to": "default"}
        kinds_offered = [one["kind"] for one in question["params"]["options"]]
        assert kinds_offered == ["allow_once", "reject_once"]
        await client.update("tool_call_update", status="completed")
        await other.update("current_mode_update", currentModeId="default")
        await other.settled()
        assert other.updates("tool_call") == []
    events = await proxy.events(session)
    assert [one["data"].get("mode") for one in events] == [None, "plan", "default"]


REFUSALS: dict[str, Json] = {
    "reject": {"outcome": "selected", "optionId": "reject"},
    "cancelled": {"outcome": "cancelled"},
    "an option that was not offered": {"outcome": "selected", "optionId": "allow_always"},
    "nonsense": {"outcome": "approved", "optionId": "confirm"},
}


@pytest.mark.parametrize("outcome", REFUSALS.values(), ids=REFUSALS)
async def test_what_is_not_confirmed_is_not_set(
    proxy: Running, connect: Connect, outcome: Json
) -> None:
    """claude-code #89403: a rejected exit must not switch the gate off."""
    async with connect(proxy) as client:
        session = await client.new()
        await client.set_mode(session, "plan")
        after = await client.settled()
        wish = await client.start("session/set_mode", sessionId=session, modeId="default")
        await client.reply(await client.question(), outcome)
        with pytest.raises(AcpError) as caught:
            await client.answer(wish)
        assert caught.value.code == -32800
        assert caught.value.data == {"modeId": "plan"}
        # Clients that showed the new mode already are told the one in force.
        await client.update("current_mode_update", after=after, currentModeId="plan")
        await client.update("tool_call_update", status="failed")
    assert len(await proxy.events(session)) == 2


async def test_a_dialog_blocks_nothing(proxy: Running, connect: Connect) -> None:
    """claude-agent-acp #830, qwen-code #11795: not the reader, not other sessions, not `set_mode`."""
    async with connect(proxy) as client:
        session, other = await client.new(), await client.new()
        await client.set_mode(session, "plan")
        wish = await client.start("session/set_mode", sessionId=session, modeId="default")
        question = await client.question()
        await client.set_mode(other, "plan")
        await client.prompt(session, "/status")
        await client.call("session/list")
        await client.choose(question, "confirm")
        assert await client.answer(wish) == {}


async def test_a_dialog_does_not_wait_for_ever(
    proxy: Running, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(set_mode, "CONFIRM_S", 0.05)
    async with connect(proxy) as client:
        session = await client.new()
        await client.set_mode(session, "plan")
        with pytest.raises(AcpError, match="in time") as caught:
            await client.set_mode(session, "default")
        assert caught.value.code == -32800
        question = await client.question()
        await client.find(lambda one: one.get("params") == {"requestId": question["id"]})
    assert len(await proxy.events(session)) == 2


async def test_a_later_wish_takes_the_place_of_one_that_waits(
    proxy: Running, connect: Connect
) -> None:
    async with connect(proxy) as client:
        session = await client.new()
        await client.set_mode(session, "plan")
        wish = await client.start("session/set_mode", sessionId=session, modeId="default")
        question = await client.question()
        await client.set_mode(session, "plan")
        with pytest.raises(AcpError) as caught:
            await client.answer(wish)
        assert caught.value.code == -32800
        await client.find(lambda one: one.get("params") == {"requestId": question["id"]})
        await client.choose(question, "confirm")
        await client.settled()
    assert len(await proxy.events(session)) == 2


async def test_a_dialog_ends_when_the_mode_has_changed(proxy: Running, connect: Connect) -> None:
    async with connect(proxy) as client:
        session = await client.new()
        await client.set_mode(session, "plan")
        wish = await client.start("session/set_mode", sessionId=session, modeId="default")
        question = await client.question()
        await proxy.set_mode("review", session)
        with pytest.raises(AcpError) as caught:
            await client.answer(wish)
        assert caught.value.code == -32800
        await client.find(lambda one: one.get("params") == {"requestId": question["id"]})
        # A late yes, and no older mode is told behind the newer one.
        await client.choose(question, "confirm")
        await client.settled()
        told = [
            updated(one)["currentModeId"] for one in client.seen if "currentModeId" in updated(one)
        ]
        assert told[:2] == ["plan", "review"]
        assert set(told[1:]) == {"review"}
    assert [one["data"].get("mode") for one in await proxy.events(session)][-1] == "review"


async def test_a_wish_that_others_fulfil_is_fulfilled(proxy: Running, connect: Connect) -> None:
    async with connect(proxy) as client:
        session = await client.new()
        await client.set_mode(session, "plan")
        wish = await client.start(
            "session/set_config_option", sessionId=session, configId="mode", value="default"
        )
        await client.question()
        await proxy.set_mode("default", session)
        (option,) = (await client.answer(wish))["configOptions"]
        assert option["currentValue"] == "default"


async def test_who_has_seen_the_mode_need_not_confirm(proxy: Running, connect: Connect) -> None:
    async with connect(proxy) as client:
        session = await client.new()
        await client.set_mode(session, "plan")
        seen = client.seen[-2]["params"]["_meta"]
        await client.set_mode(session, "default", _meta=seen)
        assert not any("requestId" in one.get("params", {}) for one in client.seen)
        assert client.updates("tool_call") == []
    assert len(await proxy.events(session)) == 3


@pytest.mark.parametrize("seen", [1, 3, 0, -1, "2", 2.0, True, None])
async def test_another_seq_is_no_proof(proxy: Running, seen: Any) -> None:
    async with socket(proxy) as client:
        session = await client.new()
        await client.set_mode(session, "plan")
        await client.start(
            "session/set_mode", sessionId=session, modeId="default", _meta={"modegate/seq": seen}
        )
        await client.question()
    assert len(await proxy.events(session)) == 2


async def test_policy_can_do_without_the_dialog(tmp_path: Path, connect: Connect) -> None:
    policies = policies_file(
        tmp_path,
        "modes: {plan: {section: S, tools: [read]}}\ncontrol: {acp: {confirm_loosening: false}}\n",
    )
    async with running(tmp_path, "http://127.0.0.1:9", policies=policies) as proxy:
        async with connect(proxy) as client:
            session = await client.new()
            await client.set_mode(session, "plan")
            await client.set_mode(session, "default")
            await client.update("current_mode_update", currentModeId="default")

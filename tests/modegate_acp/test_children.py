"""A sub-agent's session at ACP clients: its parent's mode holds it, and people are told so."""

from __future__ import annotations

from typing import Any

import pytest

from support.acp import AcpError, Client, Connect, Json, socket
from support.running import Running, client


async def child_of(proxy: Running, parent: str, child: str) -> None:
    """Have a sub-agent send a request; its upstream is not there."""
    async with client() as http:
        url = f"{proxy.base(child)}/chat/completions"
        body = {"model": "m", "messages": [{"role": "user", "content": "look"}]}
        await http.post(url, json=body, headers={"x-parent-session-id": parent})


async def row_of(client: Client, session: str) -> Json:
    rows: list[Json] = (await client.call("session/list"))["sessions"]
    return next(one for one in rows if one["sessionId"] == session)


def held(shown: Json) -> tuple[str, Any]:
    return shown["modes"]["currentModeId"], shown["_meta"].get("modegate/heldBy")


async def test_a6_a_child_shows_what_is_in_force_and_by_whom(
    proxy: Running, connect: Connect, name: str
) -> None:
    parent, child = name, f"{name}-child"
    await proxy.set_mode("plan", parent)
    await child_of(proxy, parent, child)
    by = [{"sessionId": parent, "modeId": "plan"}]
    async with connect(proxy) as client:
        shown = await client.load(child)
        assert held(shown) == ("plan", by)
        (option,) = shown["configOptions"]
        assert option["currentValue"] == "plan"
        assert f"plan (by its parent {parent})" in option["description"]
        row = await row_of(client, child)
        assert row["_meta"]["modegate/mode"] == "plan"
        assert row["_meta"]["modegate/heldBy"] == by
        await client.prompt(child, "/status")
        text = client.updates("agent_message_chunk")[-1]["content"]["text"]
        assert f"Mode: plan (by its parent {parent})" in text
        await client.prompt(child, "/mode")
        text = client.updates("agent_message_chunk")[-1]["content"]["text"]
        assert "`plan` (in force)" in text


async def test_a6_its_clients_are_told_when_the_parent_changes(
    proxy: Running, connect: Connect, name: str
) -> None:
    parent, child = name, f"{name}-child"
    await proxy.set_mode("plan", parent)
    await child_of(proxy, parent, child)
    async with connect(proxy) as client:
        await client.load(child)
        await proxy.set_mode("default", parent)
        told = await client.update("current_mode_update", currentModeId="default")
        assert "modegate/heldBy" not in told["_meta"]
        after = await client.settled()
        await proxy.set_mode("review", parent)
        told = await client.update("current_mode_update", after=after, currentModeId="review")
        assert told["_meta"]["modegate/heldBy"] == [{"sessionId": parent, "modeId": "review"}]
        await client.update("config_option_update", after=after)


async def test_a6_its_own_mode_is_asked_about_in_sensible_words(
    proxy: Running, connect: Connect, name: str
) -> None:
    parent, child = name, f"{name}-child"
    await proxy.set_mode("plan", parent)
    await child_of(proxy, parent, child)
    async with connect(proxy) as client:
        await client.load(child)
        # A client that replays what it was shown changes nothing, and asks nobody.
        await client.set_mode(child, "plan")
        wish = await client.start("session/set_mode", sessionId=child, modeId="default")
        question = await client.question()
        text = question["params"]["toolCall"]["content"][0]["content"]["text"]
        assert f"follows its parent '{parent}', and 'plan' is in force here" in text
        assert "'default' for 'default'" not in text
        await client.choose(question, "confirm")
        assert await client.answer(wish) == {}
        told = await client.update("current_mode_update", currentModeId="default")
        assert "modegate/heldBy" not in told["_meta"]
        # From now on it follows its parent no longer.
        after = await client.settled()
        await proxy.set_mode("review", parent)
        await client.settled()
        assert "current_mode_update" not in [
            one.get("params", {}).get("update", {}).get("sessionUpdate")
            for one in client.seen[after:]
        ]
        assert held(await client.load(child)) == ("default", None)


async def test_a6_the_number_of_a_child_tells_nothing_of_its_parent(
    proxy: Running, connect: Connect, name: str
) -> None:
    """Who has seen the child's newest event has not seen what its parent was set to since."""
    parent, child = name, f"{name}-child"
    await proxy.set_mode("default", parent)
    await child_of(proxy, parent, child)
    async with connect(proxy) as client:
        number = (await client.load(child))["_meta"]["modegate/seq"]
        await proxy.set_mode("plan", parent)
        meta = {"modegate/seq": number}
        wish = await client.start("session/set_mode", sessionId=child, modeId="default", _meta=meta)
        question = await client.question()
        text = question["params"]["toolCall"]["content"][0]["content"]["text"]
        assert "'plan' is in force here" in text
        await client.choose(question, "reject")
        with pytest.raises(AcpError):
            await client.answer(wish)
        assert held(await client.load(child)) == ("plan", [{"sessionId": parent, "modeId": "plan"}])


async def test_a6_a_refusal_says_whose_mode_it_is(proxy: Running, name: str) -> None:
    parent, child = name, f"{name}-child"
    await proxy.set_mode("plan", parent)
    await child_of(proxy, parent, child)
    async with socket(proxy) as one:
        await one.load(child)
        wish = await one.start("session/set_mode", sessionId=child, modeId="default")
        await one.choose(await one.question(), "reject")
        with pytest.raises(AcpError) as caught:
            await one.answer(wish)
        assert caught.value.data == {"modeId": "plan"}


async def test_r5_the_control_api_shows_it_too(proxy: Running, name: str) -> None:
    parent, child = name, f"{name}-child"
    await proxy.set_mode("plan", parent)
    await child_of(proxy, parent, child)
    found = (await proxy.control("GET", f"/sessions/{child}")).json()
    assert (found["mode"], found["inForce"]) == ("default", "plan")
    assert found["heldBy"] == [{"session": parent, "mode": "plan"}]
    rows = (await proxy.control("GET", "/sessions")).json()["sessions"]
    (row,) = [one for one in rows if one["id"] == child]
    assert (row["inForce"], row["heldBy"]) == ("plan", [{"session": parent, "mode": "plan"}])
    put = await proxy.control("PUT", f"/sessions/{child}/mode", json={"mode": "default"})
    assert (put.json()["changed"], put.json()["followed"]) == (True, parent)
    again = await proxy.control("PUT", f"/sessions/{child}/mode", json={"mode": "default"})
    assert (again.json()["changed"], "followed" in again.json()) == (False, False)
    found = (await proxy.control("GET", f"/sessions/{child}")).json()
    assert (found["inForce"], found["heldBy"]) == ("default", [])

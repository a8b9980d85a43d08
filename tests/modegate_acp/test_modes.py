"""Modes over ACP, on both transports: what answers carry, what is told to whom, and in which order."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from modegate.core.ids import ModeId, SessionId, SessionKey, Tenant
from modegate.core.log.events import ModeSet, SessionOpen
from modegate.core.log.records import Entry
from modegate.server.log.protocol import Seen
from support.acp import AcpError, Connect, Json, kinds, socket, updated
from support.running import TOKEN, Running, policies_file, running

MODES = ["default", "plan", "review"]


def modes_of(result: Json) -> tuple[str, list[str]]:
    modes = result["modes"]
    return modes["currentModeId"], [mode["id"] for mode in modes["availableModes"]]


def option_of(result: Json) -> Json:
    (option,) = result["configOptions"]
    assert option["id"] == option["configId"] == "mode"
    assert (option["category"], option["type"]) == ("mode", "select")
    assert [one["value"] for one in option["options"]] == MODES
    found: Json = option
    return found


async def test_initialize_is_answered_with_version_1(proxy: Running, connect: Connect) -> None:
    async with connect(proxy, begin=False) as client:
        result = await client.call(
            "initialize", protocolVersion=2, clientCapabilities={"fs": {"readTextFile": True}}
        )
    assert result["protocolVersion"] == 1
    assert result["agentCapabilities"]["loadSession"] is True
    assert result["agentCapabilities"]["sessionCapabilities"].keys() == {"list", "resume", "close"}
    assert result["agentInfo"]["name"] == "modegate"
    assert result["authMethods"] == []


async def test_n019_a_version_that_is_none_is_refused_and_the_next_try_works(
    proxy: Running, connect: Connect
) -> None:
    async with connect(proxy, begin=False) as client:
        for wrong in ({}, {"protocolVersion": "2024-11-05"}):
            with pytest.raises(AcpError, match="protocolVersion") as refused:
                await client.call("initialize", **wrong)
            assert refused.value.code == -32602
        assert (await client.call("initialize", protocolVersion=1))["protocolVersion"] == 1
        assert "sessions" in await client.call("session/list")


async def test_n019_so_it_is_by_way_of_a_process(proxy: Running) -> None:
    command = [sys.executable, "-m", "modegate", "acp", "--url", proxy.url]
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "MODEGATE_CONTROL_TOKEN": TOKEN},
    )
    assert process.stdin
    assert process.stdout

    async def initialize(number: int, **params: Any) -> Json:
        message = {"jsonrpc": "2.0", "id": number, "method": "initialize", "params": params}
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps(message).encode() + b"\n")
        answer: Json = json.loads(await process.stdout.readline())
        assert answer["id"] == number
        return answer

    for number, wrong in enumerate(({}, {"protocolVersion": "2024-11-05"})):
        error = (await initialize(number, **wrong))["error"]
        assert (error["code"], "protocolVersion" in error["message"]) == (-32602, True)
    right = await initialize(2, protocolVersion=2, clientCapabilities=None)
    assert right["result"]["protocolVersion"] == 1
    process.stdin.close()
    await process.wait()


async def test_new_load_and_resume_carry_modes_and_options(
    proxy: Running, connect: Connect
) -> None:
    """zed #52069: the selector vanishes where load or resume lack them."""
    async with connect(proxy) as client:
        new = await client.call("session/new", cwd="/work", mcpServers=[])
        session = new["sessionId"]
        await proxy.set_mode("plan", session)
        loaded, resumed = await client.load(session), await client.resume(session)
    assert modes_of(new) == ("default", MODES)
    assert option_of(new)["currentValue"] == "default"
    for result in (loaded, resumed):
        assert result["sessionId"] == session
        assert modes_of(result) == ("plan", MODES)
        assert option_of(result)["currentValue"] == "plan"
        assert result["_meta"] == {"modegate/seq": 2}


async def test_new_names_the_base_urls_of_its_session(proxy: Running, connect: Connect) -> None:
    async with connect(proxy) as client:
        new = await client.call("session/new", cwd="/work", mcpServers=[])
    session = new["sessionId"]
    assert new["_meta"]["modegate/baseUrls"] == {
        "openai": f"{proxy.url}/s/{session}/v1",
        "anthropic": f"{proxy.url}/s/{session}",
    }


@pytest.mark.parametrize("initial", ["plan", '{agents: {"an-agent/*": plan}}'])
async def test_new_begins_in_the_initial_mode(
    tmp_path: Path, connect: Connect, initial: str
) -> None:
    """Also where only some agent's is one: nobody knows which agent will work in the session."""
    modes = "modes: {plan: {section: S, tools: [read]}}"
    policies = policies_file(tmp_path, f"{modes}\nsessions: {{initial_mode: {initial}}}\n")
    async with running(tmp_path, "http://127.0.0.1:9", policies=policies) as proxy:
        async with connect(proxy) as client:
            new = await client.call("session/new", cwd="/work", mcpServers=[])
        assert new["modes"]["currentModeId"] == "plan"
        events = await proxy.events(new["sessionId"])
    assert [(one["type"], one["by"].split()[0]) for one in events] == [
        ("session/open", "person:acp"),
        ("mode/set", "policy"),
    ]
    assert events[0]["data"]["cwd"] == "/work"


SETTERS: dict[str, dict[str, str]] = {
    "session/set_mode": {"modeId": "plan"},
    "session/set_config_option": {"configId": "mode", "value": "plan"},
}


@pytest.mark.parametrize("method", SETTERS)
async def test_b165_a_mode_is_in_the_log_then_told_then_answered(
    proxy: Running, connect: Connect, method: str
) -> None:
    """Codex-acp #450, ggcode #1145: never an echo without effect. oh-my-pi 1015: both kinds."""
    async with connect(proxy) as client:
        session = await client.new()
        before = await client.settled()
        result = await client.call(method, sessionId=session, **SETTERS[method])
        told = client.seen[before:]
        assert kinds(told) == ["current_mode_update", "config_option_update", "result"]
        assert updated(told[0])["currentModeId"] == updated(told[0])["modeId"] == "plan"
        assert option_of(updated(told[1]))["currentValue"] == "plan"
        assert [one["params"]["_meta"] for one in told[:2]] == [{"modegate/seq": 2}] * 2
        if method == "session/set_mode":
            assert result == {}
        else:
            assert option_of(result)["currentValue"] == "plan"
        (event,) = (await proxy.events(session))[1:]
    assert event["data"] == {"mode": "plan"}
    assert event["by"] == f"person:acp test {method.split('/')[1]} {client.connection}"


@pytest.mark.parametrize("method", SETTERS)
async def test_b170_the_mode_in_force_is_set_without_an_event(
    proxy: Running, connect: Connect, method: str
) -> None:
    """agent-of-empires 1028, gajae-code 3905."""
    async with connect(proxy) as client, connect(proxy) as other:
        session = await client.new()
        await client.set_mode(session, "default")
        await client.set_mode(session, "plan")
        await other.load(session)
        before, shown = await client.settled(), await other.settled()
        result = await client.call(method, sessionId=session, **SETTERS[method])
        assert kinds(client.seen[before:]) == ["result"]
        if "configOptions" in result:
            assert option_of(result)["currentValue"] == "plan"
        await other.settled()
        assert kinds(other.seen[shown:]) == ["result"]
        assert len(await proxy.events(session)) == 2


async def test_b155_every_attached_client_is_told_exactly_once(
    proxy: Running, connect: Connect
) -> None:
    """agent-of-empires 1028."""
    async with connect(proxy) as one, connect(proxy) as two, connect(proxy) as three:
        session, foreign = await one.new(), await one.new()
        await two.resume(session)
        await three.load(foreign)
        await one.set_mode(session, "plan")
        for client in (one, two):
            await client.update("current_mode_update", currentModeId="plan")
            await client.update("config_option_update")
            await client.settled()
            assert len(client.updates("current_mode_update")) == 1
            assert len(client.updates("config_option_update")) == 1
        await three.settled()
        assert three.updates("current_mode_update") == []


async def test_the_control_api_is_one_more_cause(proxy: Running, connect: Connect) -> None:
    """Both kinds go out whoever set the mode; Zed and VS Code follow only the options."""
    async with connect(proxy) as client:
        session = await client.new()
        await proxy.set_mode("plan", session)
        first = await client.update("current_mode_update", currentModeId="plan")
        second = await client.update("config_option_update")
        assert first["_meta"] == second["_meta"] == {"modegate/seq": 2}
        assert option_of(second["update"])["currentValue"] == "plan"


UNKNOWN = {
    "session/set_mode": ({"modeId": "root"}, {"modeId": "root"}),
    "session/set_config_option": ({"configId": "mode", "value": "root"}, {"configId": "mode"}),
}


@pytest.mark.parametrize("method", UNKNOWN)
async def test_b158_a_mode_that_is_not_there_changes_nothing(
    proxy: Running, connect: Connect, method: str
) -> None:
    """Deepagents 6139."""
    params, named = UNKNOWN[method]
    async with connect(proxy) as client:
        session = await client.new()
        await client.set_mode(session, "plan")
        before = await client.settled()
        with pytest.raises(AcpError) as caught:
            await client.call(method, sessionId=session, **params)
        assert caught.value.code == -32602
        assert caught.value.data == {**named, "available": MODES}
        await client.settled()
        assert kinds(client.seen[before:]) == ["error", "result"]
        assert (await client.load(session))["modes"]["currentModeId"] == "plan"


async def test_b158_a_mode_that_a_reload_takes_away_is_no_longer_offered(
    alone: Running, connect: Connect
) -> None:
    """Deepagents 6139: the list is sent again when the policy's set of modes changes."""
    async with connect(alone) as client:
        session = await client.new()
        after = await client.settled()
        policies_file(alone.folder, "modes: {plan: {section: S, tools: [read]}}\n")
        told = await client.update("config_option_update", after=after)
        values = [one["value"] for one in told["update"]["configOptions"][0]["options"]]
        assert values == ["default", "plan"]
        with pytest.raises(AcpError) as caught:
            await client.set_mode(session, "review")
        assert caught.value.data == {"modeId": "review", "available": ["default", "plan"]}


async def test_a_mode_that_went_while_it_is_in_force_is_shown_as_such(
    alone: Running, connect: Connect
) -> None:
    async with connect(alone) as client:
        session = await client.new()
        await client.set_mode(session, "review")
        after = await client.settled()
        policies_file(alone.folder, "modes: {plan: {section: S, tools: [read]}}\n")
        told = await client.update("config_option_update", after=after)
        (option,) = told["update"]["configOptions"]
        assert option["currentValue"] == "review"
        assert "no longer has" in option["options"][-1]["description"]


async def test_an_alias_is_another_name(tmp_path: Path, connect: Connect) -> None:
    policies = policies_file(
        tmp_path, "modes: {plan: {section: S, tools: [read], aliases: [architect]}}\n"
    )
    async with running(tmp_path, "http://127.0.0.1:9", policies=policies) as proxy:
        async with connect(proxy) as client:
            session = await client.new()
            await client.set_mode(session, "architect")
            await client.update("current_mode_update", currentModeId="plan")


async def test_meta_never_overrides_a_parameter(proxy: Running, connect: Connect) -> None:
    """What overwrote arguments in another server: a key of `_meta` that is named like one."""
    async with connect(proxy) as client:
        session, other = await client.new(), await client.new()
        meta = {"modeId": "review", "mode_id": "review", "sessionId": other, "session_id": other}
        await client.set_mode(session, "plan", _meta=meta)
        assert (await client.load(session))["modes"]["currentModeId"] == "plan"
        assert (await client.load(other))["modes"]["currentModeId"] == "default"


async def test_b168_what_is_set_survives_the_client(proxy: Running, connect: Connect) -> None:
    """AionCore 139: a load never resets the mode."""
    async with connect(proxy) as client:
        session = await client.new()
        await client.set_mode(session, "plan")
    async with connect(proxy) as client:
        loaded = await client.load(session)
        assert loaded["modes"]["currentModeId"] == "plan"
        replayed = client.updates("agent_message_chunk")
        assert "mode plan" in replayed[0]["content"]["text"]
        after = await client.settled()
        await client.resume(session)
        await client.settled()
        assert "agent_message_chunk" not in kinds(client.seen[after:])
    assert len(await proxy.events(session)) == 2


async def test_history_comes_before_the_answer_to_load(proxy: Running) -> None:
    async with socket(proxy) as client:
        session = await client.new()
        await client.set_mode(session, "plan")
        before = len(client.seen)
        await client.load(session)
        assert kinds(client.seen[before:])[:2] == ["agent_message_chunk", "result"]


@pytest.mark.parametrize("how", ["index", "log"])
async def test_any_session_that_the_proxy_knows_can_be_loaded(
    proxy: Running, connect: Connect, how: str, name: str
) -> None:
    key = SessionKey(Tenant("local"), SessionId(name))
    assert proxy.composed
    log = proxy.composed.services.log
    if how == "index":
        await log.touch([Seen(key, "agent/1", "path", 1)])
    else:
        await log.append(key, [Entry(1, "agent", SessionOpen("agent/1", "/v1", "path"))])
    async with connect(proxy) as client:
        assert modes_of(await client.load(name))[0] == "default"
        await client.set_mode(name, "plan")


@pytest.mark.parametrize("session", ["nobody", "not valid", "", "x" * 200, "local/../other"])
async def test_a_session_that_is_not_there_is_an_error_of_its_own(
    proxy: Running, session: str
) -> None:
    async with socket(proxy) as client:
        methods: dict[str, Json] = {
            "session/load": {"cwd": "/", "mcpServers": []},
            "session/resume": {"cwd": "/"},
            "session/set_mode": {"modeId": "plan"},
            "session/set_config_option": {"configId": "mode", "value": "plan"},
            "session/prompt": {"prompt": []},
            "session/close": {},
        }
        for method, more in methods.items():
            with pytest.raises(AcpError) as caught:
                await client.call(method, sessionId=session, **more)
            assert (method, caught.value.code) == (method, -32002)
            assert caught.value.data == {"sessionId": session}


async def test_a_session_of_another_tenant_is_not_there(proxy: Running, name: str) -> None:
    async with socket(proxy, tenant=name) as owner, socket(proxy, tenant=f"{name}x") as other:
        session = await owner.new()
        with pytest.raises(AcpError) as caught:
            await other.load(session)
        assert caught.value.code == -32002
        assert (await other.call("session/list"))["sessions"] == []
        assert len((await owner.call("session/list"))["sessions"]) == 1


async def test_who_sets_a_mode_without_having_loaded_follows_from_then_on(
    proxy: Running, connect: Connect, name: str
) -> None:
    await proxy.set_mode("plan", name)
    async with connect(proxy) as client:
        await client.set_mode(name, "plan")
        await proxy.set_mode("review", name)
        await client.update("current_mode_update", currentModeId="review")


async def test_close_and_a_closed_socket_change_no_mode(proxy: Running, connect: Connect) -> None:
    async with connect(proxy) as client:
        session = await client.new()
        await client.set_mode(session, "plan")
        assert await client.call("session/close", sessionId=session) == {}
        assert await client.call("session/close", sessionId=session) == {}
        after = await client.settled()
        await proxy.set_mode("review", session)
        await client.settled()
        assert "current_mode_update" not in kinds(client.seen[after:])
    assert [one["type"] for one in await proxy.events(session)][1:] == ["mode/set", "mode/set"]


async def test_an_unreadable_session_is_told_as_such(alone: Running) -> None:
    assert alone.composed
    key = SessionKey(Tenant("local"), SessionId("s"))
    log: Any = alone.composed.services.log
    await log.append(key, [Entry(1, "gate", ModeSet(ModeId("plan")))])
    write = "update events set envelope = replace(envelope, 'mode/set', 'mode/new')"
    await log._file.write(lambda db: db.execute(write))
    async with socket(alone) as client:
        with pytest.raises(AcpError) as caught:
            await client.load("s")
        assert caught.value.code == -32603
        assert caught.value.data == {"code": "session_unreadable"}
        (row,) = (await client.call("session/list"))["sessions"]
        assert row["sessionId"] == "s"

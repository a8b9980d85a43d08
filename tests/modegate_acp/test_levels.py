"""Tokens of the policy over ACP: who may look, who may tighten, who may loosen, and for which tenants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from modegate.core.ids import (
    DEFAULT_MODE,
    CallId,
    Lane,
    SessionId,
    SessionKey,
    StepId,
    Tenant,
    ToolName,
)
from modegate.core.log.approval_events import ApprovalAsked, Option
from modegate.core.log.records import Entry
from support.acp import AcpError, Client, Connect, kinds, socket
from support.running import Running, policies_file, running
from support.waiting import PATIENCE

MODES = """
modes:
  plan: {section: S, tools: [read]}
  review: {section: R, tools: [read, bash]}
"""
TOKENS = """
control:
  tokens:
    - {name: looker, env: LOOKER, level: observe}
    - {name: careful, env: CAREFUL, level: tighten}
    - {name: phone, env: PHONE, level: full, tenants: [local, team]}
"""
SECRETS = {name: f"secret-0123456789-{name}" for name in ("looker", "careful", "phone")}


@pytest.fixture
async def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name.upper(), secret)
    async with running(
        tmp_path, "http://127.0.0.1:9", policies=policies_file(tmp_path, MODES + TOKENS)
    ) as proxy:
        yield proxy


async def refused(client: Client, method: str, **params: object) -> str:
    with pytest.raises(AcpError) as caught:
        await client.call(method, **params)
    assert caught.value.code == -32003
    assert caught.value.data
    return str(caught.value.data["needed"])


async def test_who_may_only_look(proxy: Running, connect: Connect) -> None:
    await proxy.set_mode("plan", "s")
    async with connect(proxy, token=SECRETS["looker"]) as client:
        assert (await client.load("s"))["modes"]["currentModeId"] == "plan"
        assert len((await client.call("session/list"))["sessions"]) == 1
        assert await client.set_mode("s", "plan") == {}
        needed = await refused(client, "session/set_mode", sessionId="s", modeId="default")
        assert needed == "full"
        await proxy.set_mode("default", "s")
        await client.update("current_mode_update", currentModeId="default")
        needed = await refused(client, "session/set_mode", sessionId="s", modeId="plan")
        assert needed == "tighten"
        assert await refused(client, "session/new", cwd="/", mcpServers=[]) == "tighten"


async def test_who_may_tighten(proxy: Running, connect: Connect) -> None:
    async with connect(proxy, token=SECRETS["careful"]) as client:
        session = await client.new()
        await client.set_mode(session, "plan")
        for mode in ("default", "review"):
            needed = await refused(client, "session/set_mode", sessionId=session, modeId=mode)
            assert needed == "full"
        assert client.updates("tool_call") == []
    events = await proxy.events(session)
    assert [one["by"].split()[0] for one in events] == ["person:acp/careful"] * 2


async def test_a_mode_set_meanwhile_makes_it_a_loosening(proxy: Running) -> None:
    """What is appended is judged by the state that it follows."""
    async with socket(proxy, token=SECRETS["careful"]) as client:
        session = await client.new()
        await proxy.set_mode("review", session)
        await refused(client, "session/set_mode", sessionId=session, modeId="plan")


async def ask(proxy: Running, session: str) -> None:
    assert proxy.composed
    key = SessionKey(Tenant("local"), SessionId(session))
    place = (StepId("s"), Lane("l"), CallId("c"), ToolName("exit_plan_mode"))
    options = (
        Option("approve", "Approve", "approve", DEFAULT_MODE),
        Option("reject", "Reject", "reject"),
    )
    asked = ApprovalAsked(f"mg-perm-{session}", *place, "exit", "# Plan", options, 1 << 50)
    await proxy.composed.services.log.append(key, [Entry(1, "gate", asked)])


async def test_a_question_is_put_to_those_who_may_answer_it(proxy: Running) -> None:
    await proxy.set_mode("plan", "s")
    async with (
        socket(proxy, token=SECRETS["looker"]) as looker,
        socket(proxy, token=SECRETS["careful"]) as careful,
        socket(proxy, token=SECRETS["phone"]) as phone,
    ):
        for client in (looker, careful, phone):
            await client.load("s")
        await ask(proxy, "s")
        offered = {}
        for client in (careful, phone):
            question = await client.question()
            offered[client] = [one["optionId"] for one in question["params"]["options"]]
        assert offered == {careful: ["reject"], phone: ["approve", "reject"]}
        await looker.update("tool_call", toolCallId="mg-perm-s")
        # An option that was not offered to this connection does not count.
        await careful.choose(await careful.question(), "approve")
        await careful.settled()
        assert (await proxy.control("GET", "/sessions/s")).json()["mode"] == "plan"
        await phone.choose(await phone.question(), "approve")
        for client in (looker, careful, phone):
            await client.update("current_mode_update", currentModeId="default")
            await client.update("tool_call_update", status="completed")
        assert "session/request_permission" not in kinds(looker.seen)


async def test_nobody_who_could_answer_is_left_out(proxy: Running) -> None:
    """A person who may reject is still there, so that `cancelled` elsewhere is an abstention."""
    await proxy.set_mode("plan", "s")
    async with (
        socket(proxy, token=SECRETS["looker"]) as looker,
        socket(proxy, token=SECRETS["careful"]) as careful,
        socket(proxy, token=SECRETS["phone"]) as phone,
    ):
        for client in (looker, careful, phone):
            await client.load("s")
        await ask(proxy, "s")
        await phone.reply(await phone.question(), {"outcome": "cancelled"})
        types = await until_left(proxy)
        assert "approval/answered" not in types
        await careful.reply(await careful.question(), {"outcome": "cancelled"})
        await looker.update("tool_call_update", status="failed")


async def until_left(proxy: Running) -> list[str]:
    """Wait until the log says that a client shows a question no longer; return its events' types."""
    assert proxy.composed
    position: str | None = None
    async with asyncio.timeout(PATIENCE):
        while True:
            types = [one["type"] for one in await proxy.events("s")]
            if "client/left" in types:
                return types
            position = (await proxy.composed.services.log.changes(position, wait=1)).position


async def test_tenants(proxy: Running) -> None:
    async with socket(proxy, token=SECRETS["phone"], tenant="team") as client:
        await client.new()
    async with socket(proxy, token=SECRETS["phone"]) as client:
        assert (await client.call("session/list"))["sessions"] == []
    with pytest.raises(Exception, match="403"):
        async with socket(proxy, token=SECRETS["careful"], tenant="team"):
            pass


async def test_a_token_that_is_taken_away_ends_its_connections(
    proxy: Running, connect: Connect
) -> None:
    async with connect(proxy, token=SECRETS["phone"]) as client, connect(proxy) as own:
        session = await client.new()
        await own.load(session)
        after = len(client.seen)
        policies_file(proxy.folder, MODES)
        await client.until_closed()
        await proxy.set_mode("plan", session)
        await own.update("current_mode_update", currentModeId="plan")
        assert "current_mode_update" not in kinds(client.seen[after:])


async def test_a_level_that_is_lowered_counts_from_then_on(proxy: Running) -> None:
    async with socket(proxy, token=SECRETS["phone"]) as client:
        session = await client.new()
        after = len(client.seen)
        lowered = TOKENS.replace("level: full", "level: observe")
        more = MODES.replace("review:", "audit:")
        policies_file(proxy.folder, more + lowered)
        await client.update("config_option_update", after=after)
        assert (
            await refused(client, "session/set_mode", sessionId=session, modeId="plan") == "tighten"
        )

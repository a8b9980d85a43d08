"""Lists of sessions, what is typed as a prompt, and what is cancelled."""

from __future__ import annotations

import re

import pytest

from modegate.core.ids import SessionId, SessionKey, Tenant
from modegate.server.log.protocol import Seen
from modegate_acp.methods import sessions
from support.acp import AcpError, Client, Connect, Json, kinds, socket
from support.running import Running
from support.running import client as http_client

RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


async def see(proxy: Running, tenant: str, session: str, at: int) -> None:
    assert proxy.composed
    key = SessionKey(Tenant(tenant), SessionId(session))
    await proxy.composed.services.log.touch([Seen(key, "agent/1", "path", at)])


async def rows(client: Client, **params: str) -> list[Json]:
    found: list[Json] = (await client.call("session/list", **params))["sessions"]
    return found


async def test_a10_what_only_an_editor_opened_is_shown_to_that_editor(
    proxy: Running, connect: Connect, name: str
) -> None:
    """Editors open a session at each start, and most of them are never used by an agent."""
    async with connect(proxy, name=f"maker-{name}") as maker, connect(proxy, name="other") as other:
        session = await maker.new()
        assert session in [row["sessionId"] for row in await rows(maker)]
        assert session not in [row["sessionId"] for row in await rows(other)]
        async with connect(proxy, name=f"maker-{name}") as again:
            assert session in [row["sessionId"] for row in await rows(again)]
        await other.prompt(await other.new(), "/sessions")
        assert session not in other.updates("agent_message_chunk")[-1]["content"]["text"]
        await used(proxy, session)
        assert session in [row["sessionId"] for row in await rows(other)]


async def used(proxy: Running, session: str) -> None:
    """Have an agent send a request; its upstream is not there."""
    async with http_client() as http:
        body = {"model": "m", "messages": [{"role": "user", "content": "look"}]}
        await http.post(f"{proxy.base(session)}/chat/completions", json=body)


async def test_a11_a_new_session_is_known_at_once(
    proxy: Running, connect: Connect, name: str
) -> None:
    async with connect(proxy) as client:
        for n in range(5):
            await used(proxy, f"{name}-{n}")
            assert (await client.load(f"{name}-{n}"))["modes"]["currentModeId"] == "default"
            await used(proxy, f"{name}-l{n}")
            assert f"{name}-l{n}" in [row["sessionId"] for row in await rows(client)]


async def test_a11_a_named_session_begins_in_plan(
    proxy: Running, connect: Connect, name: str
) -> None:
    """Before its agent sends anything, and only once."""
    params: Json = {"cwd": "/work", "mcpServers": [], "_meta": {"modegate/session": name}}
    async with connect(proxy) as client:
        opened = await client.call("session/new", **params)
        assert opened["sessionId"] == name
        assert opened["_meta"]["modegate/baseUrls"]["anthropic"].endswith(f"/s/{name}")
        await client.set_mode(name, "plan")
        with pytest.raises(AcpError, match="load it") as caught:
            await client.call("session/new", **params)
        assert caught.value.code == -32602
        await used(proxy, f"{name}-used")
        params["_meta"] = {"modegate/session": f"{name}-used"}
        with pytest.raises(AcpError, match="load it"):
            await client.call("session/new", **params)
    assert (await proxy.control("GET", f"/sessions/{name}")).json()["mode"] == "plan"


async def test_a_row_says_what_is_known(proxy: Running, connect: Connect, name: str) -> None:
    async with connect(proxy, tenant=name) as client:
        session = await client.new("/work/one")
        await client.set_mode(session, "plan")
        (row,) = await rows(client)
    assert row["sessionId"] == session
    assert row["cwd"] == "/work/one"
    assert RFC3339.fullmatch(row["updatedAt"])
    assert row["_meta"] == {"modegate/mode": "plan", "modegate/gate": "on", "modegate/seq": 2}


async def test_a_folder_narrows_the_list(proxy: Running, name: str) -> None:
    async with socket(proxy, tenant=name) as client:
        one, two = await client.new("/work/one"), await client.new("/work/two")
        await see(proxy, name, "agents-own", 1)
        assert [row["sessionId"] for row in await rows(client)] == [two, one, "agents-own"]
        # Where an agent runs is not known, so its session is shown wherever it is looked for.
        found = await rows(client, cwd="/work/one")
        assert [(row["sessionId"], row["cwd"]) for row in found] == [
            (one, "/work/one"),
            ("agents-own", "/work/one"),
        ]
        assert [row["cwd"] for row in await rows(client)][-1] == "/"


async def test_a_long_list_comes_in_pages(
    proxy: Running, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "PAGE", 2)
    async with socket(proxy, tenant=name) as client:
        for number in range(5):
            await see(proxy, name, f"s{number}", number)
        found: list[str] = []
        page = await client.call("session/list")
        while True:
            found += [row["sessionId"] for row in page["sessions"]]
            if "nextCursor" not in page:
                break
            page = await client.call("session/list", cursor=page["nextCursor"])
    assert found == ["s4", "s3", "s2", "s1", "s0"]


async def test_pages_without_a_session_of_the_folder_are_passed_over(
    proxy: Running, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "PAGE", 1)
    async with socket(proxy, tenant=name) as client:
        one = await client.new("/work/one")
        for _ in range(3):
            await client.new("/work/two")
        assert [row["sessionId"] for row in await rows(client, cwd="/work/one")] == [one]


async def test_a_cursor_of_somebody_else_is_refused(proxy: Running) -> None:
    async with socket(proxy) as client:
        with pytest.raises(AcpError) as caught:
            await client.call("session/list", cursor="nonsense")
    assert caught.value.code == -32602


TYPED = {
    "/mode": "Mode: default",
    "/status": "Mode: default (event 0 of 1)",
    "/help": "/sessions",
    "rename foo": "This is modegate.",
    "": "This is modegate.",
    "/mode nothing": "there is no such mode; there are: default, plan, review",
}


@pytest.mark.parametrize("text", TYPED)
async def test_what_is_typed_is_answered_as_text(
    proxy: Running, connect: Connect, text: str
) -> None:
    async with connect(proxy) as client:
        session = await client.new()
        result = await client.prompt(session, text)
        assert result == {"stopReason": "end_turn"}
        (said,) = client.updates("agent_message_chunk")
    assert TYPED[text] in said["content"]["text"]


async def test_sessions_are_listed_as_text(proxy: Running, name: str) -> None:
    async with socket(proxy, tenant=name) as client:
        session = await client.new()
        await client.prompt(session, "/sessions")
        (said,) = client.updates("agent_message_chunk")
    assert said["content"]["text"] == f"- `{session}`: default (test)"


async def test_a_mode_that_is_typed_is_set_and_confirmed_like_any(
    proxy: Running, connect: Connect
) -> None:
    async with connect(proxy) as client:
        session = await client.new()
        await client.prompt(session, "/mode plan")
        await client.update("current_mode_update", currentModeId="plan")
        await client.update("config_option_update")
        block = {"type": "text", "text": "/mode default"}
        asked = await client.start("session/prompt", sessionId=session, prompt=[block])
        await client.choose(await client.question(), "confirm")
        assert await client.answer(asked) == {"stopReason": "end_turn"}
        await client.update("current_mode_update", currentModeId="default")
    events = await proxy.events(session)
    assert [one["by"].split()[2] for one in events] == ["new", "prompt", "prompt"]


async def test_what_can_be_typed_is_announced(proxy: Running, connect: Connect) -> None:
    """Zed refuses commands that were not."""
    async with connect(proxy) as client:
        await client.new()
        told = await client.update("available_commands_update")
    names = [one["name"] for one in told["update"]["availableCommands"]]
    assert names == ["mode", "status", "sessions", "help"]


async def test_session_cancel_ends_a_prompt_without_an_error(
    proxy: Running, connect: Connect
) -> None:
    async with connect(proxy) as client:
        session = await client.new()
        await client.set_mode(session, "plan")
        block = {"type": "text", "text": "/mode default"}
        asked = await client.start("session/prompt", sessionId=session, prompt=[block])
        question = await client.question()
        await client.notify("session/cancel", sessionId=session)
        assert await client.answer(asked) == {"stopReason": "cancelled"}
        await client.find(lambda one: one.get("params") == {"requestId": question["id"]})
        await client.choose(question, "confirm")
        await client.settled()
    assert len(await proxy.events(session)) == 2


@pytest.mark.parametrize("method", ["session/prompt", "session/set_mode"])
async def test_a_request_under_way_can_be_cancelled(
    proxy: Running, connect: Connect, method: str
) -> None:
    params: Json = {"modeId": "default"}
    if method == "session/prompt":
        params = {"prompt": [{"type": "text", "text": "/mode default"}]}
    async with connect(proxy) as client:
        session = await client.new()
        await client.set_mode(session, "plan")
        asked = await client.start(method, sessionId=session, **params)
        question = await client.question()
        await client.notify("$/cancel_request", requestId=asked)
        with pytest.raises(AcpError) as caught:
            await client.answer(asked)
        assert caught.value.code == -32800
        await client.find(lambda one: one.get("params") == {"requestId": question["id"]})
    assert len(await proxy.events(session)) == 2


async def test_cancelling_what_is_not_there_changes_nothing(proxy: Running) -> None:
    async with socket(proxy) as client:
        session = await client.new()
        before = await client.settled()
        await client.notify("session/cancel", sessionId=session)
        await client.notify("session/cancel", sessionId="nobody")
        await client.notify("session/cancel")
        await client.notify("$/cancel_request", requestId=77)
        await client.notify("$/cancel_request")
        await client.notify("session/unheard_of")
        await client.settled()
        assert kinds(client.seen[before:]) == ["result"]


async def test_an_id_that_is_under_way_is_not_taken_twice(proxy: Running) -> None:
    async with socket(proxy) as client:
        session = await client.new()
        await client.set_mode(session, "plan")
        wish = await client.start("session/set_mode", sessionId=session, modeId="default")
        question = await client.question()
        request = {"jsonrpc": "2.0", "id": wish, "method": "session/list"}
        await client.transmit(request)
        error = (await client.find(lambda one: one.get("id") == wish))["error"]
        assert error["code"] == -32600
        await client.choose(question, "confirm")
        await client.find(lambda one: one.get("id") == wish and "result" in one)


async def test_there_is_a_limit_to_what_is_followed(
    proxy: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modegate_acp.following.followed_sessions.MAX_SESSIONS", 2)
    async with socket(proxy) as client:
        first = await client.new()
        await client.new()
        with pytest.raises(AcpError):
            await client.new()
        await client.call("session/close", sessionId=first)
        await client.new()

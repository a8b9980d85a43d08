"""Streamable HTTP: each row of the transport's table, streams that are lost and taken over."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from modegate_acp.messages import params
from modegate_acp.messages.clients import Peer
from modegate_acp.messages.jsonrpc import RpcError
from support.acp import Json, address, bearer, eventually, kinds, streams, updated
from support.running import Running, client
from support.waiting import PATIENCE

INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "session/list", "params": {}}
STREAM = {"accept": "text/event-stream"}


async def post(proxy: Running, message: Any, **headers: str) -> httpx.Response:
    async with client() as http:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await http.post(address(proxy), json=message, headers=bearer() | named)


async def get(proxy: Running, **headers: str) -> httpx.Response:
    async with client() as http:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await http.get(address(proxy), headers=bearer() | named)


async def test_initialize_is_answered_at_once_and_names_the_connection(proxy: Running) -> None:
    answer = await post(proxy, INITIALIZE)
    assert answer.status_code == 200
    assert answer.json()["result"]["protocolVersion"] == 1
    assert answer.headers["acp-connection-id"]


async def test_other_answers_come_on_a_stream(proxy: Running) -> None:
    async with streams(proxy) as acp:
        answer = await acp.post(LIST)
        assert (answer.status_code, answer.content) == (202, b"")
        assert "sessions" in await acp.answer(2)


BAD_POSTS: dict[str, tuple[Json, Json, int]] = {
    "another content type": ({"content": b"{}"}, {"content-type": "text/plain"}, 415),
    "no content type": ({"content": b"{}"}, {}, 415),
    "accepts no JSON": ({"json": INITIALIZE}, {"accept": "text/html"}, 406),
    "no JSON": ({"content": b"{"}, {"content-type": "application/json"}, 400),
    "a key twice": (
        {"content": b'{"jsonrpc":"2.0","id":1,"id":2,"method":"initialize"}'},
        {"content-type": "application/json"},
        400,
    ),
    "a batch": ({"json": [INITIALIZE]}, {}, 501),
    "no message": ({"json": {"jsonrpc": "2.0", "id": 1}}, {}, 400),
    "no connection": ({"json": LIST}, {}, 400),
    "an unknown connection": ({"json": LIST}, {"acp-connection-id": "nobody"}, 404),
    "initialize of an unknown connection": (
        {"json": INITIALIZE},
        {"acp-connection-id": "nobody"},
        404,
    ),
    "too large": (
        {"content": b" " * (4 * 2**20 + 1)},
        {"content-type": "application/json"},
        413,
    ),
}


@pytest.mark.parametrize("case", BAD_POSTS.values(), ids=BAD_POSTS)
async def test_what_cannot_be_posted(proxy: Running, case: tuple[Json, Json, int]) -> None:
    body, headers, status = case
    async with client() as http:
        answer = await http.post(address(proxy), headers=bearer() | headers, **body)
    assert answer.status_code == status
    assert "acp-connection-id" not in answer.headers


@pytest.mark.parametrize("accept", ["application/json", "*/*", "text/event-stream, application/*"])
async def test_what_clients_accept(proxy: Running, accept: str) -> None:
    assert (await post(proxy, INITIALIZE, accept=accept)).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"accept": "text/html"}, 406),
        ({"accept": "application/json"}, 406),
        ({"accept": "text/event-stream"}, 400),
        ({"accept": "text/event-stream", "acp_connection_id": "nobody"}, 404),
    ],
    ids=["accepts HTML", "accepts JSON", "no connection", "an unknown connection"],
)
async def test_what_is_no_stream(proxy: Running, headers: dict[str, str], status: int) -> None:
    assert (await get(proxy, **headers)).status_code == status


async def test_no_other_method_is_known(proxy: Running) -> None:
    async with client() as http:
        answer = await http.put(address(proxy), headers=bearer())
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, POST, DELETE"


async def test_initialize_that_fails_leaves_no_connection(
    proxy: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_name: str, _version: str) -> Peer:
        raise RpcError(-32602, "no")

    monkeypatch.setattr(params, "client_named", fails)
    answer = await post(proxy, INITIALIZE)
    assert answer.status_code == 200
    assert answer.json()["error"]["code"] == -32602
    assert "acp-connection-id" not in answer.headers


async def test_a_second_initialize_is_an_error_on_the_stream(proxy: Running) -> None:
    async with streams(proxy) as acp:
        assert (await acp.post({**INITIALIZE, "id": "again"})).status_code == 202
        error = (await acp.find(lambda one: one.get("id") == "again"))["error"]
        assert error["code"] == -32600


@pytest.mark.parametrize("session", ["s", None])
async def test_the_session_header_is_optional_but_must_match(
    proxy: Running, name: str, session: str | None
) -> None:
    await proxy.set_mode("plan", name)
    message = {"jsonrpc": "2.0", "id": 9, "method": "session/close", "params": {"sessionId": name}}
    async with streams(proxy) as acp:
        other = await acp.post(message, {"acp-session-id": f"{name}x"})
        assert other.status_code == 400
        fitting = await acp.post(message, {"acp-session-id": name} if session else None)
        assert fitting.status_code == 202
        assert await acp.answer(9) == {}


async def test_an_answer_is_matched_by_its_id_alone(proxy: Running) -> None:
    async with streams(proxy) as acp:
        session = await acp.new()
        await acp.set_mode(session, "plan")
        wish = await acp.start("session/set_mode", sessionId=session, modeId="default")
        question = await acp.question()
        reply = {"outcome": {"outcome": "selected", "optionId": "confirm"}}
        message = {"jsonrpc": "2.0", "id": question["id"], "result": reply}
        answer = await acp.post(message, {"acp-session-id": "whatever"})
        assert answer.status_code == 202
        assert await acp.answer(wish) == {}


async def test_a_connection_is_its_callers(proxy: Running, name: str) -> None:
    async with streams(proxy) as acp, client() as http:
        url, headers = address(proxy, name), bearer() | acp.headers
        assert (await http.post(url, json=LIST, headers=headers)).status_code == 404
        assert (await http.delete(url, headers=headers)).status_code == 404
        await acp.settled()


async def test_delete_ends_the_connection(proxy: Running) -> None:
    async with streams(proxy) as acp:
        answer = await acp.http.delete(acp.url, headers=acp.headers)
        assert answer.status_code == 202
        await acp.until_closed()
        assert (await acp.post(LIST)).status_code == 404


async def test_a_session_stream_opens_lazily_and_is_never_404(proxy: Running, name: str) -> None:
    async with streams(proxy) as acp:
        await acp.open(name)
        assert (await acp.post(LIST)).status_code == 202
        await acp.answer(2)
    async with streams(proxy) as acp:
        invalid = await acp.http.get(
            acp.url, headers=acp.headers | STREAM | {"acp-session-id": "not an id"}
        )
        assert invalid.status_code == 400


async def test_trouble_with_a_session_is_no_http_error(proxy: Running, name: str) -> None:
    """Clients take a 403 or 404 for the loss of their connection."""
    params = {"sessionId": name, "modeId": "plan"}
    message = {"jsonrpc": "2.0", "id": 7, "method": "session/set_mode", "params": params}
    async with streams(proxy) as acp:
        assert (await acp.post(message)).status_code == 202
        error = (await acp.find(lambda one: one.get("id") == 7))["error"]
        assert error["code"] == -32002


async def test_messages_go_to_the_stream_of_their_session(proxy: Running) -> None:
    async with client() as http:
        begun = await http.post(address(proxy), json=INITIALIZE, headers=bearer())
        headers = bearer() | {"acp-connection-id": begun.headers["acp-connection-id"]}

        async def tell(number: int, method: str, **params: Any) -> None:
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            assert (
                await http.post(address(proxy), json=message, headers=headers)
            ).status_code == 202

        async with Reader(http, proxy, headers) as main:
            await tell(2, "session/new", cwd="/w", mcpServers=[])
            session = (await main.next())["result"]["sessionId"]
            await tell(3, "session/set_mode", sessionId=session, modeId="plan")
            await tell(4, "session/load", sessionId=session, cwd="/w", mcpServers=[])
            # Set and told on the session's stream, which nobody has opened; load is answered on this one.
            assert (await main.next())["id"] == 4
            async with Reader(http, proxy, headers, session) as own:
                told = [await own.next() for _ in range(5)]
    assert kinds(told) == [
        "available_commands_update",
        "current_mode_update",
        "config_option_update",
        "result",
        "agent_message_chunk",
    ]


class Reader:
    """One event stream, read message by message."""

    def __init__(
        self, http: httpx.AsyncClient, proxy: Running, headers: Json, session: str | None = None
    ) -> None:
        own = {"acp-session-id": session} if session else {}
        self.opening = http.stream("GET", address(proxy), headers=headers | STREAM | own)

    async def __aenter__(self) -> Reader:
        self.answer = await self.opening.__aenter__()
        self.lines = self.answer.aiter_lines()
        assert await anext(self.lines) == ": open"
        assert self.answer.headers["cache-control"] == "no-store"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.opening.__aexit__(None, None, None)

    async def next(self) -> Json:
        async for line in self.lines:
            if line.startswith("data: "):
                found: Json = json.loads(line.removeprefix("data: "))
                return found
        raise EOFError


async def test_a_new_stream_takes_over_and_is_told_everything_anew(proxy: Running) -> None:
    """A reader that was dropped must not go on consuming messages."""
    async with streams(proxy) as acp:
        session = await acp.new()
        await acp.update("available_commands_update")
        lost = acp.opened[session]
        after = len(acp.seen)
        await acp.open(session)
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([lost])
        await acp.update("current_mode_update", after=after, currentModeId="default")
        await proxy.set_mode("plan", session)
        await acp.update("current_mode_update", after=after, currentModeId="plan")


async def test_what_happens_while_no_stream_is_open_is_told_as_its_end(proxy: Running) -> None:
    """A slow client gets the newest state and not each one before it."""
    async with streams(proxy) as acp:
        session = await acp.new()
        await acp.update("available_commands_update")
        await acp.drop(session)
        for mode in ("plan", "review", "plan", "review"):
            await proxy.set_mode(mode, session)
        after = len(acp.seen)
        await acp.open(session)
        await acp.update("current_mode_update", after=after, currentModeId="review")
        await acp.settled()
        told = [updated(one).get("currentModeId") for one in acp.seen[after:] if updated(one)]
        assert "plan" not in told


async def test_a_dropped_stream_ends_on_the_server(proxy: Running) -> None:
    async with streams(proxy) as acp:
        session = await acp.new()
        await acp.drop(session)
        await acp.drop(None)
        message = {**LIST, "id": 5}
        assert (await acp.post(message)).status_code == 202
        await acp.open(None)
        assert await acp.answer(5)


async def test_requests_in_flight_at_the_same_time_keep_their_order(proxy: Running) -> None:
    async with streams(proxy) as acp:
        session = await acp.new()
        modes = ["plan", "plan", "plan"]

        async def done() -> bool:
            return len(await proxy.events(session)) == 2

        for mode in modes:
            await acp.start("session/set_mode", sessionId=session, modeId=mode)
        await eventually(done)
        await acp.settled()
        answers = [one["id"] for one in acp.seen if "result" in one]
        assert answers == sorted(answers)


async def test_there_is_a_limit_to_open_streams(
    proxy: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modegate_acp.transport.streamable.MAX_STREAMS", 2)
    async with streams(proxy) as acp:
        await acp.open("one")
        answer = await acp.http.get(
            acp.url, headers=acp.headers | STREAM | {"acp-session-id": "two"}
        )
        assert answer.status_code == 429
        await acp.settled()

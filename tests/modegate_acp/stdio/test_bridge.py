"""`modegate acp` between an editor and a proxy that comes, goes, and refuses."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response

from modegate_acp.stdio import bridge
from modegate_acp.stdio.bridge import Stdio, from_file, to_file, websocket

FOREVER = 3600.0
Handler = Callable[[ServerConnection], Awaitable[None]]


QUESTION = {"jsonrpc": "2.0", "id": "q", "method": "session/request_permission", "params": {}}


class Editor:
    """Writes lines to a `Stdio` and reads what comes back."""

    def __init__(self, url: str, *, retry: float = FOREVER, last_answers: float = 5.0) -> None:
        self.told: list[str] = []
        self._said: asyncio.Queue[bytes] = asyncio.Queue()
        self._heard: asyncio.Queue[bytes] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        connect = websocket(url, lambda: "s3cret", "a/b")
        self.stdio = Stdio(
            connect, self._write, self.told.append, retry=retry, last_answers=last_answers
        )

    def _write(self, data: bytes) -> None:
        self._loop.call_soon_threadsafe(self._heard.put_nowait, data)

    async def _chunks(self) -> AsyncIterator[bytes]:
        while chunk := await self._said.get():
            yield chunk

    async def run(self) -> None:
        await self.stdio.run(self._chunks())

    def say(self, data: bytes) -> None:
        """Write these bytes; none at all is the end."""
        self._said.put_nowait(data)

    def ask(self, id_: Any, method: str = "session/list") -> None:
        message = {"jsonrpc": "2.0", "id": id_, "method": method, "params": {}}
        self.say(json.dumps(message).encode() + b"\n")

    async def hear(self) -> Any:
        data = await self._heard.get()
        assert data.endswith(b"\n")
        assert data.count(b"\n") == 1
        return json.loads(data)


@asynccontextmanager
async def editing(url: str, **more: Any) -> AsyncIterator[Editor]:
    editor = Editor(url, **more)
    async with asyncio.TaskGroup() as group:
        group.create_task(editor.run())
        yield editor
        editor.say(b"")


@asynccontextmanager
async def proxy(handler: Handler, port: int = 0, **more: Any) -> AsyncIterator[str]:
    async with serve(handler, "127.0.0.1", port, **more) as server:
        yield url_of(server)


def url_of(server: Server) -> str:
    return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def obliging(socket: ServerConnection) -> None:
    """Answer each request with its method."""
    async for message in socket:
        assert isinstance(message, str)
        asked = json.loads(message)
        if "id" in asked:
            result = {"did": asked["method"]}
            await socket.send(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}))


async def test_messages_go_both_ways_under_the_token_of_a_tenant() -> None:
    seen: list[Request] = []

    async def handler(socket: ServerConnection) -> None:
        assert socket.request
        seen.append(socket.request)
        await obliging(socket)

    async with proxy(handler) as url, editing(f"{url}/") as editor:
        editor.ask(1)
        assert await editor.hear() == {"jsonrpc": "2.0", "id": 1, "result": {"did": "session/list"}}
    (request,) = seen
    assert request.path == "/acp?tenant=a%2Fb"
    assert request.headers["authorization"] == "Bearer s3cret"
    assert editor.told == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1"])
async def test_it_does_not_go_through_a_proxy_of_the_environment(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passed.append(await reader.readline())
        writer.close()

    async with await asyncio.start_server(take, "127.0.0.1", 0) as elsewhere:
        port = elsewhere.sockets[0].getsockname()[1]
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
        monkeypatch.setenv("no_proxy", "")
        async with proxy(obliging) as url, editing(url.replace("127.0.0.1", host)) as editor:
            editor.ask(1)
            assert (await editor.hear())["id"] == 1
    assert passed == []


async def test_what_is_wanted_before_the_connection_stands_waits_for_it() -> None:
    async with proxy(obliging) as url, editing(url) as editor:
        for number in range(3):
            editor.ask(number)
        assert [(await editor.hear())["id"] for _ in range(3)] == [0, 1, 2]


async def test_without_a_proxy_each_request_gets_an_error_and_the_person_is_told_once() -> None:
    async with proxy(obliging) as url:
        pass
    async with editing(url) as editor:
        for number in range(2):
            editor.ask(number)
            error = (await editor.hear())["error"]
            assert error["code"] == -32603
            assert url in error["message"]
            assert "modegate serve" in error["message"]
    assert len(editor.told) == 1


def refusing(status: HTTPStatus, body: str) -> Callable[[ServerConnection, Request], Response]:
    return lambda socket, _request: socket.respond(status, body)


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (
            HTTPStatus.UNAUTHORIZED,
            '{"error": {"message": "a token is needed"}}',
            "HTTP 401, a token is needed",
        ),
        (HTTPStatus.NOT_FOUND, "<html>", "HTTP 404"),
        (HTTPStatus.FORBIDDEN, '{"error": 1}', "HTTP 403"),
    ],
)
async def test_a_proxy_that_refuses_is_quoted(status: HTTPStatus, body: str, said: str) -> None:
    async with proxy(obliging, process_request=refusing(status, body)) as url:
        async with editing(url) as editor:
            editor.ask(1)
            assert (await editor.hear())["error"]["message"].endswith(said)
    assert "s3cret" not in "".join(editor.told)


@pytest.mark.parametrize("url", ["ftp://127.0.0.1:9", "nonsense", "http://127.0.0.1:99999"])
async def test_a_url_that_is_none_is_told(url: str) -> None:
    async with editing(url) as editor:
        editor.ask(1)
        assert url in (await editor.hear())["error"]["message"]


async def test_a_server_that_speaks_something_else_is_told() -> None:
    async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail ready\r\n")
        writer.close()

    async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with editing(f"http://127.0.0.1:{port}") as editor:
            editor.ask(1)
            assert f":{port}" in (await editor.hear())["error"]["message"]


async def test_a_lost_connection_is_opened_again_by_itself() -> None:
    methods: list[str] = []
    first = True

    async def handler(socket: ServerConnection) -> None:
        nonlocal first
        async for message in socket:
            asked = json.loads(message)
            methods.append(asked["method"])
            result = {"sessionId": "s"}
            await socket.send(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}))
            if first and asked["method"] == "session/new":
                first = False
                await socket.close(1012, "restart")
            if asked["method"] == "session/resume":
                await socket.send('{"jsonrpc":"2.0","method":"session/update"}')

    async with proxy(handler) as url, editing(url, retry=0.01) as editor:
        editor.ask(1, "initialize")
        editor.ask(2, "session/new")
        assert [(await editor.hear())["id"] for _ in range(2)] == [1, 2]
        # Nobody asked for anything, and still news of the session come.
        assert (await editor.hear())["method"] == "session/update"
    assert methods == ["initialize", "session/new", "initialize", "session/resume"]
    assert editor.told == ["the proxy ended the connection (1012 restart)", "connected again"]


async def test_an_editor_that_wants_something_does_not_wait_for_the_next_attempt() -> None:
    async with proxy(obliging) as url:
        port = int(url.rpartition(":")[2])
    async with editing(url, retry=FOREVER) as editor:
        editor.ask(1)
        assert "error" in await editor.hear()
        async with proxy(obliging, port):
            editor.ask(2)
            assert (await editor.hear())["result"] == {"did": "session/list"}


async def test_who_waits_when_the_connection_ends_is_told() -> None:
    async def handler(socket: ServerConnection) -> None:
        await socket.recv()

    async with proxy(handler) as url, editing(url) as editor:
        editor.ask("a")
        error = await editor.hear()
        assert (error["id"], error["error"]["code"]) == ("a", -32603)


async def test_what_was_asked_before_the_end_is_still_answered() -> None:
    ended = asyncio.Event()

    async def handler(socket: ServerConnection) -> None:
        message = await socket.recv()
        await ended.wait()
        await socket.send(json.dumps({"id": json.loads(message)["id"], "result": {}}))
        await socket.wait_closed()

    async with proxy(handler) as url:
        async with editing(url) as editor:
            editor.ask(1)
            editor.say(b"")
            ended.set()
        assert (await editor.hear())["id"] == 1


async def test_a11_an_open_dialog_does_not_hold_the_process() -> None:
    """Nobody is there to answer it, so the proxy is told so and answers what waits for it."""
    told: list[dict[str, Any]] = []

    async def handler(socket: ServerConnection) -> None:
        message = json.loads(await socket.recv())
        await socket.send(json.dumps(QUESTION))
        answer = json.loads(await socket.recv())
        told.append(answer)
        late = {**QUESTION, "id": "late"}
        await socket.send(json.dumps(late))
        told.append(json.loads(await socket.recv()))
        await socket.send(json.dumps({"id": message["id"], "error": {"code": -32800}}))
        await socket.wait_closed()

    async with proxy(handler) as url:
        async with editing(url, last_answers=FOREVER) as editor:
            editor.ask(1)
            assert (await editor.hear())["id"] == "q"
            editor.say(b"")
        assert (await editor.hear())["id"] == 1
    assert [(one["id"], "result" in one) for one in told] == [("q", False), ("late", False)]


async def test_an_answer_that_never_comes_does_not_hold_the_process() -> None:
    async def handler(socket: ServerConnection) -> None:
        await socket.wait_closed()

    async with proxy(handler) as url, editing(url, last_answers=0.01) as editor:
        editor.ask(1)


async def test_an_editor_that_no_longer_reads_ends_it() -> None:
    def write(_data: bytes) -> None:
        raise BrokenPipeError

    async def endless() -> AsyncIterator[bytes]:
        yield b"hello\n"
        await asyncio.Event().wait()

    async with proxy(obliging) as url:
        await Stdio(websocket(url, lambda: None, "local"), write, print).run(endless())


async def test_a_line_over_the_limit_is_refused_and_the_next_one_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bridge, "MAX_LINE", 100)
    async with proxy(obliging) as url, editing(url) as editor:
        for _ in range(10):
            editor.say(b"x" * 60)
        editor.say(b"\n")
        error = await editor.hear()
        assert (error["id"], error["error"]["code"]) == (None, -32600)
        editor.ask(2)
        assert (await editor.hear())["id"] == 2


async def test_files_are_read_to_their_end_and_written_whole(tmp_path: Path) -> None:
    data = os.urandom(1_000_000)
    (tmp_path / "in").write_bytes(data)
    source = os.open(tmp_path / "in", os.O_RDONLY)
    reader, writer = os.pipe()
    try:
        found = b"".join([chunk async for chunk in from_file(source)])
        assert found == data
        writing = asyncio.get_running_loop().run_in_executor(None, to_file(writer), data)
        through = b""
        async for chunk in from_file(reader):
            through += chunk
            if len(through) == len(data):
                await writing
                os.close(writer)
        assert through == data
    finally:
        os.close(source)
        os.close(reader)


async def test_a_file_that_cannot_be_read_has_ended(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        assert [chunk async for chunk in from_file(folder)] == []
    finally:
        os.close(folder)


def test_the_command_answers_and_ends_with_its_editor(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "modegate", "acp", "--url", "http://127.0.0.1:9"]
    done = subprocess.run(
        [*command, "--state-dir", str(tmp_path)],
        input=b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n',
        capture_output=True,
        check=True,
        timeout=30,
    )
    assert json.loads(done.stdout)["error"]["code"] == -32603
    assert done.stderr.decode().startswith("modegate acp: no proxy answers at http://127.0.0.1:9")

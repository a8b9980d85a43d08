"""Clients of ACP that other people wrote, in processes of their own, driven line by line."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from support.running import TOKEN, Running
from support.waiting import PATIENCE

FOLDER = Path(__file__).parents[1] / "acp-clients"
NODE = FOLDER / "node_modules" / ".bin" / "node"

INITIALIZE = {
    "protocolVersion": 1,
    "clientCapabilities": {},
    "clientInfo": {"name": "modegate-tests", "version": "1"},
}


class Refused(Exception):
    """A call was answered with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        """Keep the error."""
        super().__init__(error["message"])
        self.code = error["code"]
        self.data = error.get("data")


class SdkClient:
    """One client of an SDK, and what that gave to its handlers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take the line to its process; `read` must run beside."""
        self._reader, self._writer = reader, writer
        self.lines: list[dict[str, Any]] = []
        """All that the SDK gave to its handlers so far, in order; `take` removes."""
        self._news = asyncio.Condition()
        self._count = 0

    async def read(self) -> None:
        """Read what it tells until it ends."""
        while line := await self._reader.readline():
            async with self._news:
                self.lines.append(json.loads(line))
                self._news.notify_all()

    async def take(self, wanted: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """Wait for a line for which `wanted` is true, and remove it."""
        async with asyncio.timeout(PATIENCE), self._news:
            while True:
                for at, line in enumerate(self.lines):
                    if wanted(line):
                        return self.lines.pop(at)
                await self._news.wait()

    def tell(self, **command: Any) -> None:
        """Write a command."""
        self._writer.write(json.dumps(command).encode() + b"\n")

    def begin(self, method: str, **params: Any) -> int:
        """Send a request and give its number."""
        self._count += 1
        self.tell(n=self._count, call=method, params=params)
        return self._count

    async def end(self, number: int) -> Any:
        """Return a request's result.

        Raises:
            Refused: it was answered with an error.
        """
        line = await self.take(lambda line: line.get("n") == number)
        if "error" in line:
            raise Refused(line["error"])
        return line.get("result")

    async def call(self, method: str, **params: Any) -> Any:
        """Send a request and wait for its result."""
        return await self.end(self.begin(method, **params))

    async def load(self, session: str = "s") -> Any:
        """Load a session."""
        return await self.call("session/load", sessionId=session, cwd="/", mcpServers=[])

    async def update(self, kind: str, session: str = "s") -> dict[str, Any]:
        """Wait for a `session/update` of this kind; give the update."""

        def wanted(line: dict[str, Any]) -> bool:
            told = line.get("update", {})
            return bool(
                told and told["sessionId"] == session and told["update"]["sessionUpdate"] == kind
            )

        found: dict[str, Any] = (await self.take(wanted))["update"]["update"]
        return found

    async def told_of(self, mode: str) -> None:
        """Wait until both kinds of update have told of this mode; those of older ones may come before."""
        while (await self.update("current_mode_update"))["currentModeId"] != mode:
            pass
        while True:
            (option,) = (await self.update("config_option_update"))["configOptions"]
            if option["currentValue"] == mode:
                break
        assert (option["id"], option["category"]) == ("mode", "mode")

    async def asked(self) -> tuple[int, dict[str, Any]]:
        """Wait for a permission request; give its number and its parameters as the SDK read them."""
        line = await self.take(lambda line: "ask" in line)
        return line["ask"], line["params"]

    def choose(self, ask: int, option: str) -> None:
        """Answer a permission request."""
        self.tell(answer=ask, outcome={"outcome": "selected", "optionId": option})

    def dismiss(self, ask: int) -> None:
        """Answer a permission request by cancelling it."""
        self.tell(answer=ask, outcome={"outcome": "cancelled"})

    def close(self) -> None:
        """Have it end its connection; `read` ends when it has."""
        self._writer.write_eof()


@contextmanager
def sdks(folder: Path) -> Iterator[dict[str, Path]]:
    """Start the process of each language's clients; give where each listens."""
    folder.mkdir(exist_ok=True)
    commands: dict[str, list[str]] = {
        "python": [sys.executable, "-m", "support.acp_sdk_client"],
        "typescript": [str(NODE), str(FOLDER / "client.mjs")],
    }
    environ = {**os.environ, "ACP_TOKEN": TOKEN, "PYTHONPATH": os.pathsep.join(sys.path)}
    environ["ACP_PYTHON"] = sys.executable
    sockets = {name: folder / name for name in commands}
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen(
                    [*command, str(sockets[name])],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=environ,
                )
            )
            for name, command in commands.items()
        ]
        try:
            for one in started:
                assert one.stdout
                assert one.stdout.readline() == b"ready\n"
            yield sockets
        finally:
            for one in started:
                one.kill()


@asynccontextmanager
async def connected(
    sockets: dict[str, Path], client: str, proxy: Running
) -> AsyncIterator[SdkClient]:
    """Connect and initialize a client: `python ws`, `typescript http` and so on."""
    language, transport = client.split()
    url = proxy.url if transport == "stdio" else f"{proxy.url}/acp"
    if transport == "ws":
        url = url.replace("http://", "ws://")
    reader, writer = await asyncio.open_unix_connection(sockets[language], limit=2**24)
    try:
        async with asyncio.timeout(4 * PATIENCE), asyncio.TaskGroup() as group:
            running = SdkClient(reader, writer)
            group.create_task(running.read())
            running.tell(transport=transport, url=url)
            found = await running.call("initialize", **INITIALIZE)
            assert found["protocolVersion"] == 1
            assert found["agentInfo"]["name"] == "modegate"
            assert found["agentCapabilities"]["loadSession"] is True
            yield running
            running.close()
    finally:
        writer.close()

"""A whole proxy for scenarios: in this process, or in one of its own that can be killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from modegate.core.dialects.registered import DIALECTS, Dialects
from modegate.core.policy.model import Waits
from modegate.server.compose import Composed, compose
from modegate.server.process.serving import Server, bind, serve_with
from modegate.server.proxy.sending import KEEPALIVE_S
from modegate.server.settings import Settings
from modegate_acp.endpoint import build
from support.waiting import PATIENCE

TOKEN = "test-token-0123456789"
POLICIES = """
modes:
  plan:
    section: PLAN-SECTION
    tools: [read, grep]
  review:
    section: REVIEW-SECTION
    tools: [read, bash]
"""


@dataclass(frozen=True)
class Running:
    """A proxy and how to reach it."""

    url: str
    folder: Path
    composed: Composed | None = None

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.url.rsplit(":", 1)[1])

    def base(self, session: str = "s") -> str:
        """Return the base URL of a session's agent."""
        return f"{self.url}/s/{session}/v1"

    async def control(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Call the control API."""
        async with client() as http:
            headers = {"authorization": f"Bearer {TOKEN}"}
            return await http.request(
                method, f"{self.url}/control/v1{path}", headers=headers, **more
            )

    async def set_mode(self, mode: str, session: str = "s") -> None:
        """Do what a person does."""
        answer = await self.control("PUT", f"/sessions/{session}/mode", json={"mode": mode})
        assert answer.status_code == 200, answer.text

    async def events(self, session: str = "s") -> list[dict[str, Any]]:
        """Return a session's log."""
        answer = await self.control("GET", f"/sessions/{session}/events")
        if answer.status_code == 404:
            return []
        events: list[dict[str, Any]] = answer.json()["events"]
        return events


def client() -> httpx.AsyncClient:
    """Return a client that leaves the environment's proxies alone."""
    return httpx.AsyncClient(trust_env=False, verify=False, timeout=PATIENCE)


def policies_file(folder: Path, text: str = POLICIES) -> Path:
    """Write a policies file."""
    path = folder / "policies.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@contextlib.asynccontextmanager
async def running(
    folder: Path,
    upstream: str,
    *,
    waits: Waits | None = None,
    keepalive: float = KEEPALIVE_S,
    drain: float = 5.0,
    dialects: Dialects = DIALECTS,
    **more: Any,
) -> AsyncIterator[Running]:
    """Run a proxy in this process, on a free port."""
    if "policies" not in more:
        more["policies"] = policies_file(folder)
    settings = Settings(
        port=0, upstream=upstream, state_dir=folder / "state", control_token=TOKEN, **more
    )
    async with compose(
        settings, dialects=dialects, acp=build, waits=waits, keepalive=keepalive
    ) as composed:
        with bind("127.0.0.1", 0) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            server = Server(composed.app(), drain=drain, on_drain=composed.drain)
            async with asyncio.TaskGroup() as group:
                group.create_task(serve_with(server, [listener], composed.jobs))
                try:
                    yield Running(url, folder, composed)
                finally:
                    server.should_exit = True


@dataclass
class Process:
    """`modegate serve` in a process of its own."""

    process: subprocess.Popen[bytes]
    running: Running

    def kill(self) -> None:
        """End it without a chance to clean up."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@contextlib.contextmanager
def process(
    folder: Path, upstream: str, *options: str, log: str | None = None, files: int | None = None
) -> Iterator[Process]:
    """Start `modegate serve`, which may open so many files, and wait until it says where it listens."""
    policies = folder / "policies.yaml"
    if not policies.exists():
        policies_file(folder)
    limit = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh"] if files else []
    command = [
        *limit,
        sys.executable,
        "-m",
        "modegate",
        "serve",
        "--port",
        "0",
        "--upstream",
        upstream,
    ]
    command += ["--policies", str(policies), "--state-dir", str(folder / "state")]
    command += ["--log", log] if log else []
    command += options
    environment = {**os.environ, "MODEGATE_CONTROL_TOKEN": TOKEN}
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment) as started:
        assert started.stderr is not None
        try:
            first = started.stderr.readline().decode()
            url = first.rsplit(" ", 1)[-1].strip()
            assert url.startswith("http://"), first + started.stderr.read().decode()
            yield Process(started, Running(url, folder))
        finally:
            # Asked first, so that its workers end with it.
            started.terminate()
            try:
                started.wait(10)
            finally:
                started.kill()


async def exchange(port: int, request: bytes) -> bytes:
    """Send raw bytes and give all that comes back until the other end closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        await writer.drain()
        return await reader.read()
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def post(path: str, body: bytes, *lines: str) -> bytes:
    """Return a raw POST that closes the connection behind it."""
    head = [f"POST {path} HTTP/1.1", "Host: proxy", "Connection: close", *lines]
    head.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(head) + "\r\n\r\n").encode("latin-1") + body

"""Several `modegate serve` processes on one log, as in a deployment; policies swapped as Kubernetes does.

Their stderr goes to a file, so that nothing waits for somebody to read it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from support.redis_server import free_port
from support.running import TOKEN
from support.waiting import listens

END_S = 60.0


class PolicyFolder:
    """A volume of a ConfigMap: files are links into a folder, which is a link that is swapped."""

    def __init__(self, folder: Path) -> None:
        """Make it without content."""
        folder.mkdir()
        self._folder = folder
        self._versions = 0
        self.file = folder / "policies.yaml"
        self.file.symlink_to("..data/policies.yaml")

    def swap(self, text: str) -> None:
        """Put another content in place, at once and whole."""
        self._versions += 1
        version = self._folder / f"..v{self._versions}"
        version.mkdir()
        (version / "policies.yaml").write_text(text, encoding="utf-8")
        fresh = self._folder / "..data_tmp"
        fresh.symlink_to(version.name)
        fresh.rename(self._folder / "..data")


@dataclass
class Replica:
    """One process, started and ended by the test, at addresses that stay the same."""

    folder: Path
    upstream: str
    log: str
    policies: Path
    http: httpx.AsyncClient
    options: tuple[str, ...] = ()
    port: int = field(default_factory=free_port)
    control_port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where agents find it."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def stderr(self) -> Path:
        """What it wrote, over all its lives."""
        return self.folder / "stderr.txt"

    def start(self) -> None:
        """Start it; it can be asked at once, and answers when it is up."""
        self.folder.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "modegate", "serve", "--upstream", self.upstream]
        command += ["--port", str(self.port), "--control-port", str(self.control_port)]
        command += ["--policies", str(self.policies), "--state-dir", str(self.folder)]
        environment = {**os.environ, "MODEGATE_CONTROL_TOKEN": TOKEN, "MODEGATE_LOG": self.log}
        with self.stderr.open("ab") as stderr:
            self.process = subprocess.Popen(
                [*command, *self.options], stderr=stderr, env=environment
            )
        listens(self.control_port, self.process)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end, wait until it has, and give its exit code."""
        assert self.process
        self.process.send_signal(number)
        try:
            return self.process.wait(END_S)
        finally:
            self.process.kill()

    async def restart(self) -> None:
        """End it as a supervisor does, and start it again."""
        code = await asyncio.to_thread(self.end)
        assert code == 0, self.stderr.read_text(encoding="utf-8")
        await asyncio.to_thread(self.start)

    def kill(self) -> None:
        """End it, whatever it does."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    async def control(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Call its control API."""
        base = f"http://127.0.0.1:{self.control_port}"
        return await control(self.http, base, method, path, **more)


async def control(
    http: httpx.AsyncClient, base: str, method: str, path: str, **more: Any
) -> httpx.Response:
    """Call the control API at a base URL, over a connection of its own: the process may just have ended."""
    headers = {"authorization": f"Bearer {TOKEN}", "connection": "close"}
    return await http.request(method, f"{base}/control/v1{path}", headers=headers, **more)

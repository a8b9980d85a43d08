"""A real redis-server for tests: on loopback, on a free port, with its files in a given folder.

modegate logs in as the user of `deploy/redis/users.acl`, so that every test of the log shows that its rights
are enough; tests that look behind the log take `admin_url`.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.waiting import PATIENCE

PASSWORD = "of-the-tests"
ACL = Path(__file__).parents[2] / "deploy" / "redis" / "users.acl"


def acl() -> str:
    """Return the shipped users, with the password of the tests, and one who may do everything."""
    rules = ACL.read_text(encoding="utf-8")
    rules = re.sub(r"#[0-9a-f]{64}", f"#{hashlib.sha256(PASSWORD.encode()).hexdigest()}", rules)
    return rules.replace("user default off", "user default on nopass ~* &* +@all")


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RedisServer:
    """One server process that can be stopped, killed, paused and started again in the same place."""

    def __init__(self, folder: Path, *options: str, port: int | None = None) -> None:
        """Choose a free port unless one is given; `options` are redis-server's, as `--appendonly yes`."""
        binary = shutil.which("redis-server")
        assert binary, "these tests need redis-server on the PATH"
        self.binary = binary
        self.port = port or free_port()
        self.url = f"redis://modegate:{PASSWORD}@127.0.0.1:{self.port}/0"
        self.admin_url = f"redis://127.0.0.1:{self.port}/0"
        users = folder / "users.acl"
        users.write_text(acl(), encoding="utf-8")
        self._command = [binary, "--port", str(self.port), "--bind", "127.0.0.1"]
        self._command += ["--dir", str(folder), "--save", "", "--aclfile", str(users), *options]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process and wait until it answers."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            assert self._process.poll() is None, "redis-server ended while it started"
            assert time.monotonic() < deadline, "redis-server does not answer"
            time.sleep(0.01)  # there is nothing to wait on but the socket itself

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False

    def kill(self) -> None:
        """End it as kill -9 does."""
        self._signal(signal.SIGKILL)
        assert self._process
        self._process.wait()
        self._process = None

    def pause(self) -> None:
        """Let it keep its connections and answer nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """End it if it still runs."""
        if self._process:
            self.kill()

    def _signal(self, number: signal.Signals) -> None:
        assert self._process, "the server does not run"
        self._process.send_signal(number)


@contextmanager
def redis_server(folder: Path, *options: str, port: int | None = None) -> Iterator[RedisServer]:
    """Run a server for the time of a with block."""
    server = RedisServer(folder, *options, port=port)
    server.start()
    try:
        yield server
    finally:
        server.close()

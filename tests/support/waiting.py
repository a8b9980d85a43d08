"""Waiting for processes that tell nothing: there is only their socket to ask."""

from __future__ import annotations

import socket
import subprocess
import time

PATIENCE = 60.0
"""Seconds; only ever reached by a test that fails."""


def answers(port: int) -> bool:
    """Return whether somebody listens on a port of loopback."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def listens(port: int, process: subprocess.Popen[bytes] | None = None) -> None:
    """Wait until somebody listens; fail if the process that should ends before."""
    deadline = time.monotonic() + PATIENCE
    while not answers(port):
        assert process is None or process.poll() is None, "it ended while it started"
        assert time.monotonic() < deadline, f"nobody listens on {port}"
        time.sleep(0.01)  # there is nothing to wait on but the socket itself

"""Sockets that a parent holds: systemd's protocol, and nobody refused while the process is restarted."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.raw_upstream import RawUpstream, whole
from support.running import TOKEN, client, policies_file
from support.waiting import PATIENCE

SERVE = [sys.executable, "-m", "modegate", "serve"]
# What systemd does between fork and exec: the descriptors from 3 on, and who they are for.
PARENT = """
import os, sys
for number, given in enumerate(sys.argv[1].split(",")):
    os.dup2(int(given), 3 + number, inheritable=True)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(number + 1), "LISTEN_FDNAMES": sys.argv[2]}
os.execv(sys.argv[3], sys.argv[3:])
"""


@contextlib.contextmanager
def activated(
    folder: Path, upstream: str, sockets: list[socket.socket], names: str = "", *options: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Start modegate as systemd does; the sockets stay open here."""
    if not (folder / "policies.yaml").exists():
        policies_file(folder)
    # Out of the way of the numbers from 3 on.
    copies = [fcntl.fcntl(one.fileno(), fcntl.F_DUPFD, 100) for one in sockets]
    numbers = ",".join(str(number) for number in copies)
    command = [sys.executable, "-c", PARENT, numbers, names, *SERVE, "--upstream", upstream]
    command += ["--policies", str(folder / "policies.yaml"), "--state-dir", str(folder), *options]
    environment = {**os.environ, "MODEGATE_CONTROL_TOKEN": TOKEN}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, pass_fds=copies, env=environment
    ) as started:
        for number in copies:
            os.close(number)
        try:
            yield started
        finally:
            started.terminate()
            try:
                started.wait(PATIENCE)
            finally:
                started.kill()


def listener() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def port_of(one: socket.socket) -> int:
    return int(one.getsockname()[1])


def banner(started: subprocess.Popen[bytes]) -> str:
    """Return what it says at the start, and read on, so that it never waits for us."""
    assert started.stderr
    lines = [started.stderr.readline().decode()]
    while "upstream" not in lines[-1]:
        lines.append(started.stderr.readline().decode())
        assert lines[-1], lines
    threading.Thread(target=started.stderr.read, daemon=True).start()
    return "".join(lines)


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_o6_nobody_is_refused_while_the_process_is_restarted(
    tmp_path: Path, workers: str
) -> None:
    """An answer that is under way ends as it would; who connects between the two is served by the next."""
    options = ("", "--workers", workers)
    with listener() as one:
        path = "/s/s/v1/models"
        async with RawUpstream(whole(b"served")) as up:
            with activated(tmp_path, up.base_url, [one], *options) as first:
                assert f"127.0.0.1:{port_of(one)}" in await asyncio.to_thread(banner, first)
                assert b"served" in await asked(one, path)
                first.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(first.wait, PATIENCE) == 0
                between = [asyncio.ensure_future(asked(one, path)) for _ in range(5)]
                await asyncio.sleep(0)
            with activated(tmp_path, up.base_url, [one], *options) as second:
                assert all(b"served" in answer for answer in await asyncio.gather(*between))
                assert second.poll() is None


async def asked(one: socket.socket, path: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(one))
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize(
    "names", ["agents:control", "control:agents", "modegate.socket:modegate.socket"]
)
async def test_o6_a_second_socket_is_for_people(tmp_path: Path, names: str) -> None:
    with listener() as one, listener() as other:
        agents, people = (other, one) if names.startswith("control") else (one, other)
        async with RawUpstream(whole(b"served")) as up:
            with activated(tmp_path, up.base_url, [one, other], names) as started:
                await asyncio.to_thread(banner, started)
                assert b"served" in await asked(agents, "/v1/models")
                for where, status in ((agents, 404), (people, 200)):
                    async with client() as http:
                        url = f"http://127.0.0.1:{port_of(where)}/control/v1/sessions"
                        lines = {"authorization": f"Bearer {TOKEN}"}
                        assert (await http.get(url, headers=lines)).status_code == status


def udp() -> socket.socket:
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.bind(("127.0.0.1", 0))
    return one


@pytest.mark.parametrize(
    ("make", "count", "options", "words"),
    [
        (udp, 1, (), "no listening TCP socket"),
        (socket.socket, 1, (), "no listening TCP socket"),
        (listener, 3, (), "takes one, for agents, and a second for people"),
        (listener, 1, ("--control-port", "8485"), "control_port wants one for people too"),
    ],
    ids=["UDP", "not listening", "three", "one where two are wanted"],
)
def test_o6_sockets_that_cannot_be_used_stop_the_start(
    tmp_path: Path,
    make: Callable[[], socket.socket],
    count: int,
    options: tuple[str, ...],
    words: str,
) -> None:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(make()) for _ in range(count)]
        with activated(tmp_path, "http://127.0.0.1:9", sockets, "", *options) as started:
            assert started.wait(PATIENCE) == 1
            assert started.stderr
            assert words in started.stderr.read().decode()


def test_o6_what_was_passed_to_another_process_is_left_alone(tmp_path: Path) -> None:
    """A shell between the two hands the variables on: LISTEN_PID says that they are not for us."""
    policies_file(tmp_path)
    environment = {**os.environ, "LISTEN_PID": "1", "LISTEN_FDS": "1"}
    command = [*SERVE, "--port", "0", "--policies", str(tmp_path / "policies.yaml")]
    command += ["--state-dir", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment) as started:
        try:
            assert "on http://127.0.0.1:" in banner(started)
        finally:
            started.terminate()

"""A master, a replica and one Sentinel, all real, which a test can break."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.redis_server import PASSWORD, RedisServer, free_port, redis_server
from support.waiting import PATIENCE

SERVICE = "modegate-log"
CONF = """\
port {port}
bind 127.0.0.1
dir {folder}
sentinel monitor {service} 127.0.0.1 {master} 1
sentinel down-after-milliseconds {service} 300
sentinel failover-timeout {service} 3000
"""


def ask(port: int, *words: str) -> bytes:
    """Send one command to a server and give its raw answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        parts = "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
        connection.sendall(f"*{len(words)}\r\n{parts}".encode())
        return connection.recv(65_536)


class Cluster:
    """The three of them."""

    def __init__(self, master: RedisServer, replica: RedisServer, sentinel: int) -> None:
        """Take servers that run."""
        self.master, self.replica = master, replica
        self._sentinel = sentinel
        self.url = f"redis+sentinel://modegate:{PASSWORD}@127.0.0.1:{sentinel}/{SERVICE}/0"

    def wait_until(self, port: int, command: tuple[str, ...], expected: bytes) -> None:
        """Wait until a server's answer holds something; there is nothing to wait on but the answer."""
        deadline = time.monotonic() + PATIENCE
        while expected not in (answer := ask(port, *command)):
            assert time.monotonic() < deadline, answer
            time.sleep(0.02)

    def in_sync(self) -> None:
        """Wait until the replica has what the master has, and the Sentinel knows of it."""
        self.wait_until(self.replica.port, ("INFO", "replication"), b"master_link_status:up")
        self.wait_until(
            self._sentinel, ("SENTINEL", "REPLICAS", SERVICE), str(self.replica.port).encode()
        )

    def fail_over(self) -> None:
        """Kill the master, if it still runs, and wait until the replica is the one."""
        self.master.close()
        port = str(self.replica.port).encode()
        named = b"$%d\r\n%b" % (len(port), port)
        # Sentinels tell the address by both, and by the first of them earlier; clients ask for the second.
        asked = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        self.wait_until(self._sentinel, asked, named)
        self.wait_until(self._sentinel, ("SENTINEL", "MASTERS"), b"port\r\n" + named)
        self.wait_until(self.replica.port, ("ROLE",), b"$6\r\nmaster")


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Run all three for the time of a with block."""
    folders = [folder / name for name in ("master", "replica", "sentinel")]
    for one in folders:
        one.mkdir()
    with redis_server(folders[0]) as master:
        follow = ("--replicaof", f"127.0.0.1 {master.port}", "--repl-diskless-sync-delay", "0")
        with redis_server(folders[1], *follow) as replica:
            port = free_port()
            conf = folders[2] / "sentinel.conf"
            text = CONF.format(port=port, folder=folders[2], service=SERVICE, master=master.port)
            conf.write_text(text, encoding="utf-8")
            process = subprocess.Popen(
                [master.binary, str(conf), "--sentinel"], stdout=subprocess.DEVNULL
            )
            try:
                yield _ready(Cluster(master, replica, port), port)
            finally:
                process.kill()
                process.wait()


def _ready(cluster: Cluster, port: int) -> Cluster:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            ask(port, "PING")
            break
        except OSError:
            assert time.monotonic() < deadline, "the Sentinel does not answer"
            time.sleep(0.02)
    cluster.in_sync()
    return cluster

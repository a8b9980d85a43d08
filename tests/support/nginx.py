"""A real nginx in front of proxies, with the configuration of `deploy/nginx` and nothing else of its own."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.redis_server import free_port
from support.waiting import listens

SHIPPED = Path(__file__).parents[2] / "deploy" / "nginx" / "modegate.conf"
WRAPPER = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
worker_processes 1;
events {{}}
http {{
    access_log {folder}/access.log;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/modegate.conf;
}}
"""


@dataclass(frozen=True)
class Front:
    """Where it listens."""

    agents: str
    people: str
    folder: Path

    @property
    def errors(self) -> str:
        """What it complained of."""
        return (self.folder / "error.log").read_text(encoding="utf-8")

    def statuses(self) -> list[int]:
        """Return what it answered, request by request."""
        log = (self.folder / "access.log").read_text(encoding="utf-8")
        return [int(found) for found in re.findall(r'" (\d{3}) ', log)]


def configure(
    folder: Path, agents: Sequence[int], people: Sequence[int], ports: tuple[int, int]
) -> list[str]:
    """Write the shipped configuration for two proxies on these ports; give the command that runs it."""
    binary = shutil.which("nginx")
    assert binary, "these tests need nginx on the PATH"
    text = SHIPPED.read_text(encoding="utf-8")
    for number in (1, 2):
        text = text.replace(f"modegate-{number}:8484", f"127.0.0.1:{agents[number - 1]}")
        text = text.replace(f"modegate-{number}:8485", f"127.0.0.1:{people[number - 1]}")
    text = text.replace("listen 8484;", f"listen 127.0.0.1:{ports[0]};")
    text = text.replace("listen 8485;", f"listen 127.0.0.1:{ports[1]};")
    assert not re.search(r"server modegate-|listen \d+;", text), "an address was not replaced"
    (folder / "modegate.conf").write_text(text, encoding="utf-8")
    main = folder / "nginx.conf"
    main.write_text(WRAPPER.format(folder=folder), encoding="utf-8")
    return [binary, "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(main)]


@contextmanager
def nginx(folder: Path, agents: Sequence[int], people: Sequence[int]) -> Iterator[Front]:
    """Run it for the time of a with block."""
    folder.mkdir(exist_ok=True)
    ports = (free_port(), free_port())
    with subprocess.Popen(configure(folder, agents, people, ports)) as started:
        try:
            for port in ports:
                listens(port, started)
            yield Front(f"http://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}", folder)
        finally:
            started.terminate()
            started.wait(10)

"""What the benchmark starts and measures: the mock model, nginx, modegate, and the load generator.

Each process is pinned to a core from its first instruction, dies with the benchmark, and is ended by its own
process group: nothing that the benchmark did not start is touched.
"""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import proc

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent / ".bench"
_PR_SET_PDEATHSIG = 1


class BenchError(Exception):
    """The benchmark cannot run, or what it measured means nothing; the message says why."""


@dataclass(frozen=True, slots=True)
class Cores:
    """Where the proxies run, and where the mock and the load generator do."""

    proxy: int
    rest: int

    @classmethod
    def choose(cls) -> Cores:
        """Take the first two cores this process may use; one core serves for both if need be."""
        usable = sorted(os.sched_getaffinity(0))
        return cls(usable[0], usable[1] if len(usable) > 1 else usable[0])


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its port, its process and how long it took to become ready."""

    name: str
    port: int
    pid: int
    ready_seconds: float


def compile_tool(name: str) -> Path:
    """Build `name`.c with gcc -O2 into .bench/, unless that is newer than the source.

    Raises:
        BenchError: gcc is missing or does not accept the source.
    """
    source, binary = HERE / f"{name}.c", CACHE / name
    if binary.exists() and binary.stat().st_mtime >= source.stat().st_mtime:
        return binary
    compiler = shutil.which("gcc")
    if compiler is None:
        raise BenchError("gcc is missing: install it (scripts/needs gcc) and try again")
    CACHE.mkdir(exist_ok=True)
    fresh = CACHE / f"{name}.{os.getpid()}"
    command = [compiler, "-O2", "-Wall", "-std=gnu11", "-o", str(fresh), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise BenchError(f"gcc failed on {source.name}:\n{done.stderr[-2000:]}")
    return fresh.rename(binary)


def free_port() -> int:
    """Return a loopback port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def call(
    method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> bytes:
    """Make one request outside the measurement and return the body of a 2xx answer.

    Raises:
        BenchError: any other answer, or none.
    """
    request = urllib.request.Request(url, data=body, headers=dict(headers or {}), method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=20) as answer:
            content: bytes = answer.read()
            return content
    except urllib.error.HTTPError as error:
        raise BenchError(f"{method} {url}: {error.code} {error.read(300)!r}") from error
    except OSError as error:
        raise BenchError(f"{method} {url}: {error}") from error


def _pinned(core: int) -> Callable[[], None]:
    """Return what a child does before exec: move to its core, and die when the benchmark dies."""
    libc = ctypes.CDLL(None)

    def prepare() -> None:
        os.sched_setaffinity(0, {core})
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

    return prepare


@contextmanager
def process(
    command: list[str], core: int, log: Path, env: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in its own process group until the block is left."""
    with log.open("wb") as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            env=env,
            start_new_session=True,
            preexec_fn=_pinned(core),
        )
    try:
        yield child
    finally:
        _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a process group that we started: ask, wait, then kill. The leader is not reaped before."""
    for signum, patience in ((signal.SIGTERM, 5), (signal.SIGKILL, 5)):
        try:
            os.killpg(child.pid, signum)
            child.wait(patience)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue
        return


def wait_ready(
    child: subprocess.Popen[bytes], log: Path, probe: Callable[[], object], seconds: float
) -> float:
    """Call `probe` until it raises no BenchError; return the seconds that it took."""
    began = time.monotonic()
    while True:
        try:
            probe()
            return time.monotonic() - began
        except BenchError as error:
            if child.poll() is None and time.monotonic() - began < seconds:
                time.sleep(0.02)
                continue
            end = log.read_text(errors="replace")[-1500:]
            state = "is not ready" if child.returncode is None else f"ended with {child.returncode}"
            raise BenchError(f"{log.stem} {state}: {error}\n{end}") from error


def last_words(folder: Path) -> str:
    """Return the end of what each server wrote, since it goes with the folder."""
    logs = (
        (log.name, log.read_text(errors="replace")[-2000:]) for log in sorted(folder.glob("*.log"))
    )
    return "\n".join(f"--- {name}\n{text}" for name, text in logs)


@contextmanager
def mock(folder: Path, core: int) -> Iterator[Server]:
    """Run the mock model."""
    port, log = free_port(), folder / "mock.log"
    with process([str(compile_tool("mock")), str(port)], core, log) as child:
        took = wait_ready(child, log, lambda: call("GET", f"http://127.0.0.1:{port}/stats"), 5)
        yield Server("direct", port, child.pid, took)


@contextmanager
def nginx(folder: Path, core: int, upstream: int) -> Iterator[Server]:
    """Run nginx in front of the mock, with the settings of bench/nginx.conf."""
    binary = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
    if binary is None:
        raise BenchError("nginx is missing: install it (scripts/needs nginx) and try again")
    port, log, config = free_port(), folder / "nginx.log", folder / "nginx.conf"
    text = (HERE / "nginx.conf").read_text()
    for place, value in (("FOLDER", folder), ("UPSTREAM", upstream), ("PORT", port)):
        text = text.replace(f"@{place}@", str(value))
    config.write_text(text)
    with process([binary, "-c", str(config), "-e", "stderr"], core, log) as child:
        took = wait_ready(child, log, lambda: call("GET", f"http://127.0.0.1:{port}/stats"), 5)
        yield Server("nginx", port, child.pid, took)


@contextmanager
def modegate(
    folder: Path, core: int, upstream: int, *, command: Path, policies: Path
) -> Iterator[Server]:
    """Run `modegate serve` in front of the mock, with the session bench-plan in plan mode."""
    token = secrets.token_urlsafe(24)
    environ = {"MODEGATE_CONTROL_TOKEN": token}
    files = {"command": command, "policies": policies}
    with serve(folder, core, f"http://127.0.0.1:{upstream}/v1", environ, **files) as server:
        head = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        url = f"http://127.0.0.1:{server.port}/control/v1/sessions/bench-plan/mode"
        call("PUT", url, b'{"mode":"plan"}', head)
        yield server


@contextmanager
def serve(
    folder: Path,
    core: int,
    upstream: str,
    environ: Mapping[str, str],
    *,
    command: Path,
    policies: Path,
) -> Iterator[Server]:
    """Run `modegate serve` with an embedded log, and `environ` beside what it inherits."""
    if not command.exists():
        raise BenchError(f"{command} is missing: run `make install`")
    if not policies.exists():
        raise BenchError(f"{policies} is missing")
    port, log = free_port(), folder / "modegate.log"
    env = {name: value for name, value in os.environ.items() if not name.startswith("MODEGATE_")}
    env |= {
        "MODEGATE_STATE_DIR": str(folder),
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
        **environ,
    }
    line = [str(command), "serve", "--host", "127.0.0.1", "--port", str(port)]
    line += ["--upstream", upstream, "--policies", str(policies)]
    line += ["--log", f"sqlite:{folder / 'modegate.sqlite'}"]
    with process(line, core, log, env) as child:
        ready = f"http://127.0.0.1:{port}/readyz"
        took = wait_ready(child, log, lambda: call("GET", ready), 20)
        yield Server("modegate", port, child.pid, took)


def load(
    core: int, server: Server, path: str, body: Path, spec: str, *more: str, seconds: float
) -> dict[str, Any]:
    """Run the load generator and return its report, with `cpu_us` per request of the server's tree.

    Raises:
        BenchError: it gave no report within `seconds` and some patience, or no request was answered.
    """
    command = [str(CACHE / "load"), "--port", str(server.port), "--path", path, "--body", str(body)]
    command += [
        "--header",
        f"x-mock: {spec}",
        "--seconds",
        str(seconds),
        "--limit",
        str(seconds + 20),
        *more,
    ]
    before = proc.cpu_seconds(server.pid)
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=seconds + 30,
            check=False,
            preexec_fn=_pinned(core),
        )
        report: dict[str, Any] = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError) as error:
        raise BenchError(
            f"the load generator gave no report on {server.name} ({spec}): {error}"
        ) from error
    if not report["requests"]:
        raise BenchError(f"{server.name} answered no request ({spec}): {report['error']}")
    report["cpu_us"] = (proc.cpu_seconds(server.pid) - before) * 1e6 / report["requests"]
    return report

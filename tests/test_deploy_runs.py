"""What `deploy/` starts, started: the image's steps in a clean environment, the unit, nginx, Redis."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

import httpx
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from modegate import __version__
from modegate.core.ids import LOCAL
from modegate.server.log.open import open_log
from modegate.server.log.protocol import Seen
from support.deploying import ROOT, directive, image_environment, locked, said, steps, text
from support.nginx import configure, nginx
from support.raw_upstream import RawUpstream, chunked, head, whole
from support.redis_server import PASSWORD, acl, free_port
from support.running import client
from support.stores import key_of, mode_set
from support.waiting import listens

# The image.


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Do the image's steps in folders of their own; give the one that stands for its root.

    To save time, with pip from outside, and of the lock without what only litellm needs: it would take longer
    than all other tests.
    """
    root = tmp_path_factory.mktemp("image")
    source = root / "src"
    source.mkdir()
    for line in said("COPY"):
        if line.startswith("--from"):
            continue
        *names, target = line.split()
        for name in names:
            place = source / target if not target.startswith("/") else root / target[1:]
            copy(ROOT / name, place / Path(name).name if target.endswith("/") else place)
    (source / "requirements.lock").write_text(needed(locked()), encoding="utf-8")
    (command,) = [line for line in said("RUN") if "pip install" in line]
    assert "--no-compile" not in command  # what may not write would compile at each start
    for line, ours in (
        ("install --no-cache-dir", "install -q --no-compile"),
        ("python -m venv", f"{sys.executable} -m venv --without-pip"),
        ("/tmp/build/bin/pip", f"{sys.executable} -m pip --python {root}/build/bin/python"),
        (
            "/opt/modegate/bin/pip",
            f"{sys.executable} -m pip --python {root}/opt/modegate/bin/python",
        ),
        (" /tmp/build ", f" {root}/build "),
        (" /opt/modegate ", f" {root}/opt/modegate "),
        ("/tmp/wheels", f"{root}/wheels"),
    ):
        assert line in command
        command = command.replace(line, ours)
    subprocess.run(["bash", "-euc", command], cwd=source, check=True, env=clean(root))
    return root


def needed(lock: dict[str, str]) -> str:
    """Return the part of a lock that modegate needs without its extras."""
    names, found = ["modegate"], set[str]()
    while names:
        for need in map(Requirement, metadata.requires(names.pop()) or ()):
            name = canonicalize_name(need.name)
            extras = need.extras or {""}
            if name not in found and (need.marker is None or need.marker.evaluate({"extra": ""})):
                found.add(name)
                names.append(name)
                # What an extra brings, such as redis[hiredis].
                for more in map(Requirement, metadata.requires(name) or ()):
                    if more.marker and any(more.marker.evaluate({"extra": one}) for one in extras):
                        found.add(canonicalize_name(more.name))
    return "".join(lock[name] for name in sorted(found) if name in lock)


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def clean(root: Path, **more: str) -> dict[str, str]:
    """Return an environment in which nothing points to the checkout."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "MODEGATE", "VIRTUAL_ENV", "COV"))
    }
    return {**kept, "HOME": str(root), **more}


@contextmanager
def serving(command: list[str], environment: dict[str, str], folder: Path) -> Iterator[str]:
    """Start it, wait until it says where it listens, and end it as a supervisor does."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment, cwd=folder) as started:
        assert started.stderr
        try:
            first = started.stderr.readline().decode()
            found = re.search(r" on (http://[^\s\"]+)", first)
            assert found, first + started.stderr.read().decode()
            yield found[1]
            started.send_signal(signal.SIGTERM)
            assert started.wait(20) == 0
        finally:
            started.kill()


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.mark.timeout(300)
def test_the_image_serves_and_writes_nowhere_but_in_its_state(image: Path) -> None:
    environment = image_environment()
    environment["PATH"] = environment["PATH"].replace(
        "/opt/modegate", str(image / "opt" / "modegate")
    )
    environment["PATH"] = environment["PATH"].replace("$PATH", os.environ["PATH"])
    environment["MODEGATE_POLICIES"] = f"{image}{environment['MODEGATE_POLICIES']}"
    assert Path(environment["MODEGATE_POLICIES"]).is_file()
    state = Path(f"{image}{environment['MODEGATE_STATE_DIR']}")
    state.mkdir(parents=True)
    assert environment["MODEGATE_HOST"] == "0.0.0.0"
    port = str(free_port())
    environment |= {
        "MODEGATE_HOST": "127.0.0.1",  # tests stay on this machine
        "MODEGATE_PORT": port,
        "MODEGATE_STATE_DIR": str(state),
        "TMPDIR": str(state),
    }
    environment = clean(image, **environment)
    (entry,) = said("ENTRYPOINT")
    (arguments,) = said("CMD")
    assert (entry, arguments) == ('["modegate"]', '["serve"]')
    binary = shutil.which("modegate", path=environment["PATH"])
    assert binary == str(image / "opt" / "modegate" / "bin" / "modegate")
    version = subprocess.run([binary, "--version"], capture_output=True, text=True, env=environment)
    assert __version__ in version.stdout
    before = files(image)
    with serving([binary, "serve"], environment, image) as url:
        assert url.endswith(f":{port}")
        check = health_check()
        check[-1] = check[-1].replace("8484", port)
        check[0] = str(image / "opt" / "modegate" / "bin" / check[0])
        assert subprocess.run(check, env=environment, capture_output=True).returncode == 0
        ready = httpx.get(f"{url}/readyz", trust_env=False)
        assert ready.json()["ready"] is True
    assert subprocess.run(check, env=environment, capture_output=True).returncode != 0
    assert {path for path in files(image) - before if state not in path.parents} == set()


def health_check() -> list[str]:
    found = re.search(r"CMD \[(.*)\]", said("HEALTHCHECK")[0])
    assert found
    return [word.rstrip(",") for word in shlex.split(found[1])]


# The unit.


def test_the_command_of_the_unit_serves(tmp_path: Path) -> None:
    """In an environment that holds what the unit sets and nothing else."""
    sets = dict(one.split("=", 1) for one in directive("Environment"))
    install = next(line for line in steps("systemd/modegate.service") if "policies.yaml" in line)
    source, target = install.split()[-2:]
    policies = tmp_path / target[1:]
    copy(ROOT / source, policies)
    environment = {
        "PATH": "/usr/bin:/bin",
        **{name: value.replace(target, str(policies)) for name, value in sets.items()},
        "MODEGATE_STATE_DIR": str(tmp_path / "state"),
        "MODEGATE_PORT": str(free_port()),
    }
    (tmp_path / "state").mkdir(mode=int(directive("StateDirectoryMode")[0], 8))
    for line in directive("ExecStart"):
        command = shlex.split(line)
        command[0] = str(Path(sys.prefix) / "bin" / Path(command[0]).name)
        with serving(command, environment, tmp_path) as url:
            assert httpx.get(f"{url}/readyz", trust_env=False).json()["ready"] is True
    assert (tmp_path / "state" / "log.db").exists()


def test_a_bad_policy_ends_the_unit_for_good(tmp_path: Path) -> None:
    """With the status for which it is not started again."""
    bad = tmp_path / "policies.yaml"
    bad.write_text("modes: 7\n", encoding="utf-8")
    environment = {
        "MODEGATE_POLICIES": str(bad),
        "MODEGATE_STATE_DIR": str(tmp_path),
        "MODEGATE_PORT": str(free_port()),
    }
    command = [str(Path(sys.prefix) / "bin" / "modegate"), "serve"]
    done = subprocess.run(command, env=environment, capture_output=True)
    assert [str(done.returncode)] == directive("RestartPreventExitStatus")


# nginx.


def test_nginx_takes_the_configuration(tmp_path: Path) -> None:
    command = configure(tmp_path, (1, 2), (3, 4), (free_port(), free_port()))
    done = subprocess.run([*command, "-t"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "warn" not in done.stderr


async def test_agents_pass_nginx_as_they_are(tmp_path: Path) -> None:
    """Path, odd headers and body reach the proxy unchanged; large heads and each chunk come back at once."""
    large = [(f"X-Large-{number}", "v" * 4000) for number in range(5)]
    async with RawUpstream() as proxy:
        with nginx(tmp_path / "nginx", (proxy.port,) * 2, (proxy.port,) * 2) as front:
            async with client() as http:
                url = f"{front.agents}/s/a%2Fb//v1/x?q=%20"
                proxy.enqueue(whole(b"{}", headers=large))
                odd = {"x_under_score": "1", "x.dotted": "2"}
                answer = await http.post(url, content=b"abc", headers=odd)
                assert answer.headers["x-large-4"] == "v" * 4000
                received = proxy.requests[-1]
                assert received.target == b"/s/a%2Fb//v1/x?q=%20"
                assert received.body == b"abc"
                assert received.header("x_under_score") == [b"1"]
                assert received.header("x.dotted") == [b"2"]
                assert received.header("host") == [front.agents.removeprefix("http://").encode()]
                for path in ("control/v1/sessions", "acp", "//metrics", "%6Detrics"):
                    assert (await http.get(f"{front.agents}/{path}")).status_code == 404, path
                assert len(proxy.requests) == 1


async def test_nginx_hands_on_a_stream_as_it_comes(tmp_path: Path) -> None:
    more = asyncio.Event()
    async with RawUpstream(chunked(b"data: 1\n\n", more, b"data: 2\n\n")) as proxy:
        with nginx(tmp_path / "nginx", (proxy.port,) * 2, (proxy.port,) * 2) as front:
            async with client() as http, http.stream("POST", f"{front.agents}/v1/x") as answer:
                parts = answer.aiter_raw()
                assert await anext(parts) == b"data: 1\n\n"
                more.set()
                assert b"".join([part async for part in parts]) == b"data: 2\n\n"


async def test_nginx_asks_for_the_upgrade_that_is_refused(tmp_path: Path) -> None:
    """So that Codex is told at once, as without nginx."""
    upgrade = {"connection": "Upgrade", "upgrade": "websocket"}
    async with RawUpstream([head(426, [("Content-Length", "0")])]) as proxy:
        with nginx(tmp_path / "nginx", (proxy.port,) * 2, (proxy.port,) * 2) as front:
            async with client() as http:
                answer = await http.get(f"{front.agents}/s/s/v1/responses", headers=upgrade)
                assert answer.status_code == 426
                assert proxy.requests[-1].header("upgrade") == [b"websocket"]
                await http.get(f"{front.agents}/s/s/v1/models")
                assert proxy.requests[-1].header("upgrade") == []


async def test_nginx_goes_on_with_the_proxy_that_is_there(tmp_path: Path) -> None:
    async with RawUpstream() as proxy:
        ports = (free_port(), proxy.port)
        with nginx(tmp_path / "nginx", ports, ports) as front:
            async with client() as http:
                for _ in range(6):
                    answer = await http.post(f"{front.agents}/v1/x", content=b"abc")
                    assert answer.status_code == 200
        assert [request.body for request in proxy.requests] == [b"abc"] * 6


# Redis.


@contextmanager
def shipped_redis(tmp_path: Path) -> Iterator[int]:
    """Run Redis with the shipped configuration and users, but for places and the password."""
    port = free_port()
    users = tmp_path / "users.acl"
    users.write_text(
        acl().replace("user default on nopass ~* &* +@all", "user default off"), encoding="utf-8"
    )
    conf = text("redis/redis.conf")
    for line, ours in (
        ("bind 0.0.0.0", "bind 127.0.0.1"),
        ("port 6379", f"port {port}"),
        ("dir /data", f"dir {tmp_path}"),
        ("aclfile /usr/local/etc/redis/users.acl", f"aclfile {users}"),
    ):
        assert re.search(f"^{line}$", conf, re.MULTILINE), line
        conf = conf.replace(line, ours)
    (tmp_path / "redis.conf").write_text(conf, encoding="utf-8")
    binary = shutil.which("redis-server")
    assert binary
    command = [binary, str(tmp_path / "redis.conf")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as started:
        try:
            listens(port, started)
            yield port
        finally:
            started.kill()


@pytest.fixture
def redis_port(tmp_path: Path) -> Iterator[int]:
    with shipped_redis(tmp_path) as port:
        yield port


def test_redis_is_well_by_the_check_of_compose(redis_port: int) -> None:
    """It logs in nobody without a password."""
    ping = ["redis-cli", "-p", str(redis_port), "ping"]
    assert "NOAUTH" in subprocess.run(ping, capture_output=True, text=True).stdout


async def test_redis_logs_modegate_in_and_writes_to_disk(redis_port: int, tmp_path: Path) -> None:
    log = open_log(f"redis://modegate:{PASSWORD}@127.0.0.1:{redis_port}/0")
    try:
        await log.ping()
    finally:
        await log.close()
    assert (tmp_path / "appendonlydir").is_dir()


def admin(port: int, *words: str, user: str = "modegate-admin") -> str:
    """Return what redis-cli prints as this user."""
    command = ["redis-cli", "-p", str(port), "--user", user, "--no-auth-warning", *words]
    environment = {**os.environ, "REDISCLI_AUTH": PASSWORD}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    return done.stdout + done.stderr


OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
TOLD = [
    ("BGREWRITEAOF", ("BGREWRITEAOF",)),
    (
        "CONFIG SET auto-aof-rewrite-percentage 0",
        ("CONFIG", "SET", "auto-aof-rewrite-percentage", "0"),
    ),
    ("BGSAVE", ("BGSAVE", "SCHEDULE")),
]


@pytest.mark.parametrize(("words", "command"), TOLD, ids=[words for words, _ in TOLD])
def test_o7_the_admin_of_redis_may_do_what_the_docs_tell(
    redis_port: int, words: str, command: tuple[str, ...]
) -> None:
    assert f"`{words}`" in OPERATIONS
    assert "NOPERM" in admin(redis_port, *command, user="modegate")
    said_ = admin(redis_port, *command)
    assert said_.startswith(("OK", "Background")), said_


async def test_o7_a_session_is_deleted_as_the_docs_tell(redis_port: int) -> None:
    """All of it, and nothing of the session beside it."""
    log = open_log(f"redis://modegate:{PASSWORD}@127.0.0.1:{redis_port}/0")
    gone, stays = key_of("my-session"), key_of("my-session-2")
    try:
        for key in (gone, stays):
            await log.append(key, [mode_set("plan")])
            await log.put_blob(key, "ref", b"body", 10_000)
            await log.touch([Seen(key, "agent/1", "path", 1)])
        (block,) = re.findall(r"```sh\n(export session=.*?)```", OPERATIONS, re.DOTALL)
        script = block.replace("=PASSWORD", f"={PASSWORD}").replace(
            "redis-cli", f"redis-cli -p {redis_port}"
        )
        shell = await asyncio.create_subprocess_exec(
            "bash", "-euo", "pipefail", "-c", script, stdout=subprocess.DEVNULL
        )
        assert await shell.wait() == 0
        keys = admin(redis_port, "--scan", "--pattern", "modegate:{local/*").split()
        assert keys
        assert all("{local/my-session-2}" in key for key in keys)
        rows = (await log.sessions(LOCAL, None, 10)).rows
        assert [row.key for row in rows] == [stays]
    finally:
        await log.close()


@pytest.mark.parametrize(
    "command",
    [("FLUSHALL",), ("XADD", "modegate:{local/s}:events", "*", "e", "x"), ("EVAL", "return 1", "0"),
     ("GET", "other"), ("SET", "modegate:x", "1"), ("ACL", "LIST"), ("SHUTDOWN",)],
    ids=lambda words: words[0],
)  # fmt: skip
@pytest.mark.parametrize("user", ["modegate-admin", "modegate-exporter"])
def test_o7_neither_may_write_a_log_or_more(
    redis_port: int, user: str, command: tuple[str, ...]
) -> None:
    assert "NOPERM" in admin(redis_port, *command, user=user)


def test_o7_an_exporter_sees_numbers_and_no_key(redis_port: int) -> None:
    user = "modegate-exporter"
    assert "used_memory:" in admin(redis_port, "INFO", user=user)
    for command in (("SCAN", "0"), ("XRANGE", "modegate:{feed}", "-", "+"), ("CONFIG", "GET", "*")):
        assert "NOPERM" in admin(redis_port, *command, user=user)

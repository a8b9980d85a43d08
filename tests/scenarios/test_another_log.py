"""A log that is empty, another one or has lost a part opens no gate: every step waits for an operator."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from modegate.scripted.model import Turn
from support.beginnings import admin
from support.faults import ENDED, PATHS, TEXT, WRITE, Sight, answering, ask, asked
from support.raw_upstream import RawUpstream
from support.redis_server import RedisServer, redis_server
from support.running import (
    TOKEN,
    Running,
    client,
    exchange,
    post,
    process,
    running,
)
from support.speeches import SPEECHES
from support.stores import key_of

SPEECH = SPEECHES[0]
DENIED = answering(SPEECH, Turn(TEXT, calls=(WRITE,)), ENDED["with its length"], part=False)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    (tmp_path / "redis").mkdir()
    with redis_server(tmp_path / "redis", "--appendonly", "yes") as server:
        yield server


async def ready(proxy: Running) -> httpx.Response:
    async with client() as http:
        return await http.get(f"{proxy.url}/readyz")


async def refused(proxy: Running, session: str = "s") -> None:
    """Check that a step is refused in words that say what to do, and that the proxy is not ready."""
    sight = await ask(proxy, SPEECH, session)
    assert (sight.status, sight.leaks) == (503, False)
    assert b"modegate log adopt" in sight.body
    probe = await ready(proxy)
    assert (probe.status_code, probe.json()["ready"]) == (503, False)
    assert "modegate log adopt" in probe.json()["log"]
    setting = await proxy.control("PUT", "/sessions/s/mode", json={"mode": "default"})
    assert (setting.status_code, setting.json()["error"]["code"]) == (503, "another_log")


async def adopt(proxy: Running, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "modegate", "log", "adopt", "--url", proxy.url, *more]
    return await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, stdin=subprocess.DEVNULL,
        env={"MODEGATE_CONTROL_TOKEN": TOKEN, "PATH": "/usr/bin:/bin"},
    )  # fmt: skip


def remove(folder: Path) -> None:
    """Delete a SQLite log."""
    for file in folder.glob("log.db*"):
        file.unlink()


async def held(proxy: Running, session: str = "s") -> Sight:
    sight = await ask(proxy, SPEECH, session)
    assert (sight.status, sight.leaks) == (200, False)
    return sight


async def test_o1_an_empty_redis_where_there_was_another(
    tmp_path: Path, server: RedisServer
) -> None:
    """While the proxy runs and after its restart; then a person decides, and all replicas go on."""
    async with RawUpstream(DENIED) as up:
        async with running(tmp_path, up.base_url, log=server.url) as proxy:
            await proxy.set_mode("plan")
            await held(proxy)
            await admin(server, "FLUSHALL")
            await refused(proxy)
            await refused(proxy, "never-seen")
        (tmp_path / "other").mkdir()
        shutil.copytree(tmp_path / "state", tmp_path / "other" / "state")
        before = len(up.requests)
        async with (
            running(tmp_path, up.base_url, log=server.url) as proxy,
            running(tmp_path / "other", up.base_url, log=server.url) as replica,
        ):
            for one in (proxy, replica):
                await refused(one)
            assert len(up.requests) == before
            asked = await adopt(proxy)
            assert asked.returncode != 0, "it asks, and nobody answered"
            await refused(proxy)
            done = await adopt(proxy, "--yes")
            assert done.returncode == 0, done.stderr
            assert done.stdout.startswith("adopted ")
            for one in (proxy, replica):
                assert (await ask(one, SPEECH, "s")).status == 200
                assert (await ready(one)).status_code == 200
            await replica.set_mode("plan")
            await held(proxy)
        async with running(tmp_path, up.base_url, log=server.url) as proxy:
            await held(proxy)


async def test_o1_a_sqlite_file_that_was_deleted_between_runs(tmp_path: Path) -> None:
    async with RawUpstream(DENIED) as up:
        async with running(tmp_path, up.base_url) as proxy:
            await proxy.set_mode("plan")
        remove(tmp_path / "state")
        async with running(tmp_path, up.base_url) as proxy:
            await refused(proxy)
            assert (await adopt(proxy, "--yes")).returncode == 0
            assert (await ask(proxy, SPEECH, "s")).status == 200
        async with running(tmp_path, up.base_url) as proxy:
            assert (await ask(proxy, SPEECH, "s")).status == 200


async def test_o1_a_sqlite_file_that_was_deleted_while_it_runs(tmp_path: Path) -> None:
    async with RawUpstream(DENIED) as up, running(tmp_path, up.base_url) as proxy:
        await proxy.set_mode("plan")
        (tmp_path / "state" / "log.db").unlink()
        sight = await ask(proxy, SPEECH, "s")
        assert (sight.status, sight.leaks) == (503, False)
        assert b"restart modegate" in sight.body
        assert (await ready(proxy)).status_code == 503
        assert up.requests == []


async def test_o1_another_log_by_a_setting(tmp_path: Path, server: RedisServer) -> None:
    """A process without a state folder is told by a setting which log it must be."""
    async with RawUpstream(DENIED) as up:
        async with running(tmp_path, up.base_url, log=server.url) as proxy:
            await proxy.set_mode("plan")
        identity = (tmp_path / "state" / "log-id").read_text().strip()
        shutil.rmtree(tmp_path / "state")
        async with running(tmp_path, up.base_url, log=server.url, log_id=identity) as proxy:
            await held(proxy)
        async with running(tmp_path, up.base_url, log=server.url, log_id="of-another") as proxy:
            await refused(proxy)
            done = await adopt(proxy, "--yes")
            assert done.returncode != 0
            assert "MODEGATE_LOG_ID" in done.stderr
        await admin(server, "FLUSHALL")
        async with running(tmp_path, up.base_url, log=server.url, log_id=identity) as proxy:
            await refused(proxy)
            assert (await adopt(proxy, "--yes")).returncode == 0
            assert (await ask(proxy, SPEECH, "s")).status == 200
        assert not (tmp_path / "state" / "log-id").exists()


async def test_o1_a_redis_that_starts_empty_beside_its_dump(tmp_path: Path) -> None:
    """`dump.rdb` with `appendonly yes` is not read; as the documentation says, it is."""
    folder = tmp_path / "redis"
    folder.mkdir()
    async with RawUpstream(DENIED) as up:
        with redis_server(folder) as server:
            async with running(tmp_path, up.base_url, log=server.url) as proxy:
                await proxy.set_mode("plan")
            await admin(server, "SAVE")
            port = server.port
        with redis_server(folder, "--appendonly", "yes", port=port) as server:
            async with running(tmp_path, up.base_url, log=server.url) as proxy:
                await refused(proxy)
        shutil.rmtree(folder / "appendonlydir")
        # What docs/operations.md says.
        with redis_server(folder, "--appendonly", "no", port=port) as server:
            await admin(server, "CONFIG", "SET", "appendonly", "yes")
            while (await admin(server, "INFO", "persistence"))["aof_rewrite_in_progress"]:
                pass
        with redis_server(folder, "--appendonly", "yes", port=port) as server:
            async with running(tmp_path, up.base_url, log=server.url) as proxy:
                await held(proxy)


async def test_o1_workers_share_what_was_adopted(tmp_path: Path) -> None:
    """Processes of one state folder need one word of the operator."""
    async with RawUpstream(DENIED) as up:
        async with running(tmp_path, up.base_url) as proxy:
            await proxy.set_mode("plan")
        remove(tmp_path / "state")
        async with running(tmp_path, up.base_url) as one, running(tmp_path, up.base_url) as other:
            for proxy in (one, other):
                await refused(proxy)
            assert (await adopt(one, "--yes")).returncode == 0
            for proxy in (one, other):
                assert (await ask(proxy, SPEECH, "s")).status == 200


@pytest.mark.parametrize(
    "lost",
    [
        ("modegate:{local/s}:events",),
        ("modegate:{local/s}:events", "modegate:{local}:ends"),
        ("modegate:{local/s}:events", "modegate:{local}:ends", "modegate:{local}:times"),
        ("modegate:{local}:ends",),
        ("modegate:{feed}:store",),
        ("modegate:{local/s}:events", "modegate:{local}:ends", "modegate:{feed}"),
        ("modegate:{local/s}:events", "modegate:{local}:ends", "modegate:{feed}:store"),
    ],
    ids=lambda keys: " ".join(key.rpartition(":")[2] for key in keys),
)
@pytest.mark.parametrize("cold", [True, False])
async def test_s4_keys_that_redis_evicted(
    tmp_path: Path, server: RedisServer, lost: tuple[str, ...], cold: bool
) -> None:
    """Whatever else is left, the session is not in default, for a process that just started either."""
    async with RawUpstream(DENIED) as up:
        async with running(tmp_path, up.base_url, log=server.url) as proxy:
            await proxy.set_mode("plan")
            await proxy.set_mode("review", "another")
            if not cold:
                await admin(server, "DEL", *lost)
                assert not (await ask(proxy, SPEECH, "s")).leaks
        if cold:
            await admin(server, "DEL", *lost)
        async with running(tmp_path, up.base_url, log=server.url) as proxy:
            sight = await ask(proxy, SPEECH, "s")
            assert not sight.leaks
            assert sight.status in (400, 503)
            assert (await ready(proxy)).status_code == (200 if sight.status == 400 else 503)


@pytest.mark.parametrize(
    "lost",
    [
        ("modegate:{feed}:store",),
        ("modegate:{feed}:store", "modegate:{local/s}:events", "modegate:{local}:ends"),
        ("modegate:{feed}:store", "modegate:{local/s}:events", "modegate:{feed}"),
    ],
    ids=lambda keys: " ".join(key.rpartition(":")[2] for key in keys),
)
async def test_s4_a_process_that_knows_nothing_takes_no_remains_for_a_new_store(
    tmp_path: Path, server: RedisServer, lost: tuple[str, ...]
) -> None:
    """Without a state folder: something is there that only a store with an identity has."""
    async with RawUpstream(DENIED) as up:
        async with running(tmp_path, up.base_url, log=server.url) as proxy:
            await proxy.set_mode("review", "another")
            await proxy.set_mode("plan")
        await admin(server, "DEL", *lost)
        shutil.rmtree(tmp_path / "state")
        async with running(tmp_path, up.base_url, log=server.url) as proxy:
            await refused(proxy)
            assert (await adopt(proxy, "--yes")).returncode == 0
            assert (await ask(proxy, SPEECH, "never-seen")).status == 200


async def test_a_store_of_an_older_version_gets_an_identity(
    tmp_path: Path, server: RedisServer
) -> None:
    """It has events and no identity, and nothing is lost."""
    async with RawUpstream(DENIED) as up:
        async with running(tmp_path, up.base_url, log=server.url) as proxy:
            await proxy.set_mode("plan")
        await admin(server, "DEL", "modegate:{feed}:store")
        await admin(server, "ZREM", "modegate:{local}:ends", "")
        shutil.rmtree(tmp_path / "state")
        async with running(tmp_path, up.base_url, log=server.url) as proxy:
            await held(proxy)
            assert (await ready(proxy)).status_code == 200


async def test_s4_the_set_of_an_agents_derived_sessions(
    tmp_path: Path, server: RedisServer
) -> None:
    """Without it a session that compacts would not find its kin: the log has lost a part."""
    async with RawUpstream(DENIED) as up, running(tmp_path, up.base_url, log=server.url) as proxy:

        async def unnamed(words: str) -> Sight:
            body = asked(SPEECH).replace(b"rename foo", words.encode())
            raw = post(f"/v1{PATHS[SPEECH.name]}", body, "User-Agent: cli/1")
            return Sight.of(await exchange(proxy.port, raw))

        assert (await unnamed("one")).leaks
        assert proxy.composed
        await proxy.composed.services.batch_writer.flush()
        row = (await proxy.control("GET", "/sessions")).json()["sessions"][0]
        await proxy.set_mode("plan", row["id"])
        assert not (await unnamed("two")).leaks
        for key in await admin(server, "KEYS", "modegate:{local}:derived:*"):
            await admin(server, "DEL", key)
        sight = await unnamed("three")
        assert (sight.status, sight.leaks) == (503, False)


@pytest.mark.parametrize("table", ["events, sessions", "events, sessions, feed"])
async def test_s4_rows_that_somebody_deleted(tmp_path: Path, table: str) -> None:
    """What is left of a session in the file is proof that there was more."""
    async with RawUpstream(DENIED) as up:
        async with running(tmp_path, up.base_url) as proxy:
            await proxy.set_mode("plan")
            assert proxy.composed
            await proxy.composed.services.log.put_blob(key_of("s"), "ref", b"body", 60_000)
        with sqlite3.connect(tmp_path / "state" / "log.db") as db:
            for name in table.split(", "):
                column = "session" if name == "sessions" else "key"
                db.execute(f"delete from {name} where {column} in ('s', 'local/s')")
        db.close()
        async with running(tmp_path, up.base_url) as proxy:
            sight = await ask(proxy, SPEECH, "s")
            assert (sight.status, sight.leaks) == (400, False)


async def test_s4_a_redis_that_evicts_is_warned_of(tmp_path: Path, server: RedisServer) -> None:
    """On `/readyz` and at the start; not where the user of Redis may not ask."""
    await admin(server, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    async with RawUpstream() as up:
        with process(tmp_path, up.base_url, log=server.url) as made:
            assert "allkeys-lru" in (await ready(made.running)).json()["warning"]
            await admin(server, "ACL", "SETUSER", "modegate", "-info")
            assert "warning" not in (await ready(made.running)).json()
            await admin(server, "CONFIG", "SET", "maxmemory-policy", "noeviction")
            await admin(server, "ACL", "SETUSER", "modegate", "+info")
            assert "warning" not in (await ready(made.running)).json()
            made.process.terminate()
            assert made.process.stderr
            told = await asyncio.to_thread(made.process.stderr.read)
    assert b"maxmemory-policy allkeys-lru" in told


async def test_s9_the_words_of_redis_are_for_the_operator(
    tmp_path: Path, server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with RawUpstream() as up, running(tmp_path, up.base_url, log=server.url) as proxy:
        server.kill()
        sight = await ask(proxy, SPEECH, "s")
        probe = await ready(proxy)
    assert sight.status == probe.status_code == 503
    for shown in (sight.body, probe.content):
        assert b"127.0.0.1" not in shown
        assert str(server.port).encode() not in shown
        assert b"Connection" not in shown
    assert str(server.port) in caplog.text


@pytest.mark.parametrize("kind", ["embedded", "redis"])
async def test_o1_an_older_copy_of_the_same_log(tmp_path: Path, kind: str) -> None:
    """It is told by where it ends, since what it is called is the same."""
    folder = tmp_path / "redis"
    folder.mkdir()
    file, copy = tmp_path / "log.db", tmp_path / "copy.db"
    with redis_server(folder) as server:
        log = server.url if kind == "redis" else f"sqlite:{file}"
        async with RawUpstream(DENIED) as up:
            async with running(tmp_path, up.base_url, log=log) as proxy:
                await proxy.set_mode("review", "before")
                if kind == "redis":
                    await admin(server, "SAVE")
                else:
                    with closing(sqlite3.connect(file)) as db, closing(sqlite3.connect(copy)) as to:
                        db.backup(to)
                await proxy.set_mode("plan")
                await held(proxy)
            async with running(tmp_path, up.base_url, log=log) as proxy:
                await held(proxy)  # a restart alone is none of it
            if kind == "redis":
                server.kill()
                server.start()
            else:
                remove(tmp_path)
                shutil.copy(copy, file)
            async with running(tmp_path, up.base_url, log=log) as proxy:
                await refused(proxy)
                assert "older copy" in (await ready(proxy)).json()["log"]
                assert (await adopt(proxy, "--yes")).returncode == 0
                assert (await ask(proxy, SPEECH, "s")).status == 200
            async with running(tmp_path, up.base_url, log=log) as proxy:
                assert (await ask(proxy, SPEECH, "s")).status == 200

"""The log in a Redis as operators run it: TLS, least rights, Sentinels, a failover that loses events."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from modegate.core.errors import AnotherLog, LogUnavailable, SessionUnreadable
from modegate.core.ids import ModeId, Seq
from modegate.server.clock import SystemClock
from modegate.server.log.folds import Folds
from modegate.server.log.open import open_log
from modegate.server.log.protocol import EventLog
from support.redis_server import PASSWORD, RedisServer, free_port, redis_server
from support.sentinel import Cluster, ask, cluster
from support.stores import key_of, mode_set
from support.waiting import PATIENCE

S = key_of("s")
PLAN = ModeId("plan")


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path) as running:
        yield running


@pytest.fixture
async def log(three: Cluster) -> AsyncIterator[EventLog]:
    log = open_log(three.url)
    yield log
    await log.close()


async def mode_after_failover(folds: Folds) -> ModeId:
    """Read strictly until the new master is found; each refusal in between is one of the log."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(LogUnavailable):
                return (await folds.state(S)).mode
            await asyncio.sleep(0.02)  # a connection that is refused ends at once


async def test_a_failover_keeps_the_mode(three: Cluster, log: EventLog) -> None:
    """Sentinels are asked for the master again; nothing needs to be restarted."""
    folds = Folds(log, SystemClock())
    await folds.set_mode(S, PLAN, "person:cli")
    ask(three.master.port, "WAIT", "1", "5000")
    three.fail_over()
    assert await mode_after_failover(folds) == PLAN
    assert await log.append(S, [mode_set("default")], expect=Seq(1)) == 2
    assert (await folds.state(S)).mode == "default"


async def test_b140_a_failover_that_lost_what_was_acknowledged_is_noticed(
    three: Cluster, log: EventLog
) -> None:
    """The session is refused, never forgotten: its mode is not known any more."""
    folds = Folds(log, SystemClock())
    await folds.set_mode(S, PLAN, "person:cli")
    ask(three.master.port, "WAIT", "1", "5000")
    ask(three.replica.port, "REPLICAOF", "127.0.0.1", "1")  # cut off, while the master goes on
    await folds.append(S, [mode_set("default"), mode_set("plan")])
    three.fail_over()
    with pytest.raises(SessionUnreadable, match="ended at 3 and now ends at 1"):
        await mode_after_failover(folds)


async def test_sentinels_that_do_not_answer() -> None:
    """It is the log that cannot be reached, as with any other."""
    log = open_log(f"redis+sentinel://127.0.0.1:{free_port()}/it")
    with pytest.raises(LogUnavailable):
        await log.ping()
    await log.close()


@pytest.mark.parametrize("url", [
    "redis+sentinel://127.0.0.1", "redis+sentinel:///it", "redis+sentinel://h:x/it",
    "redis+sentinel://h/it/zero", "redis+sentinel://h/it?sentinel_pasword=x", "redis+sentinel://h,/it",
])  # fmt: skip
def test_a_url_that_names_nothing(url: str) -> None:
    """Said at the start, without what may be a secret."""
    with pytest.raises(ValueError, match=r"^log: "):
        open_log(url.replace("//", "//me:hush@"))
    with pytest.raises(ValueError) as caught:  # noqa: PT011 -- whatever is wrong
        open_log(url.replace("//", "//me:hush@"))
    assert "hush" not in str(caught.value)


# TLS.


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a certificate for 127.0.0.1, signed by itself."""
    folder = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
               "-nodes", "-days", "2", "-subj", "/CN=redis", "-addext", "subjectAltName=IP:127.0.0.1",
               "-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture
def tls_server(tmp_path: Path, authority: Path) -> Iterator[tuple[RedisServer, int]]:
    port = free_port()
    files = (
        "--tls-cert-file",
        str(authority / "cert.pem"),
        "--tls-key-file",
        str(authority / "key.pem"),
    )
    with redis_server(
        tmp_path, "--tls-port", str(port), "--tls-auth-clients", "no", *files
    ) as server:
        yield server, port


async def test_tls(tls_server: tuple[RedisServer, int], authority: Path) -> None:
    """With the certificate of whoever signed the server's; user and password travel inside."""
    _, port = tls_server
    options = f"?ssl_ca_certs={authority / 'cert.pem'}"
    log = open_log(f"rediss://modegate:{PASSWORD}@127.0.0.1:{port}/0{options}")
    assert await log.append(S, [mode_set("plan")], expect=Seq(0)) == 1
    assert len(await log.read(S)) == 1
    await log.close()


async def test_a_certificate_that_nobody_vouches_for(
    tls_server: tuple[RedisServer, int], caplog: pytest.LogCaptureFixture
) -> None:
    """The log is not reached; the operator reads why, and clients do not."""
    _, port = tls_server
    log = open_log(f"rediss://modegate:{PASSWORD}@127.0.0.1:{port}/0")
    with pytest.raises(LogUnavailable) as caught:
        await log.ping()
    assert "certificate" not in str(caught.value)
    assert "certificate" in caplog.text.lower()
    await log.close()
    assert ssl.HAS_TLSv1_3


# Who may do what.


@pytest.mark.parametrize("command", [
    ("FLUSHALL",), ("CONFIG", "GET", "*"), ("KEYS", "*"), ("GET", "other"), ("DEL", "modegate:{feed}"),
    ("XTRIM", "modegate:{feed}", "MAXLEN", "0"), ("SET", "elsewhere", "1"), ("SHUTDOWN",), ("ACL", "LIST"),
    ("MONITOR",), ("PUBLISH", "c", "m"), ("REPLICAOF", "NO", "ONE"),
], ids=lambda command: "-".join(command[:2]))  # fmt: skip
def test_the_shipped_user_may_do_no_more_than_it_must(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    """Every other test of the log runs as this user, which shows that its rights are enough."""
    with redis_server(tmp_path) as server:
        login = ask(server.port, "AUTH", "modegate", PASSWORD)
        assert login == b"+OK\r\n"
        assert b"NOPERM" in _as_modegate(server, command)


def _as_modegate(server: RedisServer, command: tuple[str, ...]) -> bytes:
    client = [
        "redis-cli",
        "-p",
        str(server.port),
        "--user",
        "modegate",
        "--pass",
        PASSWORD,
        "--no-auth-warning",
    ]
    return subprocess.run([*client, *command], check=False, capture_output=True).stdout


# A server that comes back.


async def test_a_restart_without_persistence_is_noticed(tmp_path: Path) -> None:
    """All is gone, what the store was called too: nothing is known of any session."""
    with redis_server(tmp_path) as server:
        log = open_log(server.url)
        folds = Folds(log, SystemClock())
        await folds.set_mode(S, PLAN, "person:cli")
        assert (await folds.state(S)).mode == PLAN
        server.kill()
        server.start()
        with pytest.raises(AnotherLog, match="modegate log adopt"):
            await folds.state(S)
        with pytest.raises(AnotherLog):
            await folds.state(key_of("another"))
        await log.close()


async def test_a_server_that_is_paused_refuses_and_then_goes_on(tmp_path: Path) -> None:
    """As an operator does for a failover by hand: writes wait, and what waits too long is refused."""
    with redis_server(tmp_path) as server:
        log = open_log(server.url)
        folds = Folds(log, SystemClock())
        await folds.set_mode(S, PLAN, "person:cli")
        ask(server.port, "CLIENT", "PAUSE", "60000", "WRITE")
        with pytest.raises(LogUnavailable):
            await folds.append(S, [mode_set("default")], expect=Seq(1))
        ask(server.port, "CLIENT", "UNPAUSE")
        # Whether it landed is the server's to say; what is read is the truth.
        assert (await mode_after_failover(folds)) in ("plan", "default")
        assert await log.append(S, [mode_set("plan")]) > 1
        await log.close()

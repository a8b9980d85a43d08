"""A session begins where the policy says: requests at once, clients that hang up, stores that are full."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from modegate.scripted.model import Turn
from modegate.server.log.protocol import EventLog
from support.beginnings import admin, disk_full, fill, free
from support.faults import ENDED, PATHS, READ, TEXT, WRITE, Sight, answering, ask, asked, heard
from support.raw_upstream import RawUpstream
from support.redis_server import RedisServer, redis_server
from support.running import (
    POLICIES,
    Running,
    client,
    exchange,
    policies_file,
    post,
    process,
    running,
)
from support.speech import Speech
from support.speeches import SPEECHES

PLAN = POLICIES + "sessions: {initial_mode: plan}\n"
forms = pytest.mark.parametrize("speech", SPEECHES, ids=str)
DENIED = Turn(TEXT, calls=(WRITE,))
ROUNDS = 5
AT_ONCE = 4


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Run a server for all tests of this file."""
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(params=["embedded", "redis"])
def server(request: pytest.FixtureRequest) -> RedisServer | None:
    """Return the server of Redis, or None for the embedded store."""
    if request.param == "embedded":
        return None
    server: RedisServer = request.getfixturevalue("redis")
    return server


_names = count()


def fresh() -> str:
    """Return the id of a session that no test has used."""
    return f"s{next(_names)}"


def place(folder: Path, server: RedisServer | None) -> str:
    """Return the URL of a store."""
    return server.url if server else f"sqlite:{folder / 'log.db'}"


@asynccontextmanager
async def proxies(
    folder: Path, log: str, up: RawUpstream, number: int = 1, policy: str = PLAN
) -> AsyncIterator[list[Running]]:
    """Run several proxies on one log."""
    policies = policies_file(folder, policy)
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                running(folder, up.base_url, policies=policies, log=log)
            )
            for _ in range(number)
        ]


def denied(up: RawUpstream, speech: Speech) -> None:
    """Let the model ask for a tool that plan does not have."""
    up.answer = answering(speech, DENIED, ENDED["with its length"], part=False)


def store_of(proxy: Running) -> EventLog:
    assert proxy.composed
    return proxy.composed.services.log


def unnamed(speech: Speech, words: str, agent: str = "cli/1") -> bytes:
    """Return a request of an agent that names no session."""
    body = asked(speech).replace(b"rename foo", words.encode())
    return post(f"/v1{PATHS[speech.name]}", body, f"User-Agent: {agent}")


@forms
@pytest.mark.parametrize("number", [1, 2])
async def test_s1_first_requests_at_once_all_begin_in_the_mode(
    tmp_path: Path, server: RedisServer | None, speech: Speech, number: int
) -> None:
    """Also where they come to different processes."""
    log = place(tmp_path, server)
    async with RawUpstream() as up, proxies(tmp_path, log, up, number) as made:
        denied(up, speech)
        for _ in range(ROUNDS):
            session = fresh()
            sights = await asyncio.gather(
                *(ask(made[n % number], speech, session) for n in range(AT_ONCE))
            )
            assert {sight.status for sight in sights} == {200}
            assert not any(sight.leaks for sight in sights)
            types = [event["type"] for event in await made[0].events(session)]
            assert types[:2] == ["session/open", "mode/set"]
            assert types.count("mode/set") == 1


async def test_s1_derived_siblings_at_once_all_begin_in_the_mode_of_their_kin(
    tmp_path: Path, server: RedisServer | None
) -> None:
    log = place(tmp_path, server)
    speech = SPEECHES[0]
    agent = f"agent-{server is None}/1"
    async with RawUpstream() as up, proxies(tmp_path, log, up, 2, POLICIES) as made:
        denied(up, speech)
        first = Sight.of(await exchange(made[0].port, unnamed(speech, agent, agent)))
        assert first.leaks
        composed = made[0].composed
        assert composed
        await composed.services.batch_writer.flush()
        row = (await made[0].control("GET", "/sessions")).json()["sessions"][0]
        await made[0].set_mode("plan", row["id"])
        for round_ in range(ROUNDS):
            raw = unnamed(speech, f"compacted {round_}", agent)
            sights = await asyncio.gather(
                *(exchange(made[n % 2].port, raw) for n in range(AT_ONCE))
            )
            assert not any(Sight.of(sight).leaks for sight in sights)


async def test_s1_workers_of_one_process(tmp_path: Path) -> None:
    """Real workers, over one file."""
    policies_file(tmp_path, PLAN)
    speech = SPEECHES[0]
    async with RawUpstream() as up:
        denied(up, speech)
        with process(tmp_path, up.base_url, "--workers", "2") as made:
            for _ in range(ROUNDS):
                session = fresh()
                sights = await asyncio.gather(
                    *(ask(made.running, speech, session) for _ in range(AT_ONCE))
                )
                assert {sight.status for sight in sights} == {200}
                assert not any(sight.leaks for sight in sights)


async def test_h1_a_client_that_hangs_up_while_its_session_is_opened(
    tmp_path: Path, server: RedisServer | None
) -> None:
    """At whatever turn of the loop it goes: the next request is held in the mode."""
    speech = SPEECHES[0]
    async with RawUpstream() as up, proxies(tmp_path, place(tmp_path, server), up) as (proxy,):
        denied(up, speech)
        for turns in range(0, 60, 2):
            session = fresh()
            _, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            writer.write(post(f"/s/{session}/v1{PATHS[speech.name]}", asked(speech)))
            for _ in range(turns):
                await asyncio.sleep(0)
            writer.transport.abort()
            for _ in range(turns):
                await asyncio.sleep(0)
            for _ in range(2):
                sight = await ask(proxy, speech, session)
                assert (sight.status, sight.leaks) == (200, False), turns


@forms
async def test_h1_a_full_store_opens_nothing(
    tmp_path: Path, server: RedisServer | None, speech: Speech
) -> None:
    """Refused while it is full, however often; in the mode once there is room, also after a restart."""
    log = place(tmp_path, server)
    session = fresh()
    async with RawUpstream() as up:
        denied(up, speech)
        async with proxies(tmp_path, log, up, 2) as made:
            await made[0].set_mode("review", fresh())  # the store has been written to before
            for one in made:
                await fill(store_of(one), server)
            try:
                for n in range(4):
                    sight = await ask(made[n % 2], speech, session)
                    assert (sight.status, sight.leaks) == (503, False), sight.body
            finally:
                for one in made:
                    await free(store_of(one), server)
            assert up.requests == []
        async with proxies(tmp_path, log, up, 2) as made:
            for one in made:
                sight = await ask(one, speech, session)
                assert (sight.status, sight.leaks) == (200, False)


async def test_h1_a_derived_session_that_could_not_be_opened_is_no_way_out(
    tmp_path: Path, server: RedisServer | None
) -> None:
    """Kin of a session in plan: refused while the store is full, then in plan."""
    log, speech = place(tmp_path, server), SPEECHES[0]
    agent = f"full-{server is None}/1"
    async with RawUpstream() as up, proxies(tmp_path, log, up, 1, POLICIES) as (proxy,):
        denied(up, speech)
        assert Sight.of(await exchange(proxy.port, unnamed(speech, agent, agent))).leaks
        assert proxy.composed
        await proxy.composed.services.batch_writer.flush()
        row = (await proxy.control("GET", "/sessions")).json()["sessions"][0]
        await proxy.set_mode("plan", row["id"])
        await fill(store_of(proxy), server)
        try:
            for _ in range(3):
                sight = Sight.of(await exchange(proxy.port, unnamed(speech, "two", agent)))
                assert (sight.status, sight.leaks) == (503, False)
        finally:
            await free(store_of(proxy), server)
        assert not Sight.of(await exchange(proxy.port, unnamed(speech, "two", agent))).leaks


async def test_what_was_seen_in_default_stays_in_default_when_the_policy_changes(
    tmp_path: Path, server: RedisServer | None
) -> None:
    """Also after a restart; what was never seen begins in the mode."""
    log, speech, session = place(tmp_path, server), SPEECHES[0], fresh()
    async with RawUpstream() as up:
        denied(up, speech)
        async with proxies(tmp_path, log, up, 1, POLICIES) as (proxy,):
            assert (await ask(proxy, speech, session)).leaks
        async with proxies(tmp_path, log, up, 2, PLAN) as made:
            for one in made:
                assert (await ask(one, speech, session)).leaks
                assert not (await ask(one, speech, fresh())).leaks
        assert json.loads(up.requests[0].body)["messages"]


@pytest.mark.parametrize("speech", [SPEECHES[0], SPEECHES[1]], ids=str)
async def test_o4_a_full_store_is_not_ready_and_says_which_steps_go_on(
    tmp_path: Path, server: RedisServer | None, speech: Speech
) -> None:
    """A disk that is really full, or a Redis: what docs/operations.md says of it, sentence by sentence."""
    policies_file(tmp_path, POLICIES)
    plain, held, new = fresh(), fresh(), fresh()
    released = answering(speech, Turn(TEXT, calls=(READ,)), ENDED["with its length"], part=False)

    async def ready(proxy: Running) -> int:
        async with client() as http:
            answer = await http.get(f"{proxy.url}/readyz")
            assert answer.json()["ready"] == (answer.status_code == 200)
            return answer.status_code

    async with RawUpstream(released) as up:
        with process(tmp_path, up.base_url, log=place(tmp_path, server)) as made:
            proxy, pid = made.running, made.process.pid
            await proxy.set_mode("plan", held)
            for session in (plain, held):
                assert (await ask(proxy, speech, session)).leaks
            assert await ready(proxy) == 200
            await full(server, pid, whether=True)
            try:
                assert await ready(proxy) == 503
                # Nothing is to be logged first.
                for session in (plain, new, held):
                    sight = await ask(proxy, speech, session)
                    assert (sight.status, sight.leaks) == (200, True)
                # Something is.
                denied(up, speech)
                sight = await ask(proxy, speech, held)
                assert not sight.leaks
                assert heard(speech, sight).error
                for session in (plain, held, new):
                    answer = await proxy.control(
                        "PUT", f"/sessions/{session}/mode", json={"mode": "review"}
                    )
                    assert answer.status_code == 503
                assert (await ask(proxy, speech, plain)).leaks
            finally:
                await full(server, pid, whether=False)
            assert await ready(proxy) == 200
            await proxy.set_mode("review", plain)
            assert not (await ask(proxy, speech, plain)).leaks


async def full(server: RedisServer | None, process: int, *, whether: bool) -> None:
    if server:
        await admin(server, "CONFIG", "SET", "maxmemory", "1" if whether else "0")
    else:
        disk_full(process, full=whether)

"""What happens when things fail, in each dialect, streamed and whole: design's table, row by row.

Upstreams that misbehave are in `test_upstreams_*`, the shutdown is in `test_drain`, and the policy file in
`test_failures`.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from modegate.core.step.answer.gate import Gate
from modegate.scripted.model import Turn
from modegate.server.upstream.http import HttpUpstream
from support.faults import (
    ENDED,
    PATHS,
    READ,
    SAID,
    TEXT,
    Sight,
    World,
    answering,
    ask,
    asked,
    heard,
    told,
    world,
)
from support.raw_upstream import Act, Piece, RawUpstream, chunk, head, whole
from support.redis_server import RedisServer
from support.running import TOKEN, exchange, policies_file, post, running
from support.speech import Speech
from support.speeches import SPEECHES

forms = pytest.mark.parametrize("speech", SPEECHES, ids=str)
modes = pytest.mark.parametrize("mode", ["default", "plan"])
ALLOWED = Turn(TEXT, calls=(READ,))


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Run all tests of this file in one loop, so that they share a proxy."""
    return "asyncio"


@pytest.fixture(scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """Yield the proxy and the upstream that all tests share."""
    async with world(tmp_path_factory.mktemp("world")) as made:
        yield made


# Refusals by policy


@forms
async def test_a_session_id_that_is_none_is_a_400(shared: World, speech: Speech) -> None:
    """Nothing goes upstream, and the client can show why."""
    before = len(shared.up.requests)
    sight = await ask(shared.patient, speech, "-no-name-")
    assert (sight.status, sight.ended) == (400, True)
    assert "session" in heard(speech, sight).error
    assert len(shared.up.requests) == before


async def test_a_mode_that_is_gone_is_a_400(tmp_path: Path) -> None:
    """It is named; the default mode takes its place nowhere."""
    async with RawUpstream() as up, running(tmp_path, up.base_url) as proxy:
        assert proxy.composed is not None
        await proxy.set_mode("plan")
        policies_file(tmp_path, "modes: {review: {section: x, tools: [read]}}\n")
        await proxy.composed.services.policies.poll(settle=0)
        for speech in SPEECHES:
            sight = await ask(proxy, speech, "s")
            assert (sight.status, sight.ended) == (400, True)
            assert "'plan'" in heard(speech, sight).error
    assert up.requests == []


UNGATED = {
    "chat": "/v1/completions",
    "messages": "/v1/messages/batches",
    "responses": "/v1/responses/r/x",
}


@forms
async def test_an_endpoint_that_cannot_be_gated_is_a_400(shared: World, speech: Speech) -> None:
    session = await shared.session("plan")
    raw = post(f"/s/{session}{UNGATED[speech.name]}", asked(speech))
    sight = Sight.of(await exchange(shared.patient.port, raw))
    assert (sight.status, sight.ended) == (400, True)
    assert "'plan'" in heard(speech, sight).error


# Frames that do not parse


@forms
async def test_what_does_not_parse_is_an_error_and_counted(shared: World, speech: Speech) -> None:
    """In the midst of a call: text that came before is out, the call is not."""

    def spoilt(body: bytes, line: tuple[str, str]) -> Sequence[Piece]:
        return whole(body + b'data: {"broken\n\n' if speech.streamed else body, headers=[line])

    before = await counted(shared, 'modegate_unparsable_total{what="answer"}')
    shared.up.enqueue(answering(speech, ALLOWED, spoilt, part=True))
    sight = await ask(shared.patient, speech, await shared.session("plan"))
    told(speech, sight)
    assert await counted(shared, 'modegate_unparsable_total{what="answer"}') == before + 1


async def counted(shared: World, what: str) -> float:
    """Read a counter of the patient proxy."""
    page = await shared.http.get(
        f"{shared.patient.url}/metrics", headers={"authorization": f"Bearer {TOKEN}"}
    )
    found = re.search(rf"^{re.escape(what)} (\S+)$", page.text, re.MULTILINE)
    return float(found[1]) if found else 0.0


# Limits


@forms
@modes
async def test_a_request_over_the_limit_is_a_413(shared: World, speech: Speech, mode: str) -> None:
    """It names the limit; told by the length, or found out while the body comes in chunks."""
    session = await shared.session(mode)
    body = asked(speech).replace(b"rename foo", b"x" * 30_000)
    path = f"/s/{session}/v1{PATHS[speech.name]}"
    top = f"POST {path} HTTP/1.1\r\nHost: p\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    before = len(shared.up.requests)
    for raw in (post(path, body), top.encode() + chunk(body) + b"0\r\n\r\n"):
        sight = Sight.of(await exchange(shared.hasty.port, raw))
        assert (sight.status, sight.ended) == (413, True)
        assert "limits.body" in heard(speech, sight).error
    assert len(shared.up.requests) == before


@forms
@modes
async def test_a_head_over_the_limit_is_a_413(shared: World, speech: Speech, mode: str) -> None:
    session = await shared.session(mode)
    before = len(shared.up.requests)
    path = f"/s/{session}/v1{PATHS[speech.name]}"
    raw = post(path, asked(speech), *["X: " + "y" * 1000] * 140)
    sight = Sight.of(await exchange(shared.patient.port, raw))
    assert (sight.status, sight.ended) == (413, True)
    assert "head of the request" in heard(speech, sight).error
    assert len(shared.up.requests) == before


@forms
async def test_json_that_is_too_deep_is_a_400(shared: World, speech: Speech) -> None:
    deep = b"[" * 3000 + b"]" * 3000
    body = asked(speech).replace(b'"rename foo"', deep)
    session = await shared.session("plan")
    raw = post(f"/s/{session}/v1{PATHS[speech.name]}", body)
    sight = Sight.of(await exchange(shared.patient.port, raw))
    assert (sight.status, sight.ended) == (400, True)
    assert heard(speech, sight).error


@forms
async def test_an_answer_over_the_limits_is_an_error(shared: World, speech: Speech) -> None:
    """A frame without end, or a body; what is held goes nowhere."""

    def endless(body: bytes, line: tuple[str, str]) -> Sequence[Piece]:
        more = b"data: " + b"x" * 5_000 if speech.streamed else b"x" * 30_000
        return [
            head(200, [line, ("Transfer-Encoding", "chunked")]) + chunk(body) + chunk(more),
            Act.HANG,
        ]

    shared.up.enqueue(answering(speech, ALLOWED, endless, part=True))
    sight = await ask(shared.hasty, speech, await shared.session("plan"))
    assert "limits." in told(speech, sight, status=413)


# Clients that go away


@pytest.mark.parametrize("speech", [one for one in SPEECHES if one.streamed], ids=str)
@modes
async def test_b110_a_client_that_leaves_a_stream_ends_the_upstream(
    shared: World, speech: Speech, mode: str
) -> None:
    """At once, also while a call is held; nothing was decided, and the mode stays."""
    session = await shared.session(mode)

    def hanging(body: bytes, line: tuple[str, str]) -> Sequence[Piece]:
        return [head(200, [line, ("Transfer-Encoding", "chunked")]) + chunk(body), Act.HANG]

    shared.up.enqueue(answering(speech, ALLOWED, hanging, part=True))
    before = len(shared.up.requests)
    reader, writer = await asyncio.open_connection("127.0.0.1", shared.patient.port)
    writer.write(post(f"/s/{session}/v1{PATHS[speech.name]}", asked(speech)))
    await reader.readuntil(SAID)
    writer.close()
    await shared.up.gone((await shared.up.received(before + 1)).connection)
    types = [event["type"] for event in await shared.patient.events(session)]
    assert types.count("mode/set") == (mode == "plan")
    assert not {"call/judged", "turn/withheld"} & set(types)


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
@modes
async def test_b110_a_client_that_leaves_before_the_answer_ends_the_upstream(
    shared: World, speech: Speech, mode: str
) -> None:
    session = await shared.session(mode)
    shared.up.enqueue([Act.HANG])
    before = len(shared.up.requests)
    _, writer = await asyncio.open_connection("127.0.0.1", shared.patient.port)
    writer.write(post(f"/s/{session}/v1{PATHS[speech.name]}", asked(speech)))
    received = await shared.up.received(before + 1)
    writer.close()
    await shared.up.gone(received.connection)


# The log


async def test_without_the_log_every_step_is_a_503(tmp_path: Path) -> None:
    """No mode is known, so nothing passes; in each format, with the time to come again."""
    server = RedisServer(tmp_path)
    server.start()
    try:
        async with RawUpstream() as up, running(tmp_path, up.base_url, log=server.url) as proxy:
            server.kill()
            for speech in SPEECHES:
                sight = await ask(proxy, speech, "s")
                assert (sight.status, sight.ended) == (503, True)
                assert sight.header("retry-after") == [b"2"]
                assert "event log" in heard(speech, sight).error
        assert up.requests == []
    finally:
        server.close()


# Our own mistakes


@forms
async def test_an_exception_of_our_own_releases_nothing(
    shared: World, speech: Speech, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """500, or an error event; one line in the log names the step that the client was told of."""

    def fail(*_: object, **__: object) -> Any:
        raise RuntimeError("a bug, S3C")

    monkeypatch.setattr(Gate, "judge", fail)
    shared.up.enqueue(answering(speech, ALLOWED, ENDED["with its length"], part=False))
    with caplog.at_level(logging.ERROR):
        sight = await ask(shared.patient, speech, await shared.session("plan"))
    error = told(speech, sight, status=500)
    (record,) = caplog.records
    step = record.getMessage().split()[1]
    assert step in error
    assert "S3C" not in error


@forms
async def test_an_exception_in_default_mode_is_a_500(
    shared: World, speech: Speech, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object) -> Any:
        raise RuntimeError("a bug")

    monkeypatch.setattr(HttpUpstream, "send", fail)
    sight = await ask(shared.patient, speech, await shared.session())
    assert (sight.status, sight.ended) == (500, True)
    # Beside the line of the step, where another test has let such lines be written.
    (record,) = [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert record.getMessage().split()[1] in heard(speech, sight).error

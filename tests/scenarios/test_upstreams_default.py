"""Misbehaving upstreams in default mode: the client sees what the upstream did, to the byte (L1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from modegate.scripted.model import Turn
from support.faults import (
    BROKEN,
    CODED,
    ENDED,
    TEXT,
    TRUNCATED,
    WRITE,
    Sight,
    Wire,
    World,
    answering,
    ask,
    asked,
    begun,
    heard,
    kind,
    said,
    world,
)
from support.raw_upstream import Act, Piece, RawUpstream, chunk, chunked, head, whole
from support.running import client, post, running
from support.speech import Speech
from support.speeches import SPEECHES


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Run all tests of this file in one loop, so that they share a proxy."""
    return "asyncio"


@pytest.fixture(scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """Yield the proxy and the upstream that all tests share."""
    async with world(tmp_path_factory.mktemp("world")) as made:
        yield made


CHAT = SPEECHES[:2]
"""A stream and a whole answer: where nothing is looked at, one dialect is as good as another."""
WORDS = Turn(TEXT, calls=(WRITE,))
"""In default mode it is nobody's business what is called."""


def sent(speech: Speech) -> bytes:
    """Return the upstream's answer."""
    return said(speech, asked(speech), WORDS)


def lengths(sight: Sight) -> list[bytes]:
    """Return what the client was told of the length."""
    return sight.header("content-length")


# Answers that are whole ---------------------------------------------------------------------------


@pytest.mark.parametrize("speech", CHAT, ids=str)
@pytest.mark.parametrize("wire", ENDED.values(), ids=ENDED)
async def test_an_answer_that_ends_ends(shared: World, wire: Wire, speech: Speech) -> None:
    """However the upstream frames it; a length is passed on, trailers and interim answers are not."""
    shared.up.enqueue(answering(speech, WORDS, wire, part=False))
    sight = await ask(shared.patient, speech, await shared.session())
    assert (sight.status, sight.body, sight.ended) == (200, sent(speech), True)
    assert lengths(sight) in ([], [str(len(sent(speech))).encode()])
    assert sight.header("x-t") == sight.header("link") == []


@pytest.mark.parametrize("speech", CHAT, ids=str)
@pytest.mark.parametrize("wire", (CODED | TRUNCATED).values(), ids=CODED | TRUNCATED)
async def test_b103_codings_are_left_as_they_are(shared: World, wire: Wire, speech: Speech) -> None:
    """One, several, cut short or wrongly named: the client gets the bytes, and what they claim to be."""
    shared.up.enqueue(answering(speech, WORDS, wire, part=False))
    sight = await ask(shared.patient, speech, await shared.session())
    whole_, *_ = wire(sent(speech), kind(speech))
    assert isinstance(whole_, bytes)
    top, _, body = whole_.partition(b"\r\n\r\n")
    assert (sight.status, sight.body, sight.ended) == (200, body, True)
    (coding,) = sight.header("content-encoding")
    assert b"Content-Encoding: " + coding in top


ANSWERS: dict[str, tuple[int, list[tuple[str, str]], bytes]] = {
    "429": (
        429,
        [("Retry-After", "17"), ("Retry-After-Ms", "17000"), ("X-Should-Retry", "true"),
         ("X-Ratelimit-Remaining-Requests", "0"), ("Content-Type", "application/json")],
        b'{"error": {"message": "slow down"} }',
    ),
    "HTML 502": (502, [("Content-Type", "text/html")], b"<html><h1>Bad Gateway</h1></html>"),
    "HTML 200": (200, [("Content-Type", "text/html")], b"<html>Please log in</html>"),
    "529": (529, [("Retry-After", "Mon, 30 Nov 2026 00:00:00 GMT")], b"overloaded"),
    "301": (301, [("Location", "http://elsewhere.invalid/v1")], b""),
    "302": (302, [("Location", "/login")], b"<a href=/login>"),
    "307": (307, [("Location", "/v2")], b""),
    "308": (308, [("Location", "//elsewhere.invalid")], b""),
    "401": (401, [("WWW-Authenticate", "Bearer"), ("Content-Type", "application/json")], b"{}"),
    "599": (599, [], b"odd"),
    "empty stream": (200, [("Content-Type", "text/event-stream")], b""),
    "empty": (200, [("Content-Type", "application/json")], b""),
}  # fmt: skip


@pytest.mark.parametrize("speech", CHAT, ids=str)
@pytest.mark.parametrize(("status", "lines", "body"), ANSWERS.values(), ids=ANSWERS)
async def test_b116_any_answer_is_the_clients_own_business(
    shared: World, status: int, lines: list[tuple[str, str]], body: bytes, speech: Speech
) -> None:
    """Errors, pages and redirects come as they are, and nothing is followed or sent again."""
    before = len(shared.up.requests)
    shared.up.enqueue(whole(body, status, lines))
    sight = await ask(shared.patient, speech, await shared.session())
    assert (sight.status, sight.body, sight.ended) == (status, body, True)
    for name, value in lines:
        assert sight.header(name.lower()) == [value.encode()]
    assert len(shared.up.requests) == before + 1


@pytest.mark.parametrize("status", [204, 304])
async def test_answers_without_a_body(shared: World, status: int) -> None:
    """The status says that there is none."""
    shared.up.enqueue([head(status, [("ETag", "e")])])
    sight = await ask(shared.patient, CHAT[1], await shared.session())
    assert (sight.status, sight.body, sight.ended) == (status, b"", True)
    assert sight.header("etag") == [b"e"]


# Answers that break off ---------------------------------------------------------------------------


@pytest.mark.parametrize("speech", CHAT, ids=str)
@pytest.mark.parametrize("wire", BROKEN.values(), ids=BROKEN)
async def test_b108_an_answer_that_breaks_off_breaks_off(
    shared: World, wire: Wire, speech: Speech
) -> None:
    """The client gets what came, and then an end that is none: it can tell, as without the proxy."""
    shared.up.enqueue(answering(speech, WORDS, wire, part=True))
    sight = await ask(shared.patient, speech, await shared.session())
    assert (sight.status, sight.body) == (200, begun(speech, sent(speech)))
    assert not sight.ended


async def test_b108_a_bad_chunk_breaks_it_off(shared: World) -> None:
    """What came in front of it was passed on by then."""
    gate = asyncio.Event()
    shared.up.enqueue([*chunked(b"one")[:2], gate, b"zz\r\n"])
    port, session = shared.patient.port, await shared.session()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(post(f"/s/{session}/v1/chat/completions", b"{}"))
    begun_ = await reader.readuntil(b"one")
    gate.set()
    assert not Sight.of(begun_ + await reader.read()).ended
    writer.close()


@pytest.mark.parametrize("act", [Act.RESET, Act.CLOSE, Act.HALF_CLOSE])
@pytest.mark.parametrize("framing", [("Content-Length", "9"), ("Transfer-Encoding", "chunked")])
async def test_a_head_alone_is_no_answer(shared: World, act: Act, framing: tuple[str, str]) -> None:
    """The head is passed on the moment it is there, and then there is no end."""
    shared.up.enqueue([head(200, [framing]), act])
    sight = await ask(shared.patient, CHAT[1], await shared.session())
    assert (sight.status, sight.body, sight.ended) == (200, b"", False)


NO_ANSWER: dict[str, Sequence[Piece]] = {
    "reset": [Act.RESET],
    "closed": [Act.CLOSE],
    "half closed": [Act.HALF_CLOSE, Act.HANG],
    "reset in the head": [b"HTTP/1.1 200 OK\r\nX: ", Act.RESET],
    "closed in the head": [b"HTTP/1.1 200 OK\r\nX: ", Act.CLOSE],
    "closed after 100": [head(100), Act.CLOSE],
    "no HTTP": [b"SSH-2.0-x\r\n", Act.CLOSE],
    "head without end": [b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000, Act.HANG],
    "line without end": [b"HTTP/1.1 200 OK\r\nX: " + b"y" * 140_000, Act.HANG],
    "huge line": [head(200, [("X", "y" * 70_000), ("Content-Length", "0")])],
    "two lengths": [head(200, [("Content-Length", "1"), ("Content-Length", "2")]) + b"ab"],
    "another protocol": [
        head(101, [("Upgrade", "websocket"), ("Connection", "Upgrade")]),
        Act.HANG,
    ],
}


@pytest.mark.parametrize("mode", ["default", "plan"])
@pytest.mark.parametrize("pieces", NO_ANSWER.values(), ids=NO_ANSWER)
async def test_no_answer_is_a_502_in_the_clients_format(
    shared: World, pieces: Sequence[Piece], mode: str
) -> None:
    """It names the upstream; the request is not sent again."""
    for speech in SPEECHES:
        before = len(shared.up.requests)
        shared.up.enqueue(pieces)
        sight = await ask(shared.patient, speech, await shared.session(mode))
        assert (sight.status, sight.ended) == (502, True)
        assert f"upstream 127.0.0.1:{shared.up.port}: " in heard(speech, sight).error
        assert len(shared.up.requests) == before + 1


# Silence ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["default", "plan"])
@pytest.mark.parametrize("head_", [b"", b"HTTP/1.1 200 OK\r\nX: "], ids=["before", "in the head"])
async def test_b114_silence_without_a_head_is_a_504(shared: World, head_: bytes, mode: str) -> None:
    """In the client's format, once the limit of the upstream is over (`timeouts.read`)."""
    stalled: list[Piece] = [head_, Act.HANG]
    shared.up.enqueue(*[stalled] * len(SPEECHES))
    names = [await shared.session(mode) for _ in SPEECHES]
    asking = zip(SPEECHES, names, strict=True)
    for speech, sight in zip(
        SPEECHES,
        await asyncio.gather(*(ask(shared.hasty, one, name) for one, name in asking)),
        strict=True,
    ):
        assert (sight.status, sight.ended) == (504, True)
        assert "no byte for too long" in heard(speech, sight).error


async def test_b114_silence_in_the_body_cuts_it(shared: World) -> None:
    """No silent end: the connection breaks, as it does when the upstream's breaks."""
    for speech in CHAT:
        body = begun(speech, sent(speech))
        shared.up.enqueue(
            [head(200, [kind(speech), ("Transfer-Encoding", "chunked")]) + chunk(body), Act.HANG]
        )
        sight = await ask(shared.hasty, speech, await shared.session())
        assert (sight.status, sight.body, sight.ended) == (200, body, False)


# What is on the connection ------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["default", "plan"])
async def test_b127_a_kept_connection_that_ended_is_not_used(shared: World, mode: str) -> None:
    """The request is sent once, on another."""
    session = await shared.session(mode)
    speech = SPEECHES[1]
    good = answering(speech, Turn(TEXT), ENDED["with its length"], part=False)
    shared.up.enqueue(good, good)
    await ask(shared.patient, speech, session)
    last = shared.up.requests[-1].connection
    before = len(shared.up.requests)
    shared.up.hang_up(last)
    sight = await ask(shared.patient, speech, session)
    assert heard(speech, sight).text == TEXT
    assert [one.connection != last for one in shared.up.requests[before:]] == [True]


@pytest.mark.parametrize("mode", ["default", "plan"])
async def test_b127_a_request_that_was_sent_is_not_sent_again(shared: World, mode: str) -> None:
    """The connection was kept and ended without a byte; what the model did meanwhile nobody knows."""
    session = await shared.session(mode)
    speech = SPEECHES[1]
    good = answering(speech, Turn(TEXT), ENDED["with its length"], part=False)
    shared.up.enqueue(good, [Act.CLOSE])
    await ask(shared.patient, speech, session)
    before = len(shared.up.requests)
    sight = await ask(shared.patient, speech, session)
    assert sight.status == 502
    assert len(shared.up.requests) == before + 1


FORGED = whole(b'{"forged": true}')[0]


@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
async def test_an_upstream_that_answers_twice_speaks_to_nobody_else(
    shared: World, *, late: bool
) -> None:
    """The second answer is not taken for the answer to the next request, another session's perhaps."""
    assert isinstance(FORGED, bytes)
    first = whole(b'{"first": true}')[0]
    assert isinstance(first, bytes)
    shared.up.enqueue([first if late else first + FORGED])
    sight = await ask(shared.patient, CHAT[1], await shared.session())
    assert sight.body == b'{"first": true}' or sight.status == 502
    if late:
        shared.up.say(FORGED, shared.up.requests[-1].connection)
    sight = await ask(shared.patient, CHAT[1], await shared.session())
    assert sight.body == b"{}"


@pytest.mark.parametrize(
    "answer",
    [
        head(200, [("Content-Length", "2")]) + b"{}more",
        head(204, [("Content-Length", "2")]) + b"{}",
        head(304, [("Content-Length", "2")]) + b"{}",
    ],
    ids=["length too short", "204 with a body", "304 with a body"],
)
async def test_b108_what_follows_an_answer_reaches_nobody(shared: World, answer: bytes) -> None:
    """The answer itself may fail with it: it cannot be told where it ends."""
    shared.up.enqueue([answer])
    sight = await ask(shared.patient, CHAT[1], await shared.session())
    assert b"more" not in sight.body
    assert sight.status == 502 or sight.body in (b"{}", b"")
    sight = await ask(shared.patient, CHAT[1], await shared.session())
    assert sight.body == b"{}"


# Requests -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("then", [[], [Act.CLOSE]], ids=["stays", "closes"])
async def test_b130_an_answer_before_the_request_was_read(
    tmp_path: Path, then: list[Piece]
) -> None:
    """A refusal that comes early is passed on early, while the client still has most to send.

    Of an upload that is harmless in every mode: all others are taken whole before the log is read (H8).
    """
    async with RawUpstream([*whole(b"too big", 413), *then], read_body=False) as up:
        async with running(tmp_path, up.base_url) as proxy:
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            raw = post("/s/s/v1/files", b"x" * 2_000_000)
            writer.write(raw[:100_000])
            answer = await reader.readuntil(b"too big")
            assert b" 413 " in answer.split(b"\r\n")[0]
            writer.close()


@pytest.mark.parametrize("mode", ["default", "plan"])
async def test_an_early_answer_to_a_request_that_is_all_there(tmp_path: Path, mode: str) -> None:
    """The upstream answers at the head and never reads on."""
    body = asked(SPEECHES[1]).replace(b"rename foo", b"rename foo" + b" " * 4_000_000)
    async with RawUpstream(whole(b"too big", 413), read_body=False) as up:
        async with running(tmp_path, up.base_url) as proxy, client() as http:
            await proxy.set_mode(mode)
            got = await http.post(f"{proxy.base()}/chat/completions", content=body)
    assert (got.status_code, got.content) == (413, b"too big")

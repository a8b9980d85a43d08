"""Misbehaving upstreams in plan mode: what is held stays in, and the client is told in its own format."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import zstandard

from modegate.scripted.model import Turn
from support.faults import (
    BROKEN,
    CODED,
    ENDED,
    PATHS,
    READ,
    SAID,
    SECRET,
    TEXT,
    TRUNCATED,
    WRITE,
    Sight,
    Wire,
    World,
    answering,
    ask,
    asked,
    heard,
    kind,
    told,
    world,
)
from support.playbook import said, text
from support.raw_upstream import Act, Piece, Responder, chunk, head, whole
from support.running import exchange, post
from support.speech import Speech
from support.speeches import SPEECHES

forms = pytest.mark.parametrize("speech", SPEECHES, ids=str)
ALLOWED, REFUSED = Turn(TEXT, calls=(READ,)), Turn(TEXT, calls=(WRITE,))

UNKNOWN = TRUNCATED["unknown"]


FEW = {name: (ENDED | CODED)[name] for name in ("with the connection", "trailers", "gzip, br")}
"""Of the ways in which a body ends, those that differ most: a dialect never learns which it was."""


def framed() -> list[Any]:
    """Return each way in which a body ends with the forms of one dialect, and a few with those of all."""
    return [
        pytest.param(wire, speech, id=f"{name}-{speech}")
        for name, wire in (ENDED | CODED).items()
        for speech in SPEECHES
        if name in FEW or speech.name == "chat"
    ]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Run all tests of this file in one loop, so that they share a proxy."""
    return "asyncio"


@pytest.fixture(scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """Yield the proxy and the upstream that all tests share."""
    async with world(tmp_path_factory.mktemp("world")) as made:
        yield made


# Answers that break off, while a call is held -----------------------------------------------------


@forms
@pytest.mark.parametrize("wire", BROKEN.values(), ids=BROKEN)
async def test_a_held_call_is_dropped_when_its_answer_breaks_off(
    shared: World, wire: Wire, speech: Speech
) -> None:
    """Even an allowed one: text went out as it came, the call does not, an error says why."""
    shared.up.enqueue(answering(speech, ALLOWED, wire, part=True))
    sight = await ask(shared.patient, speech, await shared.session("plan"))
    assert "broke" in told(speech, sight)


@forms
@pytest.mark.parametrize("wire", FEW.values(), ids=FEW)
async def test_a_held_call_is_dropped_when_its_answer_ends_too_early(
    shared: World, wire: Wire, speech: Speech
) -> None:
    """HTTP says that the body is whole, and the API's own end is not in it."""
    shared.up.enqueue(answering(speech, ALLOWED, wire, part=True))
    sight = await ask(shared.patient, speech, await shared.session("plan"))
    told(speech, sight)


@forms
@pytest.mark.parametrize("wire", TRUNCATED.values(), ids=TRUNCATED)
async def test_a_held_call_is_dropped_when_its_coding_breaks(
    shared: World, wire: Wire, speech: Speech
) -> None:
    """Or was never what it is said to be: then nothing at all was read."""
    shared.up.enqueue(answering(speech, ALLOWED, wire, part=True))
    sight = await ask(shared.patient, speech, await shared.session("plan"))
    assert (sight.leaks, sight.ended, sight.header("content-encoding")) == (False, True, [])
    assert b"content-encoding" in sight.body, "the client is told what is wrong"
    assert sight.status == (200 if speech.streamed and wire is not UNKNOWN else 502)
    if SAID in sight.body:
        told(speech, sight)


@forms
async def test_b114_silence_while_a_call_is_held(shared: World, speech: Speech) -> None:
    """An error event once the limit is over; 504 where the head is still ours to give."""

    def stalled(body: bytes, line: tuple[str, str]) -> Sequence[Piece]:
        return [head(200, [line, ("Transfer-Encoding", "chunked")]) + chunk(body), Act.HANG]

    shared.up.enqueue(answering(speech, ALLOWED, stalled, part=True))
    sight = await ask(shared.hasty, speech, await shared.session("plan"))
    assert "no byte for too long" in told(speech, sight, status=504)


# Answers that are whole, however odd --------------------------------------------------------------


@pytest.mark.parametrize(("wire", "speech"), framed())
async def test_the_gate_reads_every_framing_and_coding(
    shared: World, wire: Wire, speech: Speech
) -> None:
    """The call is refused, the model told so, and the client gets one plain answer of both hops."""
    before = len(shared.up.requests)
    shared.up.enqueue(
        answering(speech, REFUSED, wire, part=False),
        answering(speech, Turn("So I plan."), wire, part=False),
    )
    sight = await ask(shared.patient, speech, await shared.session("plan"))
    assert not sight.leaks
    assert sight.ended
    answer = heard(speech, sight)
    assert (answer.finish, answer.calls, answer.error) == ("stop", (), "")
    assert answer.text.endswith("So I plan.")
    assert sight.header("content-encoding") == []
    assert len(shared.up.requests) == before + 2
    assert b"refused" in shared.up.requests[-1].body


@forms
@pytest.mark.parametrize("wire", FEW.values(), ids=FEW)
async def test_an_allowed_call_passes_in_every_framing_and_coding(
    shared: World, wire: Wire, speech: Speech
) -> None:
    shared.up.enqueue(answering(speech, ALLOWED, wire, part=False))
    sight = await ask(shared.patient, speech, await shared.session("plan"))
    answer = heard(speech, sight)
    assert (answer.text, answer.names, answer.finish) == (TEXT, ["read"], "calls")
    assert sight.ended


# Answers that are none ----------------------------------------------------------------------------

PAGE = b"<html>" + SECRET.encode() + b"</html>"
UNREADABLE: dict[str, list[Piece]] = {
    "HTML": whole(PAGE, 200, [("Content-Type", "text/html")]),
    "HTML that says JSON": whole(PAGE),
    "empty": whole(b""),
    "no content": [head(204)],
    "301": whole(PAGE, 301, [("Location", "http://elsewhere.invalid/")]),
    "302": whole(PAGE, 302, [("Location", "/login")]),
    "304": [head(304)],
    "307": whole(PAGE, 307, [("Location", "/v2")]),
    "308": whole(PAGE, 308, [("Location", "//elsewhere.invalid")]),
}


@forms
@pytest.mark.parametrize("pieces", UNREADABLE.values(), ids=UNREADABLE)
async def test_what_is_no_answer_is_a_502(
    shared: World, pieces: list[Piece], speech: Speech
) -> None:
    """Pages, and redirects that a client could follow to where nobody gates."""
    before = len(shared.up.requests)
    shared.up.enqueue(pieces)
    sight = await ask(shared.patient, speech, await shared.session("plan"))
    assert (sight.status, sight.leaks, sight.ended) == (502, False, True)
    assert heard(speech, sight).error
    assert sight.header("location") == []
    assert len(shared.up.requests) == before + 1


ERRORS: dict[str, tuple[int, list[tuple[str, str]], bytes]] = {
    "429": (
        429,
        [("Retry-After", "17"), ("Retry-After-Ms", "17000"), ("X-Should-Retry", "true"),
         ("X-Ratelimit-Remaining-Requests", "0"), ("Content-Type", "application/json")],
        b'{"error": {"message": "slow down"} }',
    ),
    "400": (400, [("Content-Type", "application/json")], b'{"error":{"message":"no"}}'),
    "HTML 502": (502, [("Content-Type", "text/html")], b"<html><h1>Bad Gateway</h1></html>"),
    "gzip 500": (500, [("Content-Encoding", "gzip")], b"\x1f\x8bwhatever"),
    "stream 500": (500, [("Content-Type", "text/event-stream")], b"event: error\ndata: {}\n\n"),
    "529": (529, [("Retry-After", "3")], b"overloaded"),
}  # fmt: skip


@forms
@pytest.mark.parametrize(("status", "lines", "body"), ERRORS.values(), ids=ERRORS)
async def test_b116_errors_pass_unchanged(
    shared: World, status: int, lines: list[tuple[str, str]], body: bytes, speech: Speech
) -> None:
    """With all that says when to come again; nothing is sent twice."""
    before = len(shared.up.requests)
    shared.up.enqueue(whole(body, status, lines))
    sight = await ask(shared.patient, speech, await shared.session("plan"))
    assert (sight.status, sight.body, sight.ended) == (status, body, True)
    for name, value in lines:
        assert sight.header(name.lower()) == [value.encode()]
    assert len(shared.up.requests) == before + 1


# Requests ----------------------------------------------------------------------------------------


@forms
@pytest.mark.parametrize("coding", ["gzip", "zstd"])
async def test_b106_encoded_requests_are_read_and_sent_on_plain(
    shared: World, coding: str, speech: Speech
) -> None:
    """What goes upstream is what the mode allows, and its lines say what it is."""
    body = gzip.compress(asked(speech)) if coding == "gzip" else zstandard.compress(asked(speech))
    shared.up.enqueue(answering(speech, ALLOWED, ENDED["with its length"], part=False))
    path = f"/s/{await shared.session('plan')}/v1{PATHS[speech.name]}"
    raw = post(path, body, f"Content-Encoding: {coding}")
    answer = heard(speech, Sight.of(await exchange(shared.patient.port, raw)))
    assert answer.names == ["read"]
    sent = shared.up.requests[-1]
    assert speech.api.tools(json.loads(sent.body)) == ["read", "grep"]
    assert sent.header("content-encoding") == sent.header("transfer-encoding") == []
    assert sent.header("content-length") == [str(len(sent.body)).encode()]


@forms
async def test_b121_the_query_is_the_clients_own(shared: World, speech: Speech) -> None:
    query = "?beta=true&api-version=2024-10-21&x=a%20b&x=c+d&empty="
    shared.up.enqueue(answering(speech, ALLOWED, ENDED["with its length"], part=False))
    path = f"/s/{await shared.session('plan')}/v1{PATHS[speech.name]}{query}"
    await exchange(shared.patient.port, post(path, asked(speech)))
    assert shared.up.requests[-1].target == f"/v1{PATHS[speech.name]}{query}".encode()


async def test_b120_large_bodies(shared: World) -> None:
    """24 MB there and a line of 40 MB back, under the limits that are set where none is named."""
    speech = SPEECHES[0]
    words = "A" * 24_000_000
    line = text("B" * 40_000_000)
    shared.up.enqueue(whole(line + said(), headers=[kind(speech)]))
    path = f"/s/{await shared.session('plan')}/v1/chat/completions"
    raw = post(path, asked(speech).replace(b"rename foo", words.encode()))
    sight = Sight.of(await exchange(shared.patient.port, raw))
    assert (sight.status, sight.body == line + said()) == (200, True)
    assert shared.up.requests[-1].body.count(b"A") >= len(words)
    shared.up.requests.clear()


async def test_b114_signs_of_life_pass_while_the_model_thinks(shared: World) -> None:
    """Comments of the upstream reach the client one by one, without their text, long before an answer."""
    speech, ping, sign = SPEECHES[0], b": ping\n\n", b":\n\n"
    pauses = [asyncio.Event() for _ in range(3)]
    top = head(200, [kind(speech), ("Transfer-Encoding", "chunked")])
    thinking = [piece for pause in pauses for piece in (chunk(ping), pause)]
    shared.up.enqueue([top, *thinking, chunk(said()), b"0\r\n\r\n"])
    path = f"/s/{await shared.session('plan')}/v1/chat/completions"
    reader, writer = await asyncio.open_connection("127.0.0.1", shared.patient.port)
    writer.write(post(path, asked(speech)))
    came = b""
    for pause in pauses:
        came += await reader.readuntil(sign)
        pause.set()
    sight = Sight.of(came + await reader.read())
    assert (sight.body, sight.ended) == (sign * 3 + said(), True)
    writer.close()


Say = Sequence[Piece] | Responder

# A later hop that goes wrong ----------------------------------------------------------------------


def later(speech: Speech) -> dict[str, Say]:
    """Return what a second hop can answer, when the client has the text of the first."""
    good = ENDED["with its length"]
    return {
        "reset": [Act.RESET],
        "closed": [Act.CLOSE],
        "two lengths": [head(200, [("Content-Length", "1"), ("Content-Length", "2")]) + b"ab"],
        "HTML": whole(PAGE, 200, [("Content-Type", "text/html")]),
        "redirect": whole(PAGE, 302, [("Location", "/login")]),
        "429": whole(b"{}", 429, [("Retry-After", "17")]),
        "HTML 502": whole(PAGE, 502, [("Content-Type", "text/html")]),
        "breaks off": answering(speech, ALLOWED, BROKEN["reset"], part=True),
        "length too long": answering(speech, ALLOWED, BROKEN["length too long"], part=True),
        "ends too early": answering(speech, ALLOWED, good, part=True),
        "cut gzip": answering(speech, ALLOWED, TRUNCATED["cut gzip"], part=True),
    }


@forms
@pytest.mark.parametrize("second", later(SPEECHES[0]))
async def test_when_a_later_hop_fails_the_answer_ends_in_words(
    shared: World, second: str, speech: Speech
) -> None:
    """The client has text of the first hop by then; an error would make it send all of it again."""
    before = len(shared.up.requests)
    first = answering(speech, REFUSED, ENDED["with its length"], part=False)
    shared.up.enqueue(first, later(speech)[second])
    sight = await ask(shared.patient, speech, await shared.session("plan"))
    answer = heard(speech, sight)
    assert (sight.status, answer.finish, answer.calls, answer.error) == (200, "stop", (), "")
    assert SECRET.encode() not in sight.body
    assert sight.ended
    assert answer.text.startswith(TEXT)
    assert "write" in answer.text, "it says what was refused"
    assert len(shared.up.requests) == before + 2

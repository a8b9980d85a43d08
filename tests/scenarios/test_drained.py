"""An answer that takes longer than the process can wait ends as a failed one of its API does."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from modegate.scripted.model import Turn
from support.faults import (
    PATHS,
    READ,
    SAID,
    TEXT,
    Sight,
    answering,
    asked,
    begun,
    kind,
    told,
)
from support.faults import said as answer_of
from support.raw_upstream import Act, Piece, RawUpstream, Received, chunk, head
from support.running import Running, post, running
from support.speech import Speech
from support.speeches import SPEECHES

ERRORS = {
    "chat": 'data: {"error":{"message":',
    "responses": '"type":"response.failed"',
    "messages": 'event: error\ndata: {"type":"error","error":{',
}
TURN = Turn(TEXT, calls=(READ,))


def hanging(body: bytes, line: tuple[str, str]) -> Sequence[Piece]:
    return [head(200, [line, ("Transfer-Encoding", "chunked")]) + chunk(body), Act.HANG]


async def drained(folder: Path, upstream: str, speech: Speech, mode: str, seen: bytes) -> Sight:
    """Send a step, end the process once the client has seen this, and give all that the client got."""
    async with contextlib.AsyncExitStack() as stack:
        proxy: Running = await stack.enter_async_context(running(folder, upstream, drain=0.01))
        await proxy.set_mode(mode)
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(post(f"/s/s/v1{PATHS[speech.name]}", asked(speech)))
        begun_ = await reader.readuntil(seen) if seen else b""
        ends = asyncio.ensure_future(stack.aclose())
        rest = await reader.read()
        writer.close()
        await ends
    return Sight.of(begun_ + rest)


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
@pytest.mark.parametrize("mode", ["default", "plan"])
async def test_o6_an_answer_that_outlasts_the_drain_ends_in_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, speech: Speech, mode: str
) -> None:
    """An event of the API where one streams, else 503; told apart in the log from a fault of our own."""
    async with RawUpstream(answering(speech, TURN, hanging, part=True)) as up:
        with caplog.at_level(logging.INFO):
            if not speech.streamed and mode == "default":
                up.enqueue([Act.HANG])
            sight = await drained(
                tmp_path, up.base_url, speech, mode, SAID if speech.streamed else b""
            )
    if speech.streamed and mode == "default":
        # Its number is not that of the stream, which nobody has read.
        assert sight.ended
        error = sight.body.split(b"\n\n")[-2].decode()
        assert ERRORS[speech.name] in error
    else:
        error = told(speech, sight, status=503)
    assert "modegate was stopped" in error
    (step,) = [one.getMessage() for one in caplog.records if one.name == "modegate.step"]
    assert "outcome=drained" in step
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("speech", [one for one in SPEECHES if one.streamed], ids=str)
async def test_o6_an_event_that_was_cut_short_is_no_place_for_another(
    tmp_path: Path, speech: Speech
) -> None:
    """In default mode bytes pass as they come, so that the answer is cut where it stands."""

    def answer(request: Received) -> Sequence[Piece]:
        body = begun(speech, answer_of(speech, request.body, TURN))
        return hanging(body + b'data: {"half', kind(speech))

    async with RawUpstream(answer) as up:
        sight = await drained(tmp_path, up.base_url, speech, "default", b'{"half')
    assert not sight.ended
    assert sight.body.endswith(b'data: {"half')

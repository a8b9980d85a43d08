"""H16: in a stream of which the lines end in CRLF or CR, so do those that modegate writes or changes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from modegate.scripted.model import ScriptedCall, Turn
from support.playbook import Cut, Reply, bytewise, whole
from support.speech import Agent, Speech
from support.speeches import SPEECHES

STREAMED = [speech for speech in SPEECHES if speech.streamed]
WRITE, READ = ScriptedCall("write", '{"p": 1}'), ScriptedCall("read", '{"p": 1}')
STORIES = {
    "some of each": (Turn("I see.", "hm", (WRITE, READ)),),
    "another hop": (Turn("I see.", "", (WRITE,)), Turn("Then so.", "", (READ,))),
    "a closing text": (Turn("I see.", "", (WRITE,)), Turn("", "", (WRITE,))),
}


@pytest.mark.parametrize("cut", [whole, bytewise], ids=["at-once", "bytewise"])
@pytest.mark.parametrize("end", [b"\r\n", b"\r"], ids=["crlf", "cr"])
@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize("speech", STREAMED, ids=str)
def test_h16_every_line_ends_as_the_upstreams_do(
    speech: Speech, story: str, end: bytes, cut: Cut
) -> None:
    def spelled(turn: Turn, asked: bytes, with_: bytes) -> Reply:
        reply = speech.reply(turn, asked)
        return replace(reply, body=reply.body.replace(b"\n", with_))

    bodies = {}
    for with_ in (b"\n", end):
        agent = Agent(speech)
        body = speech.api.request(agent.history, agent.tools, streamed=True)
        replies = [lambda asked, t=turn, e=with_: spelled(t, asked, e) for turn in STORIES[story]]
        bodies[with_] = agent.session.step(body, replies, cut=cut).body
    assert bodies[end] == bodies[b"\n"].replace(b"\n", end)
    assert b"\n" not in bodies[end].replace(b"\r\n", b"")


@pytest.mark.parametrize("speech", STREAMED, ids=str)
def test_h16_an_error_of_ours_too(speech: Speech) -> None:
    agent = Agent(speech)
    body = speech.api.request(agent.history, agent.tools, streamed=True)
    begun = Turn("I see.")

    def breaks(asked: bytes) -> Reply:
        reply = speech.reply(begun, asked)
        first = reply.body.index(b"\n\n") + 2
        return replace(reply, body=reply.body[:first].replace(b"\n", b"\r\n"), broken=True)

    got = agent.session.step(body, [breaks])
    assert b"it broke off" in got.body
    assert b"\n" not in got.body.replace(b"\r\n", b"")


@pytest.mark.parametrize("line", ["comment", "id"])
@pytest.mark.parametrize("speech", STREAMED, ids=str)
def test_a_line_that_repeats_the_data_is_not_edited_in_its_place(speech: Speech, line: str) -> None:
    """What is cut out of a frame is cut out of its data, not out of a comment that says the same."""
    agent = Agent(speech)
    body = speech.api.request(agent.history, agent.tools, streamed=True)

    def repeats(asked: bytes) -> Reply:
        reply = speech.reply(Turn("I see.", "", (WRITE, READ)), asked)
        out = []
        for block in reply.body.split(b"\n\n")[:-1]:
            data = block.rpartition(b"data: ")[2]
            name = b": " if line == "comment" else b"id: "
            out.append(block + b"\n" + name + data + b"\n\n")
        return replace(reply, body=b"".join(out))

    got = agent.session.step(body, [repeats])
    for line_ in got.body.split(b"\n"):
        if line_.startswith(b"data: {"):
            value = json.loads(line_[6:])
            # What a response repeats of its request is no call.
            value.get("response", {}).pop("tools", None)
            assert '"write"' not in json.dumps(value)


@pytest.mark.parametrize("odd", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["in-lf", "in-crlf", "in-cr"])
@pytest.mark.parametrize("speech", STREAMED, ids=str)
def test_h16_lines_of_one_stream_end_in_one_way(speech: Speech, end: bytes, odd: bytes) -> None:
    """A client that knows one end alone would miss a piece of a call, and run the rest of it."""
    agent = Agent(speech)
    body = speech.api.request(agent.history, agent.tools, streamed=True)

    def mixed(asked: bytes) -> Reply:
        reply = speech.reply(Turn("I see.", "", (READ,)), asked)
        frames = reply.body.split(b"\n\n")[:-1]
        ends = [odd if at % 3 == 1 else end for at in range(len(frames))]
        spelled = [one.replace(b"\n", e) + e * 2 for one, e in zip(frames, ends, strict=True)]
        return replace(reply, body=b"".join(spelled))

    got = agent.session.step(body, [mixed], cut=bytewise)
    assert b'"read"' in got.body
    assert got.body.replace(end, b"\n") == got.body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    whole_ = Agent(speech).session.step(body, [mixed])
    assert whole_.body == got.body

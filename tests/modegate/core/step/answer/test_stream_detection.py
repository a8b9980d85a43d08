"""N009: an event stream under another content type, or none, is read as the stream that it is."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from itertools import cycle

import pytest

from modegate.core.step.answer.answer import Labelled
from modegate.core.step.answer.stream_detection import MAX_BLANK, Unlabelled
from modegate.core.step.effects import Headers
from modegate.scripted.model import ScriptedCall, Turn
from support.playbook import (
    JSON,
    STREAM,
    Cut,
    Got,
    Reply,
    Session,
    bytewise,
    cut_at,
    request,
    whole,
)
from support.speech import Agent, Speech
from support.speeches import SPEECHES

STREAMED = [speech for speech in SPEECHES if speech.streamed]
TYPES: dict[str, Headers] = {
    "text/plain": [(b"content-type", b"text/plain; charset=utf-8"), (b"x-relay", b"1")],
    "application/json": [(b"content-type", b"application/json"), (b"content-length", b"9")],
    "none": [],
}
LABELS = pytest.mark.parametrize("label", TYPES)
EACH = pytest.mark.parametrize("speech", STREAMED, ids=str)
READ, WRITE = (
    ScriptedCall("read", '{"p": 1}', "call_r1"),
    ScriptedCall("write", '{"p": 1}', "call_w1"),
)
STORIES = {
    "allowed": (Turn("I see.", "hm", (READ,)),),
    "some of each": (Turn("I see.", "hm", (WRITE, READ)),),
    "refused, then allowed": (Turn("I see.", "", (WRITE,)), Turn("Then so.", "", (READ,))),
}


def step(speech: Speech, story: str, *labels: Headers, lead: bytes = b"", cut: Cut = whole) -> Got:
    """Live through a story of which each hop comes under its own head."""

    def labelled(turn: Turn, lines: Headers, asked: bytes) -> Reply:
        reply = speech.reply(turn, asked)
        return replace(reply, body=lead + reply.body, headers=lines)

    agent = Agent(speech)
    body = speech.api.request(agent.history, agent.tools, streamed=True)
    replies = [
        partial(labelled, turn, lines)
        for turn, lines in zip(STORIES[story], cycle(labels), strict=False)
    ]
    return agent.session.step(body, replies, cut=cut)


@pytest.mark.parametrize("cut", [whole, bytewise], ids=["at-once", "bytewise"])
@pytest.mark.parametrize("story", STORIES)
@LABELS
@EACH
def test_n009_a_stream_under_another_type_is_read(
    speech: Speech, label: str, story: str, cut: Cut
) -> None:
    plain = step(speech, story, list(STREAM))
    for labels in ([TYPES[label]], [list(STREAM), TYPES[label]], [TYPES[label], list(STREAM)]):
        got = step(speech, story, *labels, cut=cut)
        assert got.body == plain.body
        assert got.requests == plain.requests
        assert got.head is not None
        lines = dict(got.head.headers)
        assert lines[b"content-type"] == b"text/event-stream"
        assert b"content-length" not in lines


@pytest.mark.parametrize("lead", [b"\xef\xbb\xbf", b"\n\n", b": hello\n\n", b"retry: 5\n\n"])
@LABELS
def test_n009_however_it_begins(label: str, lead: bytes) -> None:
    speech = STREAMED[0]
    wanted = step(speech, "some of each", list(STREAM), lead=lead)
    for place in range(len(lead) + 20):
        got = step(speech, "some of each", TYPES[label], lead=lead, cut=cut_at(place))
        assert got.body == wanted.body
        assert b"write" not in got.body


@LABELS
@EACH
def test_n009_in_default_it_passes_as_it_came(speech: Speech, label: str) -> None:
    agent = Agent(speech)
    agent.session.set_mode("default")
    body = speech.api.request(agent.history, agent.tools, streamed=True)
    sent = speech.reply(Turn("I see.", "", (WRITE,)), json.dumps(body).encode()).body
    for cut in (whole, bytewise):
        assert agent.session.step(body, [Reply(sent, TYPES[label])], cut=cut).body == sent


@pytest.mark.parametrize("body", [b'{"error": {"message": "no"}}', b' \n {"error": {}}'])
@LABELS
def test_an_error_that_came_whole_passes(label: str, body: bytes) -> None:
    """Some gateways answer 200 with an error, though a stream was asked for."""
    for cut in (whole, bytewise):
        got = Session().step(request("read", stream=True), [Reply(body, TYPES[label])], cut=cut)
        assert got.body == body
        assert got.head is not None
        assert dict(got.head.headers).get(b"content-type") == dict(TYPES[label]).get(
            b"content-type"
        )


NEITHER = {"nothing": b"", "blank": b" \n", "a word": b"dat", "text": b"dates", "html": b"<html>"}


@pytest.mark.parametrize("broken", [True, False])
@pytest.mark.parametrize("body", NEITHER)
def test_what_is_neither_is_an_error(body: str, broken: bool) -> None:
    for cut in (whole, bytewise):
        reply = Reply(NEITHER[body], list(TYPES["text/plain"]), broken=broken)
        got = Session().step(request("read", stream=True), [reply], cut=cut)
        assert got.head is not None
        assert got.head.status == 502


def test_a_stream_that_nobody_asked_for_is_an_error() -> None:
    """Its client would read JSON."""
    got = Session().step(request("read"), [Reply(b"data: {}\n\n", list(JSON))])
    assert got.head is not None
    assert got.head.status == 502


def known(answer: Unlabelled, data: bytes) -> Labelled | None:
    """Let an answer take a piece; give what it is, once that is known."""
    answer.feed(data)
    return answer.outcome if isinstance(answer.outcome, Labelled) else None


def test_blank_bytes_are_kept_to_a_limit() -> None:
    one = Unlabelled(200, [])
    assert known(one, b" " * MAX_BLANK) is None
    assert known(one, b" ") == Labelled(200, [], b" " * (MAX_BLANK + 1))


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_n009_blank_bytes_that_come_one_by_one(mark: bytes) -> None:
    """Each is looked at once, and what follows them all the same."""
    one = Unlabelled(200, [])
    lead = mark + b" \r\n" * (MAX_BLANK // 4) + b"data"
    assert not any(known(one, b"%c" % byte) for byte in lead)
    wanted = [(b"content-type", b"text/event-stream")]
    assert known(one, b":") == Labelled(200, wanted, lead + b":")

"""G7, G8: frames that no client minds are read in every API, and go on as all of them read them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from modegate.scripted.model import ScriptedCall, Turn
from support.playbook import (
    JSON,
    Cut,
    Reply,
    Session,
    at_every_byte,
    bytewise,
    call,
    request,
    text,
    whole,
)
from support.playbook import stream as chat_stream
from support.speech import Agent, Speech
from support.speeches import SPEECHES

STREAMED = [speech for speech in SPEECHES if speech.streamed]
WRITE, READ = (
    ScriptedCall("write", '{"p": "é"}', "call_w1"),
    ScriptedCall("read", '{"p": "é"}', "call_r1"),
)
STORIES = {
    "allowed": (Turn("I see.", "hm", (READ,)),),
    "some of each": (Turn("I see.", "hm", (WRITE, READ)),),
    "refused, then allowed": (Turn("I see.", "", (WRITE,)), Turn("Then so.", "", (READ,))),
    "text": (Turn("I see.", "hm"),),
}


def each(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Change every frame of a stream."""
    return lambda body: b"".join(change(one + b"\n\n") for one in body.split(b"\n\n")[:-1])


def in_lines(frame: bytes) -> bytes:
    """Write a frame's JSON in many lines, none of which is JSON by itself, as pretty printers do."""
    name, mark, data = frame.partition(b"data: ")
    if not data.startswith(b"{"):
        return frame
    lines = json.dumps(json.loads(data), indent=1).encode().split(b"\n")
    return name + b"\n".join(mark + line for line in lines) + b"\n\n"


FRAMES: dict[str, Callable[[bytes], bytes]] = {
    "G8 several data lines": each(in_lines),
    "G8 several data lines in crlf": lambda body: each(in_lines)(body).replace(b"\n", b"\r\n"),
    "G8 a comment of any text": each(lambda one: b": \xe2\x9c\x93 \x00 \xff { busy\n" + one),
    "G8 an unknown field": each(lambda one: b'x-trace: "\xc3\xbc" {1}\n' + one),
    "G8 a line without a colon": each(lambda one: b"busy {now}\n" + one),
    "G8 a line of JSON": each(lambda one: b'{"busy": 1}\n' + one),
    "G8 an empty ping": each(lambda one: b"event: ping\ndata: {}\n\n" + one),
}


def step(speech: Speech, story: str, change: Callable[[bytes], bytes], cut: Cut) -> Agent:
    """Live through a story of which the upstream spells its answers in another way."""

    def spelled(turn: Turn, asked: bytes) -> Reply:
        reply = speech.reply(turn, asked)
        return replace(reply, body=change(reply.body))

    agent = Agent(speech)
    body = speech.api.request(agent.history, agent.tools, streamed=speech.streamed)
    replies = [lambda asked, turn=turn: spelled(turn, asked) for turn in STORIES[story]]
    agent.got = agent.session.step(body, replies, cut=cut)
    return agent


@pytest.mark.parametrize("cut", [whole, bytewise], ids=["at-once", "bytewise"])
@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize("frames", FRAMES)
@pytest.mark.parametrize("speech", STREAMED, ids=str)
def test_what_no_client_minds_is_no_end(speech: Speech, frames: str, story: str, cut: Cut) -> None:
    plain = step(speech, story, lambda body: body, whole)
    got = step(speech, story, FRAMES[frames], cut).got
    assert len(got.requests) == len(plain.got.requests) == len(STORIES[story])
    body = got.body.replace(b"\r\n", b"\n").replace(b"event: ping\ndata: {}\n\n", b"")
    heard = speech.heard(replace(got, body=body))
    # The scripted model counts the bytes of what it is asked.
    wanted = speech.heard(plain.got)
    assert replace(heard, kept=(), usage=None) == replace(wanted, kept=(), usage=None)
    assert not any(sign in got.body for sign in (b"busy", b"x-trace", b"\xff"))


@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_g7_bytes_that_are_no_utf8_go_as_most_clients_show_them(speech: Speech, story: str) -> None:
    """Some drop such a byte and some do not: what is judged has to be what all of them see."""

    def broken(body: bytes) -> bytes:
        return body.replace(b"I see.", b"I s\xff\xe2\x82.")

    for cut in (whole, bytewise):
        agent = step(speech, story, broken, cut)
        heard = speech.heard(agent.got)
        assert heard.text.startswith("I s\ufffd\ufffd.")
        assert heard.names == (["read"] if story != "text" else [])
        assert len(agent.got.requests) == len(STORIES[story])


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("tool", ["re\xffad", "read\xff", "wri\xffte"])
def test_g7_a_name_with_such_bytes_is_refused(tool: str, streamed: bool) -> None:
    """A client that drops them would run a tool of another name."""
    name = tool.encode("latin-1")
    if streamed:
        sent = Reply(chat_stream(call("NAME")).replace(b"NAME", name))
    else:
        one = b'{"id":"c","type":"function","function":{"name":"%b","arguments":"{}"}}' % name
        message = b'{"role":"assistant","content":null,"tool_calls":[%b]}' % one
        choice = b'{"index":0,"message":%b,"finish_reason":"tool_calls"}' % message
        sent = Reply(b'{"id":"c","object":"chat.completion","choices":[%b]}' % choice, list(JSON))
    got = Session().step(request("read", "write", stream=streamed), [sent])
    assert b"tool_calls" not in got.body
    assert len(got.requests) == 2


LOST = {
    "a field that could be data": b'DATA: {"choices":[]}\n\n',
    "data that a reader could cut out": b'x: \xe2\x80\xa8data: {"choices":[]}\n\n',
    "two JSON texts": b'data: {"choices":[]}\ndata: {"choices":[]}\n\n',
    "a line end within a string": b'data: {"choices":[],"x":"a\ndata: b"}\n\n',
    "the end in a second line": b'data: {"choices":[]}\ndata: [DONE]\n\n',
    "a name that could be data": b"event: ping data: {}\ndata: {}\n\n",
}


@pytest.mark.parametrize("lost", LOST)
def test_g8_what_cannot_be_written_in_one_way_ends_the_answer(lost: str) -> None:
    body = text("before") + LOST[lost] + chat_stream(call("read"))
    for cut in at_every_byte():
        got = Session().step(request("read", stream=True), [body], cut=cut)
        assert got.body.startswith(text("before") + b'data: {"error":')
        assert b"tool_calls" not in got.body
        assert got.finish is not None
        assert got.finish.outcome == "answer_unreadable"


def test_g8_a_call_in_several_lines_is_judged_as_it_is_written() -> None:
    """Its lines are read in another way by a client that goes line by line, and no client gets them."""
    hidden = b'data: {"x":\ndata: {"choices":[{"index":0,"delta":{"content":"seen"}}]}\ndata: }\n\n'
    spread = in_lines(call("write", '{"p": "SECRET"}')) + in_lines(call("read", at=1))
    body = hidden + spread + chat_stream()
    seen = Session().step(request("read", "write", stream=True), [body]).body
    assert b"SECRET" not in seen
    assert b'"name": "read"' in seen
    assert all(line.startswith(b"data: ") for line in seen.strip().split(b"\n\n"))
    assert seen.count(b"\n") == 2 * seen.count(b"data: ")
    for cut in at_every_byte():
        got = Session().step(request("read", "write", stream=True), [body], cut=cut)
        assert got.body == seen

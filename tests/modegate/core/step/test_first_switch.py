"""H14: a person tightens a session for the first time while an answer of it passes raw (L8)."""

from __future__ import annotations

import gzip
import json

import pytest

from modegate.core.log.events import CallJudged
from modegate.core.step.answer.relayed import MAX_PASSED
from modegate.core.step.effects import Counted
from modegate.scripted.model import ScriptedCall, Turn
from support.playbook import (
    JSON,
    STREAM,
    Cut,
    Got,
    Reply,
    Session,
    bytewise,
    call,
    chunk,
    mode,
    policy,
    request,
    stream,
    text,
    whole,
)
from support.speech import Speech
from support.speeches import SPEECHES

SECRET = "S3CRET"
READ = ScriptedCall("read", '{"path": "a"}')
WRITE = ScriptedCall("write", json.dumps({"path": SECRET}))
TOOLS = ("read", "grep", "write")
CUTS = pytest.mark.parametrize("cut", [whole, bytewise], ids=["whole", "bytewise"])
STREAMED = pytest.mark.parametrize("speech", [one for one in SPEECHES if one.streamed], ids=str)
CALLS = {"chat": b'"tool_calls":[', "responses": b'"function_call"', "messages": b'"tool_use"'}
"""What a frame holds with which a call begins."""


def places(body: bytes, first: int, last: int, cut: Cut) -> list[int]:
    """Return where the switch falls: at every byte near the ends of frames, and here and there between them.

    Where the rest comes byte by byte, at some of them.
    """
    if cut is bytewise:
        return [*range(first, last, 211), last]
    near = (one for one in range(first, last + 1) if b"\n\n" in body[max(0, one - 4) : one + 4])
    return sorted({*near, *range(first, last + 1, 23), first, last})


class Told:
    """One answer of the upstream, and what came of it when the switch fell at some byte."""

    def __init__(self, speech: Speech, *turns: Turn) -> None:
        self.speech = speech
        self.turns = turns
        self.asked = speech.api.request([speech.api.user("rename foo")], TOOLS, streamed=True)
        self.body = speech.reply(turns[0], json.dumps(self.asked).encode()).body

    def switched(self, after: int | None, cut: Cut = whole) -> tuple[Session, Got]:
        session = Session("default", dialect=self.speech.api.dialect())
        replies = [lambda asked, turn=turn: self.speech.reply(turn, asked) for turn in self.turns]
        return session, session.overtaken(self.asked, replies, after=after, cut=cut)

    def call_at(self) -> int:
        """Return where the frame begins with which the first call does."""
        at = self.body.index(CALLS[self.speech.name])
        return max(self.body.rfind(b"\n\n", 0, at), -2) + 2


@CUTS
@STREAMED
def test_h14_text_goes_on_wherever_the_switch_falls(speech: Speech, cut: Cut) -> None:
    """To the byte, to its end."""
    told = Told(speech, Turn("Hello é, I think.", "I reason."))
    for after in (None, *places(told.body, 0, len(told.body), cut)):
        _, got = told.switched(after, cut)
        assert got.body == told.body, after
        assert got.finish is not None
        assert not got.finish.broken


@CUTS
@STREAMED
def test_h14_a_call_that_begins_after_the_switch_is_refused(speech: Speech, cut: Cut) -> None:
    """The model is asked again, under the mode, and the client sees one answer."""
    told = Told(speech, Turn("I write.", calls=(WRITE,)), Turn("Then not."))
    for after in (None, *places(told.body, 0, told.call_at(), cut)):
        session, got = told.switched(after, cut)
        assert SECRET.encode() not in got.body, after
        assert got.body.startswith(told.body[: after or 0])
        heard = speech.heard(got)
        assert (heard.text, heard.calls, heard.finish) == ("I write.\n\nThen not.", (), "stop")
        assert speech.tools(got) == ["read", "grep"]
        assert b"PLAN-SECTION" in got.requests[-1]
        assert [e.verdict for e in session.events if isinstance(e, CallJudged)] == ["answer"]


@CUTS
@STREAMED
def test_h14_a_call_under_way_is_cut_off(speech: Speech, cut: Cut) -> None:
    """Nothing more of it goes; a client that has the beginning of a frame can take no event any more."""
    told = Told(speech, Turn("I write.", calls=(WRITE,)))
    for after in places(told.body, told.call_at() + 1, len(told.body) - 1, cut):
        _, got = told.switched(after, cut)
        rest = got.body[after:]
        assert got.finish is not None
        if told.body.startswith(got.body):
            # All that follows its end, or nothing at all.
            done = len(got.body) == len(told.body) or got.finish.outcome == "passed"
            assert got.finish.broken or done, after
            assert not (got.finish.broken and SECRET.encode() in rest)
        else:
            assert b"was cut off" in rest, after
            assert SECRET.encode() not in rest
            assert told.body[:after].endswith(b"\n\n")
        assert len(got.requests) == 1


@CUTS
@STREAMED
def test_h14_an_allowed_call_goes_on(speech: Speech, cut: Cut) -> None:
    """One that begins after the switch is judged, and the answer stays as it came."""
    told = Told(speech, Turn("I read.", calls=(READ,)))
    for after in (None, *places(told.body, 0, told.call_at(), cut), len(told.body)):
        _, got = told.switched(after, cut)
        assert got.body == told.body, after


@STREAMED
def test_h14_a_call_that_is_whole_is_judged_too(speech: Speech) -> None:
    """A client may run it only when the answer is over: what the mode forbids is cut off."""
    both = Told(speech, Turn("", calls=(READ, WRITE)), Turn("Then not."))
    alone = Told(speech, Turn("", calls=(READ,)))
    begun = [one for one in range(len(both.body)) if both.body[:one].endswith(b"\n\n")]
    for after in begun:
        _, got = both.switched(after)
        rest = got.body[after:]
        assert SECRET.encode() not in rest, after
    for after in (one for one in begun if one <= alone.call_at()):
        _, got = alone.switched(after)
        assert got.body == alone.body


def test_h14_a_whole_call_in_front_of_another() -> None:
    """Messages: an allowed block that has ended stays, and what comes behind it is judged."""
    (speech,) = [one for one in SPEECHES if str(one) == "messages-streamed"]
    told = Told(speech, Turn("", calls=(READ, WRITE)))
    end = told.body.index(b"content_block_stop")
    after = told.body.index(b"\n\n", end) + 2
    session, got = told.switched(after)
    heard = speech.heard(got)
    assert heard.names == ["read"]
    assert heard.finish == "calls"
    verdicts = [(e.tool, e.verdict) for e in session.events if isinstance(e, CallJudged)]
    assert verdicts == [("read", "release"), ("write", "answer")]
    told = Told(speech, Turn("", calls=(WRITE, READ)))
    _, got = told.switched(after + told.body.index(b"content_block_stop") - end)
    assert b"was cut off" in got.body


def test_h14_comments_that_say_nothing_go_on() -> None:
    body = ": PROCESSING é\n\n".encode() + stream(text("a é"), finish="stop")
    for after in range(30, len(body)):
        assert Session("default").overtaken(ASKED, [Reply(body)], after=after).body == body


ASKED = request("read", "write", stream=True)
HELLO = stream(text("a"), text("b"), finish="stop")
UNREADABLE = {
    "a whole body": Reply(HELLO, list(JSON)),
    "compressed": Reply(gzip.compress(HELLO), [*STREAM, (b"content-encoding", b"gzip")]),
    "counted": Reply(HELLO, [*STREAM, (b"content-length", b"%d" % len(HELLO))]),
    "an error": Reply(HELLO, list(STREAM), 500),
    "bad JSON": Reply(b"data: {oops\n\n" + HELLO),
    "an odd frame": Reply(b"data: 1\ndata: 2\n\n" + HELLO),
    "data in a comment, for who cuts there": Reply(b": x\x1cdata: {}\n\n" + HELLO),
    "data behind a line end of some": Reply(": x\u2028data: {}\n\n".encode() + HELLO),
    "too long": Reply(text("x" * MAX_PASSED) + HELLO),
}


@pytest.mark.parametrize("reply", UNREADABLE.values(), ids=UNREADABLE)
def test_h14_what_cannot_be_read_is_cut_off(reply: Reply) -> None:
    """The connection breaks, so that the client notices; nothing is written into what nobody can read."""
    after = len(reply.body) - 10
    got = Session("default").overtaken(ASKED, [reply], after=after)
    assert got.body == reply.body[:after]
    assert got.finish is not None
    assert (got.finish.outcome, got.finish.broken) == ("tightened", True)
    assert got.counts == [Counted.CUT_OFF]


def test_h14_an_answer_that_has_not_begun_is_gated_whole() -> None:
    """Also one body, and a compressed one: nothing of it has gone."""
    function = {"name": "write", "arguments": json.dumps({"p": SECRET})}
    made = {"id": "c", "type": "function", "function": function}
    message = {"role": "assistant", "content": "hm", "tool_calls": [made]}
    value = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    zipped = [*JSON, (b"content-encoding", b"gzip")]
    first = Reply(gzip.compress(json.dumps(value).encode()), zipped)
    second = Reply(
        b'{"choices":[{"index":0,"message":{"role":"assistant","content":"no"},"finish_reason":"stop"}]}',
        list(JSON),
    )
    got = Session("default").overtaken(request("read", "write"), [first, second], after=None)
    assert got.json["choices"][0]["message"]["content"] == "hm\n\nno"
    assert SECRET.encode() not in got.body


def test_h14_a_request_that_nobody_can_read_is_cut_off() -> None:
    """In the default mode it passed, and the mode refuses it."""
    session = Session("default")
    got = session.overtaken({"messages": 7, "stream": True}, [HELLO], after=None)
    assert got.head is not None
    assert got.head.status == 400


def test_h14_nothing_follows_the_end_that_was_sent() -> None:
    """Whatever the upstream sends behind its end."""
    body = stream(text("a"), finish="stop")
    reply = Reply(body + call("write", json.dumps({"p": SECRET})))
    got = Session("default").overtaken(ASKED, [reply], after=len(body))
    assert got.body == body
    assert got.finish is not None
    assert (got.finish.outcome, got.finish.broken) == ("passed", False)


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"], ids=repr)
def test_h14_frames_end_in_every_way(end: bytes) -> None:
    """A frame may have gone whole though its end can still grow."""
    body = stream(text("a"), text("b"), chunk({}, "stop"), finish=None)
    body = body.replace(b"\n\n", end)
    for after in range(len(body) + 1):
        got = Session("default").overtaken(ASKED, [body], after=after, cut=bytewise)
        assert got.body == body, after


def test_h14_of_a_comment_under_way_only_the_end_goes() -> None:
    """What it says is for nobody, and some client could take it for data."""
    comment = b": hi data: {call}\n\n"
    body = comment + HELLO
    for after in range(1, len(comment)):
        got = Session("default").overtaken(ASKED, [body], after=after, cut=bytewise)
        assert got.body == body[:after] + b"\n\n" + HELLO, after
    beside = b": hi data: {call}\ndata: " + HELLO.removeprefix(b"data: ")
    got = Session("default").overtaken(ASKED, [beside], after=9)
    assert got.body == beside[:9]
    assert got.finish is not None
    assert got.finish.broken


# The restore path: the default mode of a session that once had one, where nothing is to be answered ------


def relayed(declares: str, body: bytes, after: int | None) -> Got:
    """Let a session's answer be relayed, and a person tighten it after so many bytes."""
    session = Session("plan")
    session.step(request("read"), [stream(text("x"), finish="stop")])
    session.set_mode("default")
    asked = request(*(["exit_plan_mode", "write"] if declares == "exit" else []), stream=True)
    return session.step(asked, [body], cut=bytewise, tighten_after=after)


@pytest.mark.parametrize("declares", ["exit", "nothing"])
def test_h14_what_the_restore_path_relays_is_read_from_the_switch_on(declares: str) -> None:
    """A request without tools, or with an exit tool of its own: nothing of ours stands in its answer."""
    front = text("a") + text("b")
    body = stream(front, call("write", json.dumps({"p": SECRET})))
    for after in (None, *range(len(front) + 1)):
        got = relayed(declares, body, after)
        assert SECRET.encode() not in got.body, after
        assert got.body.startswith(front)
    got = relayed(declares, body, len(front) + 20)
    assert got.finish is not None
    assert got.finish.broken
    assert got.body == body[: len(front) + 20]


def test_h14_what_the_restore_path_cannot_read_is_cut_off() -> None:
    """It had given in: no mode was in force."""
    session = Session("plan")
    session.step(request("read"), [stream(text("x"), finish="stop")])
    session.set_mode("default")
    front = b"data: {oops\n\n"
    body = front + call("write", json.dumps({"p": SECRET}))
    asked = request("read", "write", stream=True)
    got = session.step(asked, [body], cut=bytewise, tighten_after=len(front))
    assert got.body == front
    assert got.finish is not None
    assert got.finish.broken


def test_tightened_changes_nothing_where_all_is_read() -> None:
    """A step in a mode, and one that is over."""
    session = Session("plan")
    body = stream(text("a"), call("read"))
    got = session.step(request("read", "write", stream=True), [body], cut=bytewise, tighten_after=9)
    assert got.body == body


GPTME = {"role": "system", "content": "You are gptme."}
USER = {"role": "user", "content": "go"}


@pytest.mark.parametrize("before", ["default", "lax"])
@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
def test_h14_a_call_in_text_after_a_later_switch_never_comes(before: str, streams: bool) -> None:
    """No mode wanted it held when the answer began, so nobody has looked for calls in its text."""
    rules = policy(mode("plan", "read"), mode("lax", "read", text_calls="pass"))
    session = Session("plan", rules)
    session.step(request("read"), [stream(text("x"), finish="stop")])
    session.set_mode(before)
    said = f'@write(c1): {{"p": "{SECRET}"}}'
    front, back = text("I write.\n"), text(f"{said}\n")
    body = (
        stream(front, back, finish="stop")
        if streams
        else json.dumps(
            {"choices": [{"index": 0, "finish_reason": "stop", "message": {"content": said}}]}
        ).encode()
    )
    reply = Reply(body) if streams else Reply(body, headers=JSON)
    asked = request("read", "write", messages=[GPTME, USER], stream=streams)
    after = len(front) if streams else 0
    got = session.step(asked, [reply], cut=bytewise, tighten_after=after)
    assert SECRET.encode() not in got.body
    assert b"was cut off" in got.body

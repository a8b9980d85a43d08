"""The default mode of a session that once had a mode: only a stray exit call does not pass."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.errors import UpstreamFailed
from modegate.core.log.events import CallJudged, RequestHeader, RequestHeaderDelta, TurnWithheld
from modegate.core.step.answer.parts import ChoiceRead
from modegate.core.step.effects import Finish, SendHead
from support.playbook import (
    DONE,
    JSON,
    STREAM,
    USAGE,
    Cut,
    Reply,
    Session,
    answer,
    bytewise,
    call,
    chunk,
    cut_at,
    piece,
    read_stream,
    request,
    said,
    stream,
    text,
    tool_call,
    whole,
)

ASKED = request("read", "write")
PLAN = '{"plan": "# Plan"}'
EXIT = "exit_plan_mode"


def left(**more: Any) -> Session:
    """Return a session that a person has taken out of its mode; nothing is owed to the model."""
    session = Session(**more)
    session.step(ASKED, [said()])
    session.set_mode("default")
    session.step(ASKED, [said()])  # gives the notice
    session.events.clear()
    return session


CUTS = pytest.mark.parametrize("cut", [whole, bytewise], ids=["whole", "bytewise"])


@CUTS
@pytest.mark.parametrize("body", [
    stream(text("a"), call("write", '{"p":1}'), call("read", at=1)) + b": late\n\n",
    stream(text("a"), USAGE, finish="stop"),
    b": hi\n\n" + stream(piece(index=0, id="x", function={"name": "wri", "arguments": "{"}), piece(
        index=0, function={"name": "te", "arguments": "}"})),
    stream(text("a"), finish="stop", done=False),
    text("no end"),
    text("a") + b"data: {oops\n\n" + call("write") + DONE,
    call("write") + b"data: 1\ndata: 2\n\n" + call("read", at=1) + b"rest without an end",
    b'data: {"choices": 7}\n\n' + text("b"),
    chunk({"content": "a"}, "length") + call("write"),
    b"",
], ids=["calls", "text", "pieces", "no-done", "no-finish", "bad-json", "odd-frame", "bad-choices", "late",
        "empty"])  # fmt: skip
def test_every_stream_passes_as_it_came(body: bytes, cut: Cut) -> None:
    """Calls too, and what the gate cannot read; nothing is logged of it."""
    session = left()
    got = session.step(ASKED, [body], cut=cut)
    rest = b": late\n\n" if body.endswith(b": late\n\n") else b""
    assert got.body == body.removesuffix(rest)
    assert session.events == []
    assert got.finish is not None
    assert not got.finish.broken


@pytest.mark.parametrize(
    "body", [b"{oops", b'{"choices": 7}', b"[]", b'{"a":1,"a":2}', b""], ids=repr
)
def test_every_body_passes_as_it_came(body: bytes) -> None:
    """Whole answers likewise."""
    got = left().step(ASKED, [Reply(body, list(JSON))])
    assert got.body == body
    assert got.head is not None
    assert dict(got.head.headers)[b"content-length"] == str(len(body)).encode()


def test_the_request_is_the_clients_own() -> None:
    """No tool is filtered, no section and no exit tool is added."""
    session = left()
    sent = session.step(ASKED, [said()]).upstream
    told = sent["messages"].pop()
    assert sent == {**ASKED, "messages": []}
    assert told["content"].startswith("rename foo")
    assert not [e for e in session.events if isinstance(e, RequestHeader | RequestHeaderDelta)]


STRAY = {
    "streamed": (stream(text("so: "), call(EXIT, PLAN)), said("done")),
    "whole": (
        answer({"content": "so: ", "tool_calls": [tool_call(EXIT, PLAN)]}),
        answer({"content": "done"}, "stop"),
    ),
}


@CUTS
@pytest.mark.parametrize("replies", STRAY.values(), ids=STRAY)
def test_l9_a_stray_exit_call_is_answered(replies: tuple[Any, ...], cut: Cut) -> None:
    """The model hears that no mode is in force and goes on; nobody is asked, and no mode changes."""
    session = left()
    got = session.step(ASKED, list(replies), cut=cut)
    assert EXIT.encode() not in got.body
    assert got.asked == []
    assert session.state.mode == "default"
    turn, result = got.upstream["messages"][-2:]
    assert turn["tool_calls"][0]["function"] == {"name": EXIT, "arguments": PLAN}
    assert "not in a mode" in result["content"]
    assert got.upstream["tools"] == ASKED["tools"]
    if got.head and dict(got.head.headers)[b"content-type"] == b"text/event-stream":
        assert read_stream(got.body)[0] == {"text": "so: \n\ndone", "calls": {}, "finish": "stop"}
    else:
        assert got.json["choices"][0]["message"]["content"] == "so: \n\ndone"
    assert [type(event) for event in session.events] == [CallJudged, TurnWithheld]


def test_a_stray_exit_call_beside_another() -> None:
    """The other goes out; the stray one is put back with its answer."""
    session = left()
    both = stream(call("write", '{"a":1}', id_="call_0123456789"), call(EXIT, PLAN, at=1))
    got = session.step(ASKED, [both])
    assert [one["name"] for one in read_stream(got.body)[0]["calls"].values()] == ["write"]
    history = [
        *ASKED["messages"],
        {"role": "assistant", "tool_calls": [tool_call("write", '{"a":1}', "call_0123456789")]},
        {"role": "tool", "tool_call_id": "call_0123456789", "content": "ok"},
    ]  # fmt: skip
    sent = session.step({**ASKED, "messages": history}, [said()]).upstream["messages"]
    assert [c["function"]["name"] for c in sent[1]["tool_calls"]] == ["write", EXIT]
    assert "not in a mode" in json.dumps(sent)


def test_an_agent_with_an_exit_tool_of_its_own_gets_its_calls() -> None:
    """What the client declares is the client's."""
    session = left()
    body = stream(call(EXIT, PLAN))
    assert session.step(request("read", EXIT), [body]).body == body


def test_l8_a_person_can_stop_a_write_that_is_still_streaming() -> None:
    """Tightened while the answer comes, the session releases by the new mode too."""
    session = left()
    session.during = lambda: session.set_mode("plan")
    got = session.step(ASKED, [stream(text("a"), call("write")), said("stopped")])
    assert b"write" not in got.body
    assert read_stream(got.body)[0]["text"] == "a\n\nstopped"
    # What follows is assembled in the mode.
    assert [one["function"]["name"] for one in got.upstream["tools"]] == ["read"]


UNREAD = {
    "streamed": Reply(text("a") + call("write") + b"data: {oops\n\n" + chunk(None, "tool_calls")),
    "without-an-end": Reply(text("a") + call("write")),
    "whole": Reply(
        b'{"a":1,"a":2,"choices":[{"message":{"tool_calls":[{"write":1}]}}]}', list(JSON)
    ),
}


@CUTS
@pytest.mark.parametrize("reply", UNREAD.values(), ids=UNREAD)
def test_l8_a_person_also_stops_what_nobody_can_read(reply: Reply, cut: Cut) -> None:
    """It passes in the default mode alone, and that is asked when it would."""
    session = left()
    session.during = lambda: session.set_mode("plan")
    got = session.step(ASKED, [reply], cut=cut)
    assert b"write" not in got.body
    assert got.finish is not None
    assert got.finish.outcome == "answer_unreadable"


@pytest.mark.parametrize("at", range(0, 400, 7))
def test_cut_anywhere(at: int) -> None:
    """An unreadable frame at any place, and any cut: nothing is lost, nothing is told twice."""
    body = text("a") + call("write", '{"a": 1}') + b"data: {oops\n\n" + chunk(None, "tool_calls")
    assert left().step(ASKED, [body], cut=cut_at(at)).body == body


def test_an_upstream_that_breaks_off_breaks_off() -> None:
    """No error is invented once an answer has begun."""
    got = left().step(ASKED, [Reply(text("a"), broken=True)])
    assert (got.body, got.finish) == (text("a"), Finish("cut", broken=True))
    got = left().step(ASKED, [Reply(b'{"choices', list(JSON), broken=True)])
    assert got.head is not None
    assert got.head.status == UpstreamFailed.status


@pytest.mark.parametrize(("status", "coding"), [
    (301, b""), (404, b""), (200, b"gzip"), (200, b"rot13"), (500, b"gzip"),
])  # fmt: skip
def test_what_is_not_read_is_relayed(status: int, coding: bytes) -> None:
    """Its head too."""
    lines = [*STREAM, *([(b"content-encoding", coding)] if coding else [])]
    got = left().step(ASKED, [Reply(b"\x00\xff", lines, status)])
    assert (got.head, got.body) == (SendHead(status, lines), b"\x00\xff")


def test_too_much_to_hold_passes() -> None:
    """What is held is bounded; over it the answer is only passed on."""
    session = left()
    long = stream(call("write", json.dumps({"text": "x" * 100})))
    session.policy = type(session.policy)(
        session.policy.hash,
        session.policy.modes,
        limits=type(session.policy.limits)(held=100, frame=200),
    )
    assert session.step(ASKED, [long]).body == long


def test_a_later_hop_is_not_passed_unread() -> None:
    """Something of ours stands in front of it already: the answer ends with what was refused."""
    got = left().step(ASKED, [stream(call(EXIT, PLAN)), text("b") + b"data: {oops\n\n"])
    read = read_stream(got.body)[0]
    assert read["text"].startswith("b\n\n")
    assert read["finish"] == "stop"


def test_segments_name_no_mode() -> None:
    """A choice tells its texts and calls apart for the log."""
    assert [one.kind for one in ChoiceRead({"text": ["a"], "reasoning": ["b"]}).segments()] == [
        "text",
        "reasoning",
    ]

"""H7: an error whose body is an answer does not pass in a mode; every other error does, byte for byte."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from modegate.core.step.answer.rejection import MAX_REJECTION, holds_answer
from modegate.core.step.effects import Counted
from modegate.scripted.model import ScriptedCall, Turn
from support.playbook import JSON, STREAM, Cut, Reply, bytewise, said, whole
from support.speech import Agent, Speech
from support.speeches import SPEECHES

SECRET = "S3CRET"
WRITE = ScriptedCall("write", json.dumps({"path": SECRET}))
HTML = [(b"content-type", b"text/html")]
CUTS = pytest.mark.parametrize("cut", [whole, bytewise], ids=["whole", "bytewise"])


def said_with(agent: Agent, status: int, **more: Any) -> Reply:
    """Return an answer with a call, under this status."""
    speech = agent.speech
    asked = speech.api.request(agent.history, agent.tools, streamed=speech.streamed)
    reply = speech.reply(Turn("hm", calls=(WRITE,)), json.dumps(asked).encode())
    return Reply(reply.body, more.get("headers", reply.headers), status)


@CUTS
@pytest.mark.parametrize("status", [400, 401, 429, 500, 529])
@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_h7_an_error_that_is_an_answer(speech: Speech, status: int, cut: Cut) -> None:
    """Some clients do not look at the status."""
    agent = Agent(speech)
    heard = agent.step(said_with(agent, status), cut=cut)
    assert SECRET.encode() not in agent.got.body
    assert agent.got.head is not None
    assert agent.got.head.status == 502
    assert f"answers {status}" in heard.error
    assert agent.got.counts == [Counted.UNREADABLE]


@pytest.mark.parametrize(
    "headers", [JSON, STREAM, HTML, []], ids=["json", "stream", "html", "none"]
)
@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_h7_whatever_its_type_says(speech: Speech, headers: list[tuple[bytes, bytes]]) -> None:
    """A client may read a body in its own way."""
    agent = Agent(speech)
    agent.step(said_with(agent, 500, headers=headers))
    assert SECRET.encode() not in agent.got.body


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_h7_in_a_later_hop(speech: Speech) -> None:
    """The answer ends with our words."""
    agent = Agent(speech)
    heard = agent.step(Turn("a", calls=(WRITE,)), said_with(agent, 500))
    assert SECRET.encode() not in agent.got.body
    assert "Refused" in heard.text


ERRORS = {
    "of the API": b'{"error": {"message": "no", "type": "invalid_request_error"}}',
    "of Anthropic": b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
    "with a message": b'{"message": "no", "detail": [{"loc": ["body"], "input": {"tool_calls": [1]}}]}',
    "with empty places": b'{"error": {"code": 1}, "choices": [], "output": null, "content": ""}',
    "with a text": b'{"object": "error", "message": "no", "content": "none"}',
    "a list": b'[{"error": {"code": 429, "message": "quota"}}]',
    "a page": b'<html><head><meta content="x"><style>a {b: c}</style></head><body>502</body></html>\n',
    "a page with a script": b'<script>window.x = {"content": [1, {a: 2}]};\nvar y = {};</script>',
    "plain text": b"upstream connect error or disconnect/reset before headers",
    "half of an object": b'{"error": {"mess',
    "no object": b"7",
    "not text": b"\xff\xfe\x00\x01\x02",
    "an error event": b'event: error\ndata: {"error": {"message": "no"}}\n\n',
    "nothing": b"",
    "many events of an error": b'data: {"error": {"message": "no"}}\n\n' * 9,
    "of many lines, with what was asked": json.dumps(
        {"detail": [{"input": {"messages": [{"role": "user", "content": [{"text": "data: x"}]}]}}]},
        indent=1,
    ).encode(),
}


@CUTS
@pytest.mark.parametrize("status", [400, 503])
@pytest.mark.parametrize("body", ERRORS.values(), ids=ERRORS)
def test_h7_errors_reach_the_client_as_they_came(body: bytes, status: int, cut: Cut) -> None:
    """Head and body, whatever the provider or a gateway on the way says."""
    headers = [(b"content-type", b"x/y"), (b"retry-after", b"7"), (b"x-request-id", b"r")]
    for speech in SPEECHES:
        agent = Agent(speech)
        asked = json.dumps(
            speech.api.request(agent.history, agent.tools, streamed=speech.streamed)
        ).encode()
        got = agent.session.step(asked, [Reply(body, headers, status)], cut=cut)
        assert got.body == body
        assert got.head is not None
        assert (got.head.status, got.head.headers) == (status, headers)
        assert got.finish is not None
        assert not got.finish.broken


CALL = b'{"choices": [{"message": {"tool_calls": [{"function": {"name": "write"}}]}}]}'
DISGUISED = {
    "behind a comment": b": x data: " + CALL + b"\n\n",
    "in an id": b"id: data: " + CALL + b"\n\n",
    "behind text": b"oops\n" + CALL + b"\n",
    "on two data lines": b"data: " + CALL[:30] + b"\ndata: " + CALL[30:] + b"\n\n",
    "over several lines": CALL.replace(b" ", b"\n"),
    "with text behind": CALL + b" trailing",
    "with a mark in front": b"\xef\xbb\xbf" + CALL,
    "in UTF-16": CALL.decode().encode("utf-16"),
    "in UTF-32": CALL.decode().encode("utf-32-le"),
    "in two cases": CALL.replace(b"choices", b"Choices"),
    "escaped": CALL.replace(b"choices", b"choic\\u0065s"),
    "said twice": CALL[:-1] + b', "choices": []}',
    "with not a number": CALL[:-1] + b', "x": NaN}',
    "with a control character": CALL[:-1] + b', "x": "\t"}',
    "not UTF-8": CALL[:-1] + b', "x": "\xff"}',
    "beside an error": b'{"error": {"message": "no"}, ' + CALL[1:],
    "in a list": b"[" + CALL + b"]",
    "split at odd lines": b"data: " + CALL + b"\x85rest",
    "behind another": b"{}\n" + CALL,
    "as data behind a list": b": [x] data: " + CALL + b"\n\n",
    "in an event of many": b"data: {}\n\n" * 2000,
    "too deep": b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}


@pytest.mark.parametrize("body", DISGUISED.values(), ids=DISGUISED)
def test_h7_an_answer_in_disguise(body: bytes) -> None:
    """What some client could take for one is one."""
    agent = Agent(SPEECHES[0])
    agent.step(Reply(body, list(JSON), 500))
    assert agent.got.head is not None
    assert agent.got.head.status == 502
    assert b"write" not in agent.got.body


@pytest.mark.parametrize("key", [
    b'{"output": [{"type": "function_call", "name": "write"}]}',
    b'{"type": "response.completed", "response": {"output": [{"type": "function_call"}]}}',
    b'{"type": "response.output_item.done", "item": {"type": "function_call"}}',
    b'{"content": [{"type": "tool_use", "name": "write"}]}',
    b'{"type": "content_block_start", "content_block": {"type": "tool_use"}}',
    b'{"message": {"content": [{"type": "tool_use"}]}}',
    b'{"message": {"tool_calls": [{}]}}',
])  # fmt: skip
def test_h7_answers_of_every_api(key: bytes) -> None:
    """Whole ones and events of a stream."""
    assert holds_answer(key)
    assert holds_answer(b"event: x\ndata: " + key + b"\n\n")


ZIPPED = [(b"content-encoding", b"gzip"), *JSON]


@CUTS
def test_h7_a_compressed_error(cut: Cut) -> None:
    """It is read, and goes as it came."""
    plain = ERRORS["of the API"]
    agent = Agent(SPEECHES[0])
    body = gzip.compress(plain)
    got = agent.session.step({"messages": []}, [Reply(body, ZIPPED, 500)], cut=cut)
    assert got.body == body
    got = agent.session.step({"messages": []}, [Reply(gzip.compress(CALL), ZIPPED, 500)], cut=cut)
    assert got.head is not None
    assert got.head.status == 502
    # What is not what its coding says goes as it came, unless there is an answer in front of the break.
    for broken in (b"\x1f\x8bwhatever", gzip.compress(plain)[:30] + b"x" * 20):
        got = agent.session.step({"messages": []}, [Reply(broken, ZIPPED, 500)], cut=cut)
        assert got.body == broken
    for hidden in (CALL, gzip.compress(CALL)[:-8] + b"x" * 20):
        got = agent.session.step({"messages": []}, [Reply(hidden, ZIPPED, 500)], cut=cut)
        assert b"write" not in got.body
    # Some clients take what there is of a body that stops too early.
    cut_short = Reply(gzip.compress(CALL)[:-8], ZIPPED, 500)
    got = agent.session.step({"messages": []}, [cut_short], cut=cut)
    assert got.head is not None
    assert got.head.status == 502


@pytest.mark.parametrize("reply", [
    Reply(b"x", [(b"content-encoding", b"rot13")], 500),
    Reply(b"x" * 70_000, ZIPPED, 500),
    Reply(b"x" * (MAX_REJECTION + 1), list(JSON), 400),
    Reply(gzip.compress(b"x" * (MAX_REJECTION + 1)), ZIPPED, 400),
    Reply(b"x", [(b"content-type", b"application/json; charset=cp037")], 400),
], ids=["coding", "broken", "long", "bomb", "charset"])  # fmt: skip
def test_h7_an_error_that_cannot_be_read(reply: Reply) -> None:
    """Nobody can know what it is; the client hears of the status."""
    for speech in SPEECHES:
        agent = Agent(speech)
        heard = agent.step(reply)
        assert f"answers {reply.status}" in heard.error


def test_h7_in_the_default_mode_errors_are_not_read() -> None:
    """No mode forbids what they hold."""
    agent = Agent(SPEECHES[0])
    agent.session.set_mode("default")
    got = agent.session.step({"messages": []}, [Reply(CALL, list(JSON), 500)], cut=bytewise)
    assert got.body == CALL


def test_h7_an_error_that_breaks_off() -> None:
    """Its rest is not known."""
    agent = Agent(SPEECHES[0])
    agent.step(Reply(b'{"error"', list(JSON), 500, broken=True))
    assert agent.got.head is not None
    assert agent.got.head.status == 502
    assert agent.step(Reply(said(), list(STREAM))).text == "ok"

"""Answers of the Messages API that are one body: the same gate, the same hops, surgical edits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.message_frames import SECRET, call, message, session, whole
from support.messages import request
from support.playbook import JSON, Got, Reply
from support.speech import Heard
from support.speech_messages import MessagesApi

ASK = request("read", "grep", "write")
TEXT = {"type": "text", "text": "I look."}
WRITE = call("write", {"path": SECRET}, "toolu_write")
READ = call("read", {"p": 1}, "toolu_read")


def step(*hops: Reply) -> Got:
    """Live through one step in plan mode."""
    return session().step(ASK, list(hops))


def heard(got: Got) -> Heard:
    """Read what the client got as a strict client does."""
    return MessagesApi().heard(got.body, streamed=False)


def said(words: str = "ok", **more: Any) -> Reply:
    """Return an answer that is only text."""
    return whole({"type": "text", "text": words}, reason="end_turn", **more)


ALLOWED = {
    "text": said(),
    "nothing": whole(reason="end_turn"),
    "call": whole(TEXT, READ),
    "call and end_turn": whole(READ, reason="end_turn"),
    "thinking": whole({"type": "thinking", "thinking": "", "signature": "s"}, TEXT, reason="end_turn"),
    "max_tokens": whole(READ, reason="max_tokens"),
    "an error": Reply(b'{"type":"error","error":{"type":"x","message":"y"}}', list(JSON)),
    "no content": Reply(b'{"type":"message","content":null,"stop_reason":"end_turn"}', list(JSON)),
    "other spelling": Reply(
        b'{ "content" : [ {"type":"tool_use","input":{"n":1.0},"id":"t","name":"read"} ] }', list(JSON)),
}  # fmt: skip


@pytest.mark.parametrize("reply", ALLOWED.values(), ids=ALLOWED)
def test_what_is_allowed_passes_to_the_byte(reply: Reply) -> None:
    """Nothing is written anew."""
    assert step(reply).body == reply.body


def test_a_wholly_refused_answer_is_followed_by_another_hop() -> None:
    """The client gets the blocks of both, as they were, and the tokens of both answers."""
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "signed-a+/="}
    first = whole(thinking, TEXT, WRITE, usage={"input_tokens": 7, "output_tokens": 5})
    got = step(first, whole(READ, usage={"input_tokens": 9, "output_tokens": 3}))
    assert SECRET.encode() not in got.body
    one = heard(got)
    assert (one.reasoning, one.text, one.names) == ("Hm.", "I look.", ["read"])
    assert one.usage == (9, 8)
    assistant, user = got.upstream["messages"][1:]
    assert assistant["content"] == [thinking, TEXT, WRITE]
    assert user["content"][0]["is_error"] is True
    assert json.dumps(thinking).encode() in got.requests[1]
    assert json.dumps(thinking).encode() in got.body


def test_the_bytes_that_stay_stay() -> None:
    """Only blocks that are refused go, each with its comma."""
    body = b'{"id": "m", "content": [%b ,\n {"type":"text","text":"\\u0061"}, %b,%b ], "n": 1.0}'
    blocks = [json.dumps(one).encode() for one in (WRITE, READ, WRITE)]
    got = step(Reply(body % (*blocks,), list(JSON)))
    kept = b'{"id": "m", "content": [{"type":"text","text":"\\u0061"}, %b ], "n": 1.0}'
    assert got.body == kept % blocks[1]


@pytest.mark.parametrize("front", [[], [TEXT]], ids=["alone", "behind text"])
@pytest.mark.parametrize(("reason", "kept"), [("tool_use", "end_turn"), ("max_tokens",) * 2])
def test_an_answer_that_ends_with_a_refusal(
    front: list[dict[str, Any]], reason: str, kept: str
) -> None:
    """A text says what was refused; the reason stays where it ends a turn."""
    got = step(whole(*front, WRITE, reason=reason))
    assert got.json["stop_reason"] == kept
    *shown, closing = got.json["content"]
    assert shown == front * (1 if kept == "max_tokens" else len(got.requests))
    assert closing["type"] == "text"
    assert "[modegate] Refused" in closing["text"]


def test_a_finish_that_tells_of_calls_where_none_was_made_is_a_normal_one() -> None:
    """Sent on, it makes agents loop or fail."""
    assert heard(step(whole(TEXT))).finish == "stop"


def test_a_later_hop_that_fails_ends_with_the_closing_text() -> None:
    """What the first has said stays."""
    got = step(whole(TEXT, WRITE), Reply(b"", list(JSON), status=500))
    one = heard(got)
    assert one.finish == "stop"
    assert one.text.startswith("I look.\n\n[modegate] Refused")


UNREADABLE = {
    "no JSON": b"{",
    "a list": b"[]",
    "content a string": b'{"content":"x"}',
    "content an object": b'{"content":{"type":"tool_use"}}',
    "content of strings": b'{"content":["x"]}',
    "content twice": b'{"content":[],"content":[{"type":"tool_use","name":"write"}]}',
    "type twice": b'{"content":[{"type":"text","type":"tool_use","name":"write","text":""}]}',
    "another case": b'{"Content":[{"type":"tool_use","name":"write"}],"content":[]}',
    "call outside": b'{"content":[],"more":{"type":"tool_use","name":"write"}}',
    "call inside": b'{"content":[{"type":"text","text":"","more":[{"type":"tool_use"}]}]}',
    "chat": b'{"content":[],"choices":[{"message":{"tool_calls":[]}}]}',
    "reason a number": b'{"content":[],"stop_reason":1}',
    "too many blocks": b'{"content":[%b]}' % b",".join([b'{"type":"text"}'] * 4097),
    "too many calls": b'{"content":[%b]}' % b",".join([b'{"type":"tool_use","name":"x"}'] * 129),
}  # fmt: skip


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_what_leaves_a_doubt_is_an_error(body: bytes) -> None:
    """In the API's own shape."""
    got = step(Reply(body, list(JSON)))
    assert got.head is not None
    assert got.head.status == 502
    assert got.json["type"] == "error"
    assert got.json["error"]["type"] == "api_error"


ODD = {
    "a string": call("read") | {"input": "{}"},
    "a list": call("read") | {"input": [1]},
    "no name": {"type": "tool_use", "id": "t", "input": {"p": 1}},
    "id a number": call("read") | {"id": 7},
    "toolset": call("read", toolset_name="browser"),
}


@pytest.mark.parametrize("block", ODD.values(), ids=ODD)
def test_a_call_that_cannot_be_read_is_refused(block: dict[str, Any]) -> None:
    """It alone."""
    got = step(whole(TEXT, block), said())
    assert heard(got).text == "I look.\n\nok"
    assert len(got.requests) == 2


def test_arguments_with_a_key_twice_are_refused_alone() -> None:
    """Clients differ in which one they take; what stands there goes nowhere."""
    block = (
        json.dumps(call("read", {"path": 1})).replace('"path": 1', '"path": 1, "path": 2').encode()
    )
    value = json.dumps(message(content=[TEXT, "X"], stop_reason="tool_use")).encode()
    got = step(Reply(value.replace(b'"X"', block), list(JSON)), said())
    assert heard(got).text == "I look.\n\nok"
    assert got.upstream["messages"][1]["content"][1]["input"] == {}


def test_arguments_that_are_absent_are_none() -> None:
    """As some servers leave them out, or send null."""
    for block in ({"type": "tool_use", "id": "t", "name": "read"}, call("read") | {"input": None}):
        reply = whole(block)
        assert step(reply).body == reply.body

"""H15: a frame that says something twice is not edited by guess: it ends the answer with an error."""

from __future__ import annotations

import json

import pytest

from support.playbook import DONE, JSON, Reply, Session, call, request, text

ONE = {"index": 0, "delta": {}, "finish_reason": "tool_calls"}
OTHER = {"index": 0, "delta": {"content": "b"}, "finish_reason": "stop"}


def twice(key: str, *, whole: bool = False) -> bytes:
    """Return an end of an answer in which one key comes twice."""
    body = "message" if whole else "delta"
    said = {"content": "a"}
    choice = [f'"index":0,"{body}":{json.dumps(said)}', '"finish_reason":"stop"']
    more = {
        "choices": "",
        "delta": f',"{body}":{{"content":"b"}}',
        "finish_reason": ',"finish_reason":"length"',
        "index": ',"index":1',
        "usage": "",
    }[key]
    one = "{" + ",".join(choice) + more + "}"
    choices = f'"choices":[{one}]' + (f',"choices":[{one}]' if key == "choices" else "")
    usage = (
        ',"usage":{"completion_tokens":1},"usage":{"completion_tokens":2}' if key == "usage" else ""
    )
    return ('{"id":"c","created":1,' + choices + usage + "}").encode()


KEYS = ["choices", "delta", "finish_reason", "index", "usage"]


@pytest.mark.parametrize("refused", [True, False], ids=["behind-a-refusal", "alone"])
@pytest.mark.parametrize("key", KEYS)
def test_h15_a_key_twice_in_a_frame(key: str, refused: bool) -> None:
    held = call("write") if refused else b""
    body = text("hm") + held + b"data: " + twice(key) + b"\n\n" + DONE
    got = Session().step(request("read", "write", stream=True), [body])
    assert b"duplicate key" in got.body
    assert got.finish is not None
    assert got.finish.outcome == "answer_unreadable"
    assert len(got.requests) == 1


@pytest.mark.parametrize("key", KEYS)
def test_h15_a_key_twice_in_a_later_hop(key: str) -> None:
    first = call("write") + b"data: " + json.dumps({"choices": [ONE]}).encode() + b"\n\n" + DONE
    body = text("hm") + b"data: " + twice(key) + b"\n\n" + DONE
    got = Session().step(request("read", "write", stream=True), [first, body])
    assert got.finish is not None
    assert got.finish.outcome == "later_hop_failed"


@pytest.mark.parametrize("key", KEYS)
def test_h15_a_key_twice_in_a_body(key: str) -> None:
    got = Session().step(request("read", "write"), [Reply(twice(key, whole=True), list(JSON))])
    assert got.head is not None
    assert got.head.status == 502

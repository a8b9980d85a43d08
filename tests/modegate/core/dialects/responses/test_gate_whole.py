"""Answers that come as one body, through the gate."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support import judges
from support.playbook import POLICY, Got, Reply
from support.responses import (
    call,
    last,
    message,
    reasoning,
    request,
    response,
    session,
    whole,
)

REQUEST = request("read", "grep", "write", stream=True)
READ, GREP = call("read", '{"path":"a"}'), call("grep", '{"for":"b"}', 2)
WRITE = call("write", '{"path":"SECRET"}')


def step(*replies: Any, rules: Any = POLICY, body: Any = REQUEST) -> Got:
    return session(rules=rules).step(body, replies)


def output(body: bytes) -> list[Any]:
    found: list[Any] = last(body)["output"]
    return found


# Whole ------------------------------------------------------------------------------------------

ASKED = request("read", "grep", "write")


def test_a_whole_answer_that_stays_keeps_its_bytes() -> None:
    reply = whole(reasoning(), message("a"), READ)
    assert step(reply, body=ASKED).body == reply.body


def test_a_whole_answer_of_several_hops() -> None:
    got = step(
        whole(reasoning(), message("a"), WRITE),
        whole(message("b", "msg_2"), READ, WRITE | {"id": "z", "call_id": "zz"}, n=2),
        body=ASKED,
    )
    assert b"SECRET" not in got.body
    value = got.json
    assert [item["type"] for item in value["output"]] == [
        "reasoning",
        "message",
        "message",
        "function_call",
    ]
    assert value["id"] == "resp_2"
    assert value["usage"]["output_tokens"] == 10
    assert judges.responses(got.body, streamed=False).output_text == "ab"


def test_a_whole_answer_ends_with_what_was_refused() -> None:
    got = step(whole(WRITE), body=ASKED)
    (item,) = got.json["output"]
    assert item["content"][0]["text"].startswith("[modegate] Refused")


@pytest.mark.parametrize("body", [
    {"output": "x"}, {"output": [1]}, {"output": [{"type": 3}]}, {"output": [{}]},
    {"response": {"output": [WRITE]}}, {"item": WRITE},
    {"output": [message("a") | {"content": [WRITE]}]},
    {"output": [message("a") | {"content": [{"type": "output_text", "text": "a", "x": WRITE}]}]},
    {"Output": [WRITE]}, {"output": [], "more": [WRITE]}, {"output": [], "function_call": WRITE},
    {"output": [{**WRITE, "Name": "read"}]},
    {"output": [{**message("a"), "role": "user"}]},
    {"output": [{"type": "message", "content": 1}]},
], ids=map(str, range(14)))  # fmt: skip
def test_a_whole_answer_that_leaves_a_doubt_is_refused(body: Any) -> None:
    got = step(Reply(json.dumps(response([]) | body).encode(), [(b"content-type", b"application/json")]),
               body=ASKED)  # fmt: skip
    assert got.head is not None
    assert got.head.status == 502
    assert b"SECRET" not in got.body


def test_duplicate_keys_are_refused() -> None:
    raw = json.dumps(response([READ])).replace('"name": "read"', '"name": "read", "name": "write"')
    got = step(Reply(raw.encode(), [(b"content-type", b"application/json")]), body=ASKED)
    assert got.head is not None
    assert got.head.status == 502


@pytest.mark.parametrize("items", [
    [call("read", at=at) for at in range(200)],
    [message("a", f"m{at}") for at in range(600)],
], ids=["calls", "items"])  # fmt: skip
def test_a_whole_answer_has_limits(items: list[Any]) -> None:
    got = step(whole(*items), body=ASKED)
    assert got.head is not None
    assert got.head.status == 502


def test_a_whole_answer_goes_on_from_what_the_client_said() -> None:
    got = step(
        whole(WRITE, previous_response_id="resp_0"),
        whole(message("b"), n=2, previous_response_id="resp_1"),
        body=ASKED,
    )
    assert got.json["previous_response_id"] == "resp_0"

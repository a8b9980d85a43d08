"""Requests that only ask how long they would be: shown as the model would see them, and nothing is logged."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from modegate.core.dialects.chat.dialect import CHAT
from modegate.core.ids import StepId
from modegate.core.step.effects import CallUpstream, Headers, SendBytes, SendHead
from modegate.core.step.exchange import Exchange, StepRequest
from modegate.core.wire.request_body import RequestBody
from support.playbook import JSON, SECTION, STREAM, Session, request

COUNTED = b'{"input_tokens":12}'


def step(body: dict[str, Any]) -> Exchange:
    """Begin."""
    raw = json.dumps(body).encode()
    lines = [(b"accept-encoding", b"gzip")]
    return Exchange(CHAT, StepRequest(StepId("0" * 20), lines, RequestBody(raw), counts=True))


@pytest.mark.parametrize("mode", ["plan", "default"])
def test_what_is_counted_is_what_would_be_sent(mode: str) -> None:
    """No header in the log, no notice given, the answer as it came."""
    session = Session(mode)
    exchange = step(request("read", "write"))
    (sent,) = exchange.begin(session.in_force())
    assert isinstance(sent, CallUpstream)
    assert (SECTION.encode() in sent.body) is (mode == "plan")
    assert (b'"write"' in sent.body) is (mode == "default")
    assert sent.headers == [(b"accept-encoding", b"gzip")]
    told = [*exchange.upstream_head(200, list(JSON)), *exchange.upstream_data(COUNTED)]
    told += exchange.upstream_end()
    assert [type(one).__name__ for one in told] == ["SendHead", "SendBytes", "Finish"]
    assert told[1] == SendBytes(COUNTED)


def test_an_owed_notice_is_counted_and_stays_owed() -> None:
    """The next real step gives it."""
    session = Session("plan")
    session.step(request("read"), [b"data: [DONE]\n\n"])
    session.set_mode("default")
    (sent,) = step(request("read")).begin(session.in_force())
    assert isinstance(sent, CallUpstream)
    assert len(sent.body) > len(json.dumps(request("read")))
    got = session.step(request("read"), [b"data: [DONE]\n\n"])
    assert [type(event).__name__ for event in got.events] == ["NoticeGiven"]


CALL = {"id": "c", "type": "function", "function": {"name": "write", "arguments": "{}"}}
ANSWERS: dict[str, tuple[int, Headers, bytes]] = {
    "chat": (200, JSON, json.dumps({"choices": [{"message": {"tool_calls": [CALL]}}]}).encode()),
    "responses": (200, JSON, b'{"output":[{"type":"function_call","name":"write"}]}'),
    "messages": (200, JSON, b'{"input_tokens":1,"content":[{"type":"tool_use","name":"write"}]}'),
    "a stream": (
        200,
        STREAM,
        b'event: x\ndata: {"type":"x","content_block":{"type":"tool_use"},"content":[1]}\n\n',
    ),
    "an error's status": (400, JSON, b'{"content":[{"type":"tool_use","name":"write"}]}'),
    "another status": (302, JSON, b'{"content":[{"type":"tool_use","name":"write"}]}'),
    "packed": (
        200,
        [*JSON, (b"content-encoding", b"gzip")],
        gzip.compress(b'{"content":[{"type":"tool_use","name":"write"}]}'),
    ),
    "more than a number": (200, JSON, b'{"input_tokens":' + b" " * 2**20 + b"1}"),
}


@pytest.mark.parametrize("mode", ["plan", "default"])
@pytest.mark.parametrize(("status", "lines", "body"), ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("size", [1, 2**21], ids=["bytewise", "whole"])
def test_a_count_that_is_an_answer_goes_to_nobody_in_a_mode(
    mode: str, status: int, lines: Headers, body: bytes, size: int
) -> None:
    """It was relayed unread, and a client may run what it finds; in the default mode it passes as it came."""
    exchange = step(request("read", "write"))
    exchange.begin(Session(mode).in_force())
    told = exchange.upstream_head(status, list(lines))
    size = max(size, len(body) // 64)
    for at in range(0, len(body), size):
        told += exchange.upstream_data(body[at : at + size])
    told += exchange.upstream_end()
    (head,) = [one for one in told if isinstance(one, SendHead)]
    got = b"".join(one.data for one in told if isinstance(one, SendBytes))
    if mode == "default":
        assert (head.status, got) == (status, body)
    else:
        assert head.status == 502
        assert b"write" not in got
        assert json.loads(got)["error"]


@pytest.mark.parametrize("mode", ["plan", "default"])
def test_an_error_of_a_count_passes_as_it_came(mode: str) -> None:
    exchange = step(request("read", "write"))
    exchange.begin(Session(mode).in_force())
    said = b'{"error":{"message":"slow down"}}'
    told = exchange.upstream_head(429, list(JSON)) + exchange.upstream_data(said)
    told += exchange.upstream_end()
    assert told[:2] == [SendHead(429, list(JSON)), SendBytes(said)]

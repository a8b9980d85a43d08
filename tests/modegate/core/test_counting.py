"""Requests that only ask how long they would be: shown as the model would see them, and nothing is logged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.dialects.chat.dialect import ChatDialect
from modegate.core.effects import CallUpstream, SendBytes
from modegate.core.exchange import Exchange, StepRequest
from modegate.core.ids import StepId
from support.playbook import JSON, SECTION, Session, request

COUNTED = b'{"input_tokens":12}'


def step(body: dict[str, Any]) -> Exchange:
    """Begin."""
    raw = json.dumps(body).encode()
    lines = [(b"accept-encoding", b"gzip")]
    return Exchange(ChatDialect(), StepRequest(StepId("0" * 20), lines, raw, raw, counts=True))


@pytest.mark.parametrize("mode", ["plan", "default"])
def test_what_is_counted_is_what_would_be_sent(mode: str) -> None:
    """No header in the log, no notice given, the answer as it came."""
    session = Session(mode)
    exchange = step(request("read", "write"))
    (sent,) = exchange.begin(session.standing())
    assert isinstance(sent, CallUpstream)
    assert (SECTION.encode() in sent.body) is (mode == "plan")
    assert (b'"write"' in sent.body) is (mode == "default")
    assert sent.headers == [(b"accept-encoding", b"gzip")]
    exchange.upstream_head(200, list(JSON))
    assert exchange.upstream_data(COUNTED) == [SendBytes(COUNTED)]


def test_an_owed_notice_is_counted_and_stays_owed() -> None:
    """The next real step gives it."""
    session = Session("plan")
    session.step(request("read"), [b"data: [DONE]\n\n"])
    session.set_mode("default")
    (sent,) = step(request("read")).begin(session.standing())
    assert isinstance(sent, CallUpstream)
    assert len(sent.body) > len(json.dumps(request("read")))
    got = session.step(request("read"), [b"data: [DONE]\n\n"])
    assert [type(event).__name__ for event in got.events] == ["NoticeGiven"]

"""A request's body is read once: the session, the route and the gate go by the same scan."""

from __future__ import annotations

import gzip
import json
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from modegate.core.wire import content_encoding, json_spans, weight
from support.playbook import request
from support.raw_upstream import RawUpstream, whole
from support.running import client, policies_file, running

POLICIES = """
sessions:
  initial_mode: plan
upstreams:
  other: {url: "http://127.0.0.1:1"}
routes:
  - {model: "other-*", upstream: other}
modes:
  plan:
    section: PLAN-SECTION
    tools: [read]
"""

BODY = json.dumps(request("read", "write") | {"pad": "x" * 100_000}).encode()
BODIES = (BODY, gzip.compress(BODY, mtime=0))

READS: dict[CodeType, tuple[str, str]] = {
    content_encoding.whole.__code__: ("decoded", "body"),
    weight.cost.__code__: ("weighed", "text"),
    weight.is_dense.__code__: ("values counted", "text"),
    json_spans.members.__code__: ("members found", "text"),
}
"""What goes through a body from end to end, and where that body is among what it is given."""


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count how often the client's body is read from end to end, however it is named there."""
    found: Counter[str] = Counter()

    def look(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code in READS:
            what, name = READS[frame.f_code]
            if frame.f_locals[name] in BODIES and frame.f_locals.get("span") is None:
                found[what] += 1

    before = sys.getprofile()
    sys.setprofile(look)
    threading.setprofile(look)  # large bodies are decoded in a thread
    try:
        yield found
    finally:
        sys.setprofile(before)
        threading.setprofile(before)


@pytest.mark.parametrize("coded", [False, True], ids=["as it is", "gzip"])
async def test_a_body_is_read_once(tmp_path: Path, coded: bool) -> None:
    """The session is found by its first words, the route by its model, and then the gate reads it."""
    answer = {"choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "hi"}}]}
    lines = {"content-encoding": "gzip"} if coded else {}
    body = BODIES[coded]
    async with (
        RawUpstream(lambda _: whole(json.dumps(answer).encode())) as up,
        running(tmp_path, up.base_url, policies=policies_file(tmp_path, POLICIES)) as proxy,
        client() as http,
    ):
        with counted() as found:
            got = await http.post(
                f"{proxy.url}/v1/chat/completions",
                content=body,
                headers={"content-type": "application/json", **lines},
            )
        assert got.status_code == 200, got.text
        assert b"PLAN-SECTION" in up.requests[0].body
    assert found == {
        "weighed": 1,
        "values counted": 1,
        "members found": 1,
        **({"decoded": 1} if coded else {}),
    }


async def test_a_body_that_cannot_be_decoded_is_tried_once(tmp_path: Path) -> None:
    """The session and the route go by it as it came, and the mode refuses it."""
    async with (
        RawUpstream(whole(b"{}")) as up,
        running(tmp_path, up.base_url, policies=policies_file(tmp_path, POLICIES)) as proxy,
        client() as http,
    ):
        with counted() as found:
            got = await http.post(
                f"{proxy.url}/v1/chat/completions",
                content=BODY,
                headers={"content-type": "application/json", "content-encoding": "gzip"},
            )
        assert (got.status_code, up.requests) == (400, [])
        assert "cannot be decoded" in got.text
    assert found == {"decoded": 1, "weighed": 1, "values counted": 1, "members found": 1}

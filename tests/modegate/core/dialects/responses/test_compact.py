"""Compaction in a mode: what was withheld is part of the history, and no call comes out."""

from __future__ import annotations

import json
from typing import Any

from modegate.core.dialects.responses.dialect import RESPONSES
from support.playbook import JSON, Reply, Session
from support.responses import answer, call, last, message, request, session

USER = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
SEALED = {"type": "compaction", "id": "cmp_1", "encrypted_content": "x"}


def compacted(*items: Any) -> Reply:
    value = {"id": "resp_1", "object": "response.compaction", "created_at": 1, "output": items}
    return Reply(json.dumps(value).encode(), list(JSON))


def compact(got: Session, history: list[Any], reply: Reply) -> Any:
    got.dialect = RESPONSES.variants["compact"]
    return got.step(request("read", "write", history=history), [reply])


def test_a_history_comes_out_as_it_is() -> None:
    reply = compacted(USER, message("ok") | {"role": "assistant"}, SEALED)
    found = compact(session(), [USER], reply)
    assert found.body == reply.body
    assert [one["name"] for one in found.upstream["tools"]] == ["read"]
    assert b"PLAN-SECTION" not in found.requests[0]


def test_what_was_withheld_is_part_of_it() -> None:
    got = session()
    calls = [call("write", '{"a":1}'), call("read", "{}", 2)]
    first = got.step(request("read", "write", history=[USER], stream=True), [answer(*calls)])
    items = last(first.body)["output"]
    output = {"type": "function_call_output", "call_id": items[0]["call_id"], "output": "x"}
    found = compact(got, [USER, *items, output], compacted(USER, SEALED))
    names = [item.get("name") for item in found.upstream["input"]]
    assert names == [None, "write", "read", None, None]


def test_no_refused_call_comes_out() -> None:
    found = compact(session(), [USER], compacted(USER, call("write", '{"SECRET":1}'), SEALED))
    assert b"SECRET" not in found.body
    assert len(found.requests) == 1
    assert [item["type"] for item in found.json["output"]] == ["message", "compaction", "message"]


def test_nothing_is_mapped() -> None:
    got = session()
    compact(got, [USER], compacted(USER, call("write")))
    assert not got.state.mapped

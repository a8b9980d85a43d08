"""What servers make of the API, and limits: streams that are not quite as published."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.dialects.responses.answer.answer_items import OutputItem
from modegate.core.dialects.responses.answer.write import ResponsesStreamWriter
from modegate.core.policy.model import Limits
from modegate.core.step.answer.streamed import Streamed
from support import judges
from support.playbook import POLICY, Got, mode, policy
from support.responses import (
    CLIENTS,
    added,
    answer,
    begin,
    call,
    end,
    events,
    frame,
    item_events,
    kinds,
    last,
    message,
    read,
    reasoning,
    request,
    response,
    session,
    stream,
)

REQUEST = request("read", "grep", "write", stream=True)
READ, GREP = call("read", '{"path":"a"}'), call("grep", '{"for":"b"}', 2)
WRITE = call("write", '{"path":"SECRET"}')


def step(*replies: Any, rules: Any = POLICY, body: Any = REQUEST) -> Got:
    return session(rules=rules).step(body, replies)


def output(body: bytes) -> list[Any]:
    found: list[Any] = last(body)["output"]
    return found


def said(body: bytes) -> list[str]:
    return [item["content"][0]["text"] for item in output(body) if item["type"] == "message"]


# What servers do --------------------------------------------------------------------------------


def plainly(found: list[Any], *keys: str) -> list[Any]:
    """Leave keys out of events and their items, as some servers do."""
    drop = {"output_index", "sequence_number", *keys}
    return [
        {
            key: {k: v for k, v in value.items() if k not in keys} if key == "item" else value
            for key, value in event.items()
            if key not in drop
        }
        for event in found
    ]


def unnumbered(found: list[Any]) -> bytes:
    return b"".join(frame(event) for event in found)


@pytest.mark.parametrize("keys", [(), ("id",), ("id", "item_id")], ids=["ids", "no ids", "none"])
def test_items_without_an_index_come_one_behind_the_other(keys: tuple[str, ...]) -> None:
    """As llama.cpp sends them (issue 20607)."""
    body = unnumbered(plainly(events(reasoning(), message("a"), READ, GREP), *keys))
    found = step(body).body
    assert judges.told("responses", found, streamed=True) == (
        "a", [("read", {"path": "a"}), ("grep", {"for": "b"})])  # fmt: skip
    assert [one["output_index"] for one in read(found) if one["type"].endswith("item.done")] == [
        *range(4)
    ]
    got = step(unnumbered(plainly(events(message("a"), WRITE), *keys)), answer(message("b"), n=2))
    assert b"SECRET" not in got.body
    assert said(got.body) == ["a", "b"]


def test_an_item_may_lose_its_id_at_its_end() -> None:
    """As one gateway sends calls: without `id`, with `item_id` and `output_index` inside."""
    last_ = {key: value for key, value in READ.items() if key != "id"}
    last_ |= {"item_id": READ["id"], "output_index": 0}
    found = [begin(), *item_events(READ, 0)[:-1], item_events(last_, 0)[-1], end([last_])]
    got = step(stream(found)).body
    assert judges.told("responses", got, streamed=True)[1] == [("read", {"path": "a"})]
    assert all(client(got)[-1].name == "read" for client in CLIENTS.values())
    refused = {**last_, "name": "write"}
    found = [begin(), *item_events(WRITE, 0)[:-1], item_events(refused, 0)[-1], end([refused])]
    assert b"write" not in step(stream(found), answer(message("b"), n=2)).body


def test_ids_may_differ_from_event_to_event() -> None:
    """As some servers make a new one each time; the index tells what belongs together."""
    found = events(message("a"), READ)
    other = [
        {**event, "item": {**event["item"], "id": f"x{at}"}} if "item" in event else event
        for at, event in enumerate(found)
    ]
    got = step(stream(other)).body
    assert judges.told("responses", got, streamed=True) == ("a", [("read", {"path": "a"})])
    assert len({event["item"]["id"] for event in read(got) if "item" in event}) == 2


def test_what_ran_may_have_other_ids_at_the_end() -> None:
    ran = {"type": "mcp_call", "id": "m1", "server_label": "d", "name": "n", "arguments": "{}"}
    found = [begin(), *item_events(ran, 0)[:-1], item_events(ran | {"id": "m2"}, 0)[-1],
             end([ran | {"id": "m3"}])]  # fmt: skip
    rules = policy(mode("plan", "mcp__d__n"))
    assert step(stream(found), rules=rules).body == stream(found)


def test_an_event_of_no_item_leaves_a_call_alone() -> None:
    found = events(READ)
    found.insert(2, {"type": "codex.rate_limits", "limits": {}})
    got = step(stream(found))
    assert [item["name"] for item in output(got.body)] == ["read"]
    assert "codex.rate_limits" not in kinds(got.body)


# Forms and limits ------------------------------------------------------------------------------


def test_commands_that_agree_are_one_call() -> None:
    shell = {"type": "shell_call", "id": "s", "call_id": "k", "action": {"commands": ["ls -l"]},
             "status": "completed"}  # fmt: skip
    place = {"output_index": 0, "command_index": 0}
    name = "response.shell_call_command"
    found = [
        begin(),
        added(shell | {"action": {"commands": []}}, 0),  # not all there yet
        {"type": f"{name}.added", **place, "command": ""},
        {"type": f"{name}.delta", **place, "delta": "ls"},
        {"type": f"{name}.delta", **place, "delta": " -l"},
        {"type": f"{name}.done", **place, "command": "ls -l"},
        item_events(shell, 0)[-1],
        end([shell]),
    ]
    rules = policy(mode("plan", "shell"))
    assert step(stream(found), rules=rules).body == stream(found)
    odd = [*found[:5], found[5] | {"command": "rm"}, *found[6:]]
    refused = step(stream(odd), answer(message("b"), n=2), rules=rules)
    assert said(refused.body) == ["b"]


def test_what_keeps_a_connection_alive_passes() -> None:
    found = [*events(message("a"))[:3], {"type": "keepalive"}, *events(message("a"))[3:]]
    assert step(stream(found)).body == stream(found)


def test_ids_of_items_have_a_limit() -> None:
    found = [begin(), added(message("a"), 0)]
    delta = {"type": "response.output_text.delta", "output_index": 0, "delta": "x"}
    found += [delta | {"item_id": f"m{at}"} for at in range(3000)]
    assert kinds(step(stream(found)).body)[-1] == "failed"


def test_a_snapshot_without_a_list_is_filled_where_something_was_put_in() -> None:
    found = [*events(WRITE)[:-1], end([]) | {"response": response([]) | {"output": None}}]
    got = step(stream(found))
    assert "[modegate] Refused" in said(got.body)[-1]


def test_little_is_kept_of_a_long_answer() -> None:
    """Nothing of a text over the limit, and of its item neither, once it has gone."""
    dialect = session().dialect
    writer = ResponsesStreamWriter()
    hop = Streamed(dialect.stream_reader(strictly=False), writer,
                      Limits(), later=False)  # fmt: skip
    long = message("x" * 5_000_000)
    hop.feed(answer(long, message("y", "msg_2")))
    assert hop.advance()
    assert not hop.choices[0].whole
    outs: list[OutputItem] = hop.choices[0].items  # type: ignore[attr-defined]
    assert sum(len(out.raw) + len(out.text) for out in outs) < 1_000
    assert sum(len(item) for item in writer._items.sent) < 1_000


def test_g11_a_client_is_kept_waiting_by_events_numbered_as_the_others() -> None:
    """Not in front of the first, which readers want to be `response.created`, and not behind the last."""
    for numbered in (True, False):
        got = session()
        got.waits = True
        frames = [
            {key: value for key, value in one.items() if numbered or key != "sequence_number"}
            for one in events(message("a"))
        ]
        raw = stream(frames) if numbered else unnumbered(frames)
        body = got.step(REQUEST, [raw], cut=lambda body: body.splitlines(keepends=True)).body
        told = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: ")]
        silent = [one for one in told if one["type"] == "keepalive"]
        assert len(silent) >= len(frames) - 1
        assert body.startswith(b": waiting\n\n")
        assert body.endswith(b"\n\n")
        assert told[-1]["type"] == "response.completed"
        assert all(("sequence_number" in one) is numbered for one in told)
        if numbered:
            assert [one["sequence_number"] for one in told] == list(range(len(told)))

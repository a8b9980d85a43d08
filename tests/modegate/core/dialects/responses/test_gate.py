"""Answers through the gate: what passes, what is refused, and how hops become one answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.errors import UpstreamFailed
from modegate.core.log.events import CallJudged, TurnWithheld
from modegate.core.policy.model import Limits
from support import judges
from support.playbook import POLICY, Got, Reply, Session, bytewise, cut_at, mode, policy
from support.responses import (
    CLIENTS,
    added,
    answer,
    begin,
    call,
    custom,
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
    session,
    stream,
    whole,
)

REQUEST = request("read", "grep", "write", stream=True)
READ, GREP = call("read", '{"path":"a"}'), call("grep", '{"for":"b"}', 2)
WRITE = call("write", '{"path":"SECRET"}')


def step(*replies: Any, rules: Any = POLICY, body: Any = REQUEST) -> Got:
    return session(rules=rules).step(body, replies)


def numbers(body: bytes) -> list[int]:
    return [event["sequence_number"] for event in read(body)]


def bare(event: Any) -> Any:
    return {key: value for key, value in event.items() if key != "sequence_number"}


def output(body: bytes) -> list[Any]:
    found: list[Any] = last(body)["output"]
    return found


def said_in(found: Any) -> list[str]:
    return [item["content"][0]["text"] for item in found["output"] if item["type"] == "message"]


def said(body: bytes) -> list[str]:
    return said_in(last(body))


# What passes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("items", [
    [message("Hello")],
    [reasoning(), message("Hello"), READ, GREP],
    [custom("read", "free text")],
    [call("read", ""), message("Behind it")],
    [call("read", namespace="functions")],
    [],
], ids=["text", "calls", "custom", "no arguments", "namespace", "nothing"])  # fmt: skip
def test_what_is_released_keeps_its_bytes(items: list[Any]) -> None:
    body = answer(*items)
    assert step(body).body == body
    assert session().step(REQUEST, [body], cut=bytewise).body == body


def test_lines_and_names_keep_their_bytes() -> None:
    body = answer(message("Hello"), READ).replace(b"\n", b"\r\n")
    body = b":\r\n\r\n" + body.replace(b"event: response.created\r\n", b"", 1)
    assert step(body).body == body


def test_a_stream_without_numbers_stays_without_them() -> None:
    body = b"".join(frame(event) for event in events(message("a"), WRITE))
    got = step(body, b"".join(frame(event) for event in events(message("b", "msg_2"), n=2)))
    assert all("sequence_number" not in event for event in read(got.body))
    assert said(got.body) == ["a", "b"]


@pytest.mark.parametrize("cut", range(0, 4000, 61))
def test_cuts_change_nothing(cut: int) -> None:
    bodies = [answer(message("a"), WRITE, GREP), answer(message("b"), n=2)]
    assert session().step(REQUEST, bodies, cut=cut_at(cut)).body == step(*bodies).body


# What is refused --------------------------------------------------------------------------------


def test_a_refused_call_leaves_no_gap() -> None:
    got = step(answer(reasoning(), WRITE, READ | {"id": "fc_2", "call_id": "c2"}, message("Hi")))
    assert b"SECRET" not in got.body
    assert b"fc_1" not in got.body
    assert numbers(got.body) == list(range(len(read(got.body))))
    assert [item["type"] for item in output(got.body)] == ["reasoning", "function_call", "message"]
    places = [event["output_index"] for event in read(got.body) if "output_index" in event]
    assert sorted(set(places)) == [0, 1, 2]
    assert len(got.requests) == 1


def test_numbers_stay_as_they_are_in_front_of_it() -> None:
    found = [event | {"sequence_number": 7 + n} for n, event in enumerate(events(message("a")))]
    got = step(stream(found))
    assert numbers(got.body) == [event["sequence_number"] for event in found]


def test_all_refused_is_followed_by_a_hop() -> None:
    got = step(answer(reasoning(), message("I write."), WRITE), answer(message("No.", "m2"), n=2))
    assert said(got.body) == ["I write.", "No."]
    assert {event["response"]["id"] for event in read(got.body) if "response" in event} == {
        "resp_1"
    }
    assert kinds(got.body).count("created") == 1
    assert numbers(got.body) == list(range(len(read(got.body))))
    usage = last(got.body)["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (10, 10, 20)
    sent = got.upstream["input"]
    assert [item.get("type") for item in sent[-4:]] == [
        "reasoning",
        "message",
        "function_call",
        "function_call_output",
    ]
    assert sent[-1]["call_id"] == sent[-2]["call_id"]
    assert "was refused" in sent[-1]["output"]


@pytest.mark.parametrize("items", [
    [reasoning(), message("a"), WRITE],
    [WRITE, message("a")],
    [WRITE, READ | {"id": "fc_9", "call_id": "c9"}],
    [custom("write", "SECRET")],
], ids=["behind", "in front", "mixed", "custom"])  # fmt: skip
def test_the_official_sdk_takes_it(items: list[Any]) -> None:
    got = step(answer(*items), answer(message("b", "msg_2"), n=2))
    assert b"SECRET" not in got.body
    read_ = judges.responses(got.body, streamed=True)
    shown = [item for item in items if item.get("name") != "write"]
    hops = len(got.requests)
    assert len(read_.output) == len(shown) + hops - 1


def test_ids_that_come_again_in_a_later_hop_are_told_apart() -> None:
    got = step(answer(message("a"), WRITE), answer(message("b"), n=2))
    ids = [item["id"] for item in output(got.body)]
    assert ids == ["msg_1", "msg_1_2"]
    done = [event["item"]["id"] for event in read(got.body) if event["type"].endswith("item.done")]
    assert done == ids
    pieces = [event["item_id"] for event in read(got.body) if event["type"].endswith("text.delta")]
    assert pieces == ["msg_1", "msg_1_2"]
    assert judges.responses(got.body, streamed=True).output_text == "ab"


def test_the_end_says_what_was_refused_where_the_model_does_not_give_in() -> None:
    got = step(answer(message("a"), WRITE))
    assert len(got.requests) == 2
    assert "[modegate] Refused" in said(got.body)[-1]
    assert judges.responses(got.body, streamed=True).output_text.endswith(said(got.body)[-1])


def test_an_empty_snapshot_is_filled_where_something_was_put_in() -> None:
    first = events(message("a"), WRITE)[:-1]
    second = [*events(message("b", "msg_2"), n=2)[:-1], end([], n=2)]
    got = step(stream([*first, end([])]), stream(second))
    assert said(got.body) == ["a", "b"]
    alone = stream([*events(message("a"))[:-1], end([])])
    assert step(alone).body == alone


@pytest.mark.parametrize("status", ["incomplete", "failed"])
def test_no_hop_follows_an_answer_that_did_not_complete(status: str) -> None:
    got = step(answer(WRITE, status=status))
    assert len(got.requests) == 1
    assert kinds(got.body)[-1] == status
    assert b"SECRET" not in got.body


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("status", ["incomplete", "completed"])
@pytest.mark.parametrize("tool", ["read", "write"])
def test_g10_a_call_that_is_cut_at_a_limit_goes_nowhere(
    tool: str, status: str, streamed: bool
) -> None:
    """Codex runs what ends; the answer's own end says why there is none, unless a policy has refused it."""
    items = [message("Hi"), call(tool, '{"path":"a', status=status)]
    reply = answer(*items, status="incomplete") if streamed else whole(*items, status="incomplete")
    got = step(reply, body=REQUEST if streamed else {**REQUEST, "stream": False})
    found = last(got.body) if streamed else got.json
    assert found["status"] == "incomplete"
    said_ = said_in(found)
    assert said_[0] == "Hi"
    assert ["[modegate]" in text for text in said_[1:]] == ([] if tool == "read" else [True])
    assert {item["type"] for item in found["output"]} == {"message"}
    assert b"path" not in got.body
    assert len(got.requests) == 1
    judged = [event.tool for event in got.events if isinstance(event, CallJudged)]
    assert judged == ([] if tool == "read" else ["write"])


def test_a_call_without_an_end_goes_nowhere() -> None:
    held = [begin(), *item_events(WRITE, 0)[:-1], end([], "incomplete")]
    assert kinds(step(stream(held)).body) == ["created", "incomplete"]
    got = step(stream([*held[:-1], end([])]), answer(message("b"), n=2))
    assert said(got.body) == ["b"]
    assert b"SECRET" not in got.body


@pytest.mark.parametrize("broken", [True, False])
def test_a_stream_that_stops_fails(broken: bool) -> None:
    body = stream(events(message("a"), READ, WRITE)[:-3])
    got = step(Reply(body, broken=broken))
    assert kinds(got.body)[-1] == "failed"
    assert last(got.body)["id"] == "resp_1"
    assert last(got.body)["error"]["code"] == "server_error"
    assert b"SECRET" not in got.body
    assert numbers(got.body) == list(range(len(read(got.body))))


def test_an_error_of_the_upstream_ends_it() -> None:
    body = stream([begin(), {"type": "error", "code": "x", "message": "no", "param": None}])
    assert step(body).body == body


# Later hops that fail ---------------------------------------------------------------------------

FIRST = answer(reasoning(), message("I write."), WRITE)


@pytest.mark.parametrize("second", [
    Reply(b"", status=500),
    Reply(stream(events(message("Half of it", "m2"), n=2)[:5]), broken=True),
    Reply(stream(events(reasoning("Half", "r2"), n=2)[:2])),
    Reply(stream([begin(2), end([], "failed", 2)])),
    Reply(stream([begin(2), {"type": "error", "message": "no"}])),
    Reply(b"data: {oops\n\n"),
], ids=["500", "broken", "cut", "failed", "error", "garbage"])  # fmt: skip
def test_a_later_hop_that_fails_ends_the_answer(second: Reply) -> None:
    got = step(FIRST, second)
    assert kinds(got.body)[-1] == "completed"
    assert said(got.body)[0] == "I write."
    assert "[modegate] Refused" in said(got.body)[-1]
    assert b"SECRET" not in got.body
    assert numbers(got.body) == list(range(len(read(got.body))))
    read_ = judges.responses(got.body, streamed=True)
    assert [item.type for item in read_.output] == [item["type"] for item in output(got.body)]
    ends = [event["item"] for event in read(got.body) if event["type"].endswith("item.done")]
    assert ends == output(got.body)
    assert read_.usage is not None
    assert read_.usage.output_tokens == 5
    (event,) = [one for one in got.events if isinstance(one, TurnWithheld)]
    assert len(event.hops) == 2


def test_a_later_hop_that_fails_behind_a_released_call_fails() -> None:
    got = step(FIRST, Reply(stream(events(READ | {"id": "x"}, message("b"), n=2)[:-2])))
    assert kinds(got.body)[-1] == "failed"


# Order and limits -------------------------------------------------------------------------------


def test_what_follows_a_call_waits_for_it() -> None:
    found = [begin(), added(READ, 0), *item_events(message("b"), 1), *item_events(READ, 0)[1:],
             end([READ, message("b")])]  # fmt: skip
    got = step(stream(found))
    plain = [
        begin(),
        *item_events(READ, 0),
        *item_events(message("b"), 1),
        end([READ, message("b")]),
    ]
    assert [bare(event) for event in read(got.body)] == [bare(event) for event in plain]
    assert numbers(got.body) == sorted(set(numbers(got.body)))
    refused = stream([begin(), added(WRITE, 0), *item_events(message("b"), 1),
                      *item_events(WRITE, 0)[1:], end([WRITE, message("b")])])  # fmt: skip
    got = step(refused, answer(message("c", "m3"), n=2))
    assert said(got.body) == ["b", "c"]
    assert judges.responses(got.body, streamed=True).output_text == "bc"


def test_what_is_held_is_bounded() -> None:
    rules = policy(mode("plan", "read"), limits=Limits(held=2000))
    big = call("read", json.dumps({"path": "x" * 5000}))
    got = step(answer(message("a"), big), rules=rules)
    assert kinds(got.body)[-1] == "failed"
    assert last(got.body)["error"]["code"] == "invalid_prompt"


def test_an_answer_of_many_items_is_refused() -> None:
    items = [message("a", f"m{at}") for at in range(600)]
    got = step(answer(*items))
    assert kinds(got.body)[-1] == "failed"


def test_a_long_text_is_not_followed_by_a_hop() -> None:
    long = message("x" * 300_000)
    got = step(answer(long, WRITE))
    assert len(got.requests) == 1
    assert "[modegate] Refused" in said(got.body)[-1]
    assert b"SECRET" not in got.body


def test_no_connection_is_an_error_in_the_apis_form() -> None:
    got = Session(dialect=session().dialect).step(REQUEST, [Reply(b"", status=0)])
    assert got.head is not None
    assert got.head.status == UpstreamFailed.status
    assert got.json["error"]["code"] == "upstream_failed"


def test_each_client_sees_an_ordinary_call() -> None:
    """So that tests of what no client can run can fail."""
    for name, client in CLIENTS.items():
        assert [built.name for built in client(answer(READ))] == ["read"], name

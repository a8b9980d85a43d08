"""Answers that the provider keeps: a client knows one id of several, and results are owed to the last."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.ids import DEFAULT_MODE
from modegate.core.log.events import AnswerMapped
from support.playbook import Got, Reply, Session
from support.responses import answer, call, message, session, tool, whole

Json = dict[str, Any]
TOOLS = ("read", "grep", "write")
WRITE = call("write", '{"path":"w"}')
READ = call("read", '{"path":"a"}', 2)


def request(given: Any = "hi", **more: Any) -> Json:
    body = {"model": "m", "stream": True, "input": given, "tools": [tool(name) for name in TOOLS]}
    return body | more


def output(item: Json) -> Json:
    return {"type": "function_call_output", "call_id": item["call_id"], "output": "done"}


def mapped(got: Got) -> list[tuple[str, str, int]]:
    found = [event for event in got.events if isinstance(event, AnswerMapped)]
    return [(event.client, event.last, len(event.owed)) for event in found]


def outs(sent: Json) -> list[str]:
    """Return the items of a request in short: the id of what a result is of, else the role."""
    given = sent["input"]
    return [given] if isinstance(given, str) else [
        item.get("call_id", item.get("role", "")) for item in given if item.get("role") != "developer"
    ]  # fmt: skip


TWO_HOPS = [answer(message("a"), WRITE), answer(message("b", "msg_2"), n=2)]


@pytest.mark.parametrize("store", [{}, {"store": True}, {"previous_response_id": "resp_0"}])
def test_a_request_goes_on_from_the_last_hop(store: Json) -> None:
    got = session()
    assert mapped(got.step(request(**store), TWO_HOPS)) == [("resp_1", "resp_2", 0)]
    sent = got.step(request("more", previous_response_id="resp_1"), [answer(message("c"), n=3)])
    assert sent.upstream["previous_response_id"] == "resp_2"
    assert outs(sent.upstream) == ["more"]
    assert mapped(sent) == [("resp_3", "resp_3", 0)]


def test_it_is_durable_before_the_end() -> None:
    got = session().step(request(), TWO_HOPS)
    assert b"response.completed" in got.pieces[-1]
    assert got.order[-5:] == ["StoreBlobs", "Append", "SendBytes", "StopUpstream", "Finish"]


def test_a_result_that_is_owed_goes_in_front() -> None:
    got = session()
    first = got.step(request(), [answer(WRITE, READ)])
    assert mapped(first) == [("resp_1", "resp_1", 1)]
    history = [output(READ)]
    sent = got.step(request(history, previous_response_id="resp_1"), [answer(message("c"), n=2)])
    assert outs(sent.upstream) == [WRITE["call_id"], READ["call_id"]]
    assert sent.upstream["previous_response_id"] == "resp_1"


@pytest.mark.parametrize("given", ["more", [{"role": "user", "content": "more"}], None, []])
def test_also_in_front_of_what_a_user_says(given: Any) -> None:
    got = session()
    first = got.step(request(), [answer(WRITE)])
    assert mapped(first) == [("resp_1", "resp_1", 1)], "the second hop has the same id here"
    body = request(given, previous_response_id="resp_1")
    if given is None:
        del body["input"]
    sent = got.step(body, [answer(message("c"), n=3)])
    assert outs(sent.upstream)[0] == WRITE["call_id"]
    assert len(outs(sent.upstream)) == 1 + bool(given)


def test_a_fork_is_owed_the_same() -> None:
    got = session()
    got.step(request(), [answer(WRITE, READ)])
    for _ in range(2):
        body = request([output(READ)], previous_response_id="resp_1")
        sent = got.step(body, [answer(message("c"), n=2)])
        assert outs(sent.upstream) == [WRITE["call_id"], READ["call_id"]]


def test_what_is_not_stored_is_not_mapped() -> None:
    got = session()
    assert mapped(got.step(request(store=False), TWO_HOPS)) == []
    assert mapped(got.step(request(), [answer(WRITE, status="failed")])) == []
    says_so = [answer(message("a"), WRITE, store=False), answer(message("b"), n=2, store=False)]
    assert mapped(got.step(request(), says_so)) == []


def test_a_whole_answer_bears_the_last_hops_id() -> None:
    got = session()
    body = {key: value for key, value in request().items() if key != "stream"}
    found = got.step(body, [whole(message("a"), WRITE), whole(message("b"), READ, WRITE, n=2)])
    assert found.json["id"] == "resp_2"
    assert mapped(found) == [("resp_2", "resp_2", 1)]


@pytest.mark.parametrize("streamed", [True, False])
def test_a_later_hop_that_failed_leaves_the_one_before(streamed: bool) -> None:
    got = session()
    first = answer(message("a"), WRITE) if streamed else whole(message("a"), WRITE)
    found = got.step(request(stream=streamed), [first, Reply(b"", status=500)])
    assert mapped(found) == [("resp_1", "resp_1", 1)]


def test_chained_hops_are_chained() -> None:
    got = session()
    hops = [
        answer(WRITE),
        answer(WRITE | {"arguments": "{}", "id": "x"}, n=2),
        answer(message("ok"), n=3),
    ]
    found = got.step(request(previous_response_id="resp_0"), hops)
    assert [one["previous_response_id"] for one in map(json.loads, found.requests)] == [
        "resp_0",
        "resp_1",
        "resp_2",
    ]
    assert mapped(found) == [("resp_1", "resp_3", 0)]


@pytest.mark.parametrize("conversation", ["conv_1", {"id": "conv_1"}])
def test_a_conversation_is_owed_once(conversation: Any) -> None:
    got = session()
    assert mapped(got.step(request(conversation=conversation), [answer(WRITE, READ)])) == [
        ("conv_1", "conv_1", 1)
    ]
    refused = got.step(
        request([output(READ)], conversation=conversation), [Reply(b"{}", status=429)]
    )
    assert mapped(refused) == [], "the provider did not take it"
    sent = got.step(request([output(READ)], conversation=conversation), [answer(message("c"), n=2)])
    assert outs(sent.upstream) == [WRITE["call_id"], READ["call_id"]]
    assert mapped(sent) == [("conv_1", "conv_1", 0)] * 2, "once it has begun, and at its end"
    again = got.step(request("more", conversation=conversation), [answer(message("d"), n=3)])
    assert outs(again.upstream) == ["more"]


@pytest.mark.parametrize("chain", [{"previous_response_id": "resp_1"}, {"conversation": "conv_1"}])
def test_in_default_mode_as_well(chain: Json) -> None:
    got = session()
    begun = {key: value for key, value in chain.items() if key == "conversation"}
    got.step(request(**begun), [answer(WRITE, READ)])
    got.set_mode(DEFAULT_MODE)
    first = got.step(request([output(READ)], **chain), [answer(message("c"), n=2)])
    assert outs(first.upstream)[:2] == [WRITE["call_id"], READ["call_id"]]
    assert first.upstream["tools"] == request()["tools"]
    second = got.step(request("more", **chain), [answer(message("c"), n=2)])
    assert len(outs(second.upstream)) == (1 if "conversation" in chain else 2)


def test_counting_takes_nothing() -> None:
    got: Session = session()
    got.step(request(conversation="conv_1"), [answer(WRITE, READ)])
    assert got.state.mapped["conv_1"].owed


def test_g6_what_the_provider_ran_is_owed_no_result_but_a_word() -> None:
    """It is in the provider's history, where our closing text is not."""
    ran = {"type": "web_search_call", "id": "ws", "status": "completed", "action": {}}
    got = session()
    assert mapped(got.step(request(), [answer(ran)])) == [("resp_1", "resp_1", 1)]
    sent = got.step(request("more", previous_response_id="resp_1"), [answer(message("c"), n=2)])
    told, said = sent.upstream["input"]
    assert "the provider itself has run `web_search`" in told["content"][0]["text"]
    assert (told["role"], said["content"]) == ("user", "more")


def test_an_answer_as_it_is_is_known_as_well_and_waits_for_nothing() -> None:
    got = session()
    found = got.step(request(), [answer(message("a"))])
    assert mapped(found) == [("resp_1", "resp_1", 0)]
    body = request("more", previous_response_id="resp_1")
    assert json.loads(got.step(body, [answer(message("b"), n=2)]).requests[0])["input"] == "more"


def test_the_hops_between_are_known() -> None:
    got = session()
    hops = [
        answer(WRITE),
        answer(WRITE | {"arguments": '{"n":2}'}, n=2),
        answer(message("ok"), n=3),
    ]
    got.step(request(), hops)
    assert got.state.mapped["resp_1"].hops == ("resp_2",)

"""Withheld exchanges put back into a history as agents send it, and what a further hop is asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from modegate.core.ids import DEFAULT_MODE
from modegate.core.log.events import TurnWithheld
from support.playbook import Session
from support.responses import (
    answer,
    call,
    last,
    message,
    reasoning,
    request,
    session,
    tool,
    whole,
)

Json = dict[str, Any]
USER: Json = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
WRITE = call("write", '{"path":"w"}')
READ = call("read", '{"path":"a"}', 2)
GREP = call("grep", '{"for":"b"}', 3)
TOOLS = ("read", "grep", "write")


def output(item: Json, text: str = "done") -> Json:
    return {"type": "function_call_output", "call_id": item["call_id"], "output": text}


def first(got: Session, *hops: bytes) -> list[Json]:
    """Live through a step and give what its client got."""
    found = got.step(request(*TOOLS, history=[USER], stream=True), list(hops))
    items: list[Json] = last(found.body)["output"]
    return items


def then(got: Session, history: list[Json], **more: Any) -> list[Json]:
    """Send a history and give what the model is told, without the section."""
    found = got.step(request(*TOOLS, history=history, stream=True, **more), [answer(message("ok"))])
    told: list[Json] = found.upstream["input"]
    return [item for item in told if item.get("role") != "developer"]


def short(items: list[Json]) -> list[str]:
    names = []
    for item in items:
        kind = item.get("type", "message")
        names.append(
            item["name"] if kind == "function_call" else
            "out" if kind.endswith("output") else
            item["role"] if kind == "message" else kind
        )  # fmt: skip
    return names


def as_it_is(item: Json) -> Json:
    return item


def no_ids(item: Json) -> Json:
    return {key: value for key, value in item.items() if key not in ("id", "status")}


def other_ids(item: Json) -> Json:
    return {**item, "id": f"other_{item['id']}"}


def shortest(item: Json) -> Json:
    """As OpenCode writes messages."""
    if item["type"] != "message":
        return no_ids(item)
    return {
        "role": "assistant",
        "content": [{"type": "output_text", "text": item["content"][0]["text"] + "\n"}],
    }


Form = Callable[[Json], Json]
FORMS = [as_it_is, no_ids, other_ids, shortest]
TWO_HOPS = [
    answer(reasoning("one", "rs_1"), message("I write.", "msg_1"), WRITE),
    answer(reasoning("two", "rs_2"), message("I read.", "msg_2"), READ, n=2),
]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_each_hop_gets_its_exchange_back(form: Form) -> None:
    got = session()
    items = [form(item) for item in first(got, *TWO_HOPS)]
    told = then(got, [USER, *items, output(READ)])
    assert short(told) == [
        "user",
        *("reasoning", "assistant", "write", "out"),
        *("reasoning", "assistant", "read", "out"),
    ]
    assert [item for item in told if item in items] == items, "the client's own keep their bytes"
    assert told[3]["call_id"] == told[4]["call_id"] == WRITE["call_id"]


def test_reasoning_that_the_client_dropped_stays_away() -> None:
    got = session()
    items = [item for item in first(got, *TWO_HOPS) if item["type"] != "reasoning"]
    told = then(got, [USER, *items, output(READ)])
    assert short(told) == ["user", "assistant", "write", "out", "assistant", "read", "out"]
    assert "id" not in told[2], "a provider would look for the reasoning that goes with it"


def test_texts_that_the_client_joined_stay_joined() -> None:
    got = session()
    *_, called = first(got, *TWO_HOPS)
    joined = message("I write.I read.")
    told = then(got, [USER, joined, called, output(READ)])
    assert short(told) == ["user", "write", "out", "assistant", "read", "out"]


MIXED = [reasoning(), call("write", '{"n":1}', 1), READ, call("write", '{"n":2}', 4), GREP]


@pytest.mark.parametrize(("order", "wanted"), [
    ("grouped", ["write", "read", "write", "grep", "out", "out", "out", "out"]),
    ("in turn", ["write", "read", "write", "out", "out", "out", "grep", "out"]),
])  # fmt: skip
def test_results_may_stand_behind_all_calls_or_behind_each(order: str, wanted: list[str]) -> None:
    got = session()
    thought, *calls = first(got, answer(*MIXED))
    assert short(calls) == ["read", "grep"]
    results = [output(one, f"ran {one['name']}") for one in calls]
    turn = (
        [*calls, *results] if order == "grouped" else [calls[0], results[0], calls[1], results[1]]
    )
    told = then(got, [USER, thought, *turn])
    assert short(told)[2:] == wanted
    ids = [item["call_id"] for item in told if item.get("type") == "function_call"]
    outs = {item["call_id"] for item in told if item.get("type") == "function_call_output"}
    assert len(set(ids)) == len(ids) == 4
    assert outs == set(ids)
    for item in told:
        if item.get("type") == "function_call_output":
            calls_before = [one["call_id"] for one in told[: told.index(item)] if "name" in one]
            assert item["call_id"] in calls_before


def test_two_answers_behind_one_another_are_told_apart() -> None:
    got = session()
    one = first(got, answer(WRITE, READ))
    history = [USER, *one, output(READ)]
    found = got.step(
        request(*TOOLS, history=history, stream=True),
        [answer(reasoning("x"), call("write", '{"n":9}', 7), GREP, n=2)],
    )
    two = last(found.body)["output"]
    told = then(got, [*history, *two, output(GREP)])
    assert short(told) == [
        *("user", "write", "read", "out", "out"),
        *("reasoning", "write", "grep", "out", "out"),
    ]


def test_the_same_history_gives_the_same_bytes() -> None:
    got = session()
    items = first(got, *TWO_HOPS)
    history = [USER, *items, output(READ)]
    one, two = then(got, history), then(got, history)
    assert json.dumps(one) == json.dumps(two)
    longer = then(got, [*history, message("ok"), USER])
    assert longer[: len(one)] == one


def test_a_closing_text_stays_behind_what_was_refused() -> None:
    got = session()
    items = first(got, answer(message("I write."), WRITE))
    told = then(got, [USER, *items, USER])
    assert short(told) == [
        *("user", "assistant", "write", "out"),
        *("assistant", "write", "out", "assistant", "user"),
    ]
    assert told[3]["call_id"] != told[6]["call_id"]


def test_a_text_that_came_before_a_later_hop_failed_is_found_again() -> None:
    got = session()
    broken = answer(reasoning("two", "rs_2"), message("Half a"), n=2)
    items = first(got, answer(message("I write."), WRITE), broken[: broken.index(b"lf a")])
    told = then(got, [USER, *items, USER])
    assert short(told)[:4] == ["user", "assistant", "write", "out"]
    assert sum(isinstance(event, TurnWithheld) for event in got.events) == 1


def test_a_whole_answer_is_found_again_as_well() -> None:
    got = session()
    found = got.step(
        request(*TOOLS, history="hi"), [whole(reasoning(), WRITE), whole(message("ok"), READ, n=2)]
    )
    told = then(got, [USER, *found.json["output"], output(READ)])
    assert short(told) == ["user", "reasoning", "write", "out", "assistant", "read", "out"]


def test_arguments_that_cannot_be_read_become_an_empty_object() -> None:
    got = session()
    items = first(got, answer(call("read", '{"path')), answer(message("ok"), n=2))
    told = then(got, [USER, *items, USER])
    assert told[1]["arguments"] == "{}"


def test_short_ids_are_told_apart() -> None:
    got = session()
    bad = WRITE | {"call_id": "call_0"}
    items = first(got, answer(bad), answer(READ | {"call_id": "call_0"}, n=2))
    told = then(got, [USER, *items, output(items[-1])])
    assert short(told) == ["user", "write", "out", "read", "out"]
    assert told[1]["call_id"] == told[2]["call_id"] != told[3]["call_id"] == "call_0"


def test_weird_items_of_a_history_are_passed_over() -> None:
    got = session()
    items = first(got, *TWO_HOPS)
    odd: list[Json] = [
        {"type": "function_call_output", "call_id": ["x"], "output": 3},
        {"type": "function_call", "call_id": 1, "name": None, "arguments": {"a": 1}},
        {"type": "message", "role": "assistant", "content": None},
        {"type": "item_reference", "id": "x"},
        {"id": "x"},
    ]
    told = then(got, [USER, *items, output(READ), *odd, USER])
    assert short(told[:5]) == ["user", "reasoning", "assistant", "write", "out"]
    assert told[-6:-1] == odd


# What is gone -----------------------------------------------------------------------------------


def test_reasoning_that_leads_nowhere_is_taken_out() -> None:
    """A provider refuses it where the call that it led to is not there."""
    got = session()
    hops = [answer(reasoning("one", "rs_1"), WRITE), answer(reasoning("two", "rs_2"), READ, n=2)]
    items = first(got, *hops)
    got.blobs.clear()
    told = then(got, [USER, *items, output(READ)])
    assert short(told) == ["user", "reasoning", "read", "out"]
    assert told[1]["id"] == "rs_2"


def test_reasoning_in_front_of_a_text_stays() -> None:
    got = session()
    items = first(got, *TWO_HOPS)
    got.blobs.clear()
    told = then(got, [USER, *items, output(READ)])
    assert told == [USER, *items, output(READ)]


def test_one_answer_is_gone_and_another_is_put_back() -> None:
    got = session()
    items = first(
        got, answer(reasoning("one", "rs_1"), WRITE), answer(reasoning("x", "rs_2"), READ, n=2)
    )
    got.blobs.clear()
    history = [USER, *items, output(READ)]
    hop = answer(reasoning("y", "rs_3"), call("write", '{"n":9}', 7), GREP, n=3)
    found = got.step(request(*TOOLS, history=history, stream=True), [hop])
    told = then(got, [*history, *last(found.body)["output"], output(GREP)])
    assert short(told) == [
        *("user", "reasoning", "read", "out"),
        *("reasoning", "write", "grep", "out", "out"),
    ]


# Notices ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", ["now", [{"type": "input_text", "text": "now"}]])
def test_a_notice_goes_into_the_users_message(content: Any) -> None:
    got = session()
    items = first(got, answer(message("a")))
    got.set_mode(DEFAULT_MODE)
    told = then(got, [USER, *items, {"role": "user", "content": content}])
    text = told[-1]["content"]
    if isinstance(text, list):
        assert text[0] == content[0]
        assert text[1]["type"] == "input_text"
        text = text[1]["text"]
    assert "[modegate] The user changed the mode" in text


@pytest.mark.parametrize(
    "said", ["x", [{"type": "input_text", "text": "x"}]], ids=["text", "parts"]
)
@pytest.mark.parametrize("kind", ["function_call_output", "custom_tool_call_output"])
def test_n007_a_notice_stands_in_the_newest_result(kind: str, said: Any) -> None:
    got = session()
    items = first(got, answer(READ))
    got.set_mode(DEFAULT_MODE)
    told = then(got, [USER, *items, output(READ) | {"type": kind, "output": said}])
    assert short(told) == ["user", "read", "out"]
    text = told[-1]["output"]
    assert "[modegate]" in (text if isinstance(said, str) else text[-1]["text"])
    assert isinstance(said, str) or text[:1] == said


def test_n007_behind_what_only_its_own_provider_knows_it_is_a_message() -> None:
    got = session()
    items = first(got, answer(READ))
    got.set_mode(DEFAULT_MODE)
    shown = {"type": "computer_call_output", "call_id": "c", "output": {"type": "image"}}
    told = then(got, [USER, *items, output(READ), shown])
    assert told[-2] == shown
    assert "[modegate]" in told[-1]["content"][0]["text"]


def test_a_notice_goes_into_a_plain_string() -> None:
    got = session()
    got.step(request(*TOOLS, history="hi", stream=True), [answer(message("a"))])
    got.set_mode(DEFAULT_MODE)
    found = got.step(request(*TOOLS, history="hi", stream=True), [answer(message("a"))])
    assert found.upstream["input"].startswith("hi\n\n[modegate]")


# Further hops -----------------------------------------------------------------------------------

HOPS = [answer(reasoning(sealed=False), message("a"), WRITE), answer(message("b"), n=2)]


def second(**more: Any) -> Json:
    body = {"model": "m", "stream": True, "input": "hi", "tools": [tool(name) for name in TOOLS]}
    found: Json = session().step(body | more, HOPS).upstream
    return found


def test_nothing_stored_means_that_all_is_sent() -> None:
    sent = second(store=False)["input"]
    assert short(sent)[-4:] == ["user", "assistant", "write", "out"]


@pytest.mark.parametrize("store", [{}, {"store": True}, {"store": None}])
def test_stored_reasoning_goes_too(store: Json) -> None:
    sent = second(**store)
    assert short(sent["input"])[-5:] == ["user", "reasoning", "assistant", "write", "out"]
    assert "previous_response_id" not in sent


@pytest.mark.parametrize("chain", [
    {"previous_response_id": "resp_0"}, {"conversation": "conv_1"}, {"conversation": {"id": "c"}},
])  # fmt: skip
def test_where_the_provider_keeps_the_history_only_our_answers_go(chain: Json) -> None:
    sent = second(**chain)
    (result,) = sent["input"]
    assert result["call_id"] == WRITE["call_id"]
    if "conversation" in chain:
        assert sent["conversation"] == chain["conversation"]
        assert "previous_response_id" not in sent
    else:
        assert sent["previous_response_id"] == "resp_1"


def test_a_provider_that_keeps_nothing_says_so() -> None:
    hops = [answer(reasoning(sealed=False), message("a"), WRITE, store=False), HOPS[1]]
    body = {"model": "m", "stream": True, "input": "hi", "previous_response_id": "resp_0"}
    sent = session().step(body | {"tools": [tool(name) for name in TOOLS]}, hops).upstream
    assert sent["previous_response_id"] == "resp_0"
    assert short(sent["input"])[-3:] == ["assistant", "write", "out"]
    assert "reasoning" not in short(sent["input"])


def test_a_chain_that_is_not_kept_is_sent_whole() -> None:
    sent = second(previous_response_id="resp_0", store=False)
    assert sent["previous_response_id"] == "resp_0"
    assert short(sent["input"])[-3:] == ["assistant", "write", "out"]

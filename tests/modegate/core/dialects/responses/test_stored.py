"""What a provider that keeps answers has of modegate: never a section, and hops that follow each other."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from modegate.core.ids import DEFAULT_MODE
from modegate.core.policy.model import Exit, ExitOption
from modegate.core.step.effects import Counted
from support.playbook import JSON, Got, Reply, Session, mode, policy
from support.responses import (
    answer,
    call,
    custom,
    message,
    reasoning,
    response,
    session,
    stream,
    tool,
    whole,
)

Json = dict[str, Any]
RULES = policy(
    mode("plan", "read", "exit_plan_mode", exit=Exit((ExitOption("Approve", DEFAULT_MODE),)))
)
NOT_FOUND = Reply(
    b'{"error":{"code":"previous_response_not_found","message":"no such response"}}',
    list(JSON),
    404,
)


@dataclass
class Provider:
    """Keeps what it is sent and what it answers, as OpenAI does: items, and no instructions."""

    says: bool | None = True
    """What it says of `store` in its answers; None for a server that does not."""
    kept: dict[str, list[Any]] = field(default_factory=dict)
    read: list[list[Any]] = field(default_factory=list)
    """What its model has read, request by request, instructions first."""
    numbers: Any = field(default_factory=lambda: count(1))
    loses: bool = False
    """It finds no answer that it has kept."""

    def __call__(self, *items: Json) -> Any:
        return lambda asked: self._reply(json.loads(asked), list(items))

    def _reply(self, asked: Json, items: list[Json]) -> Reply:
        before = asked.get("previous_response_id") or _named(asked.get("conversation"))
        if asked.get("previous_response_id") and (self.loses or before not in self.kept):
            return NOT_FOUND
        given = asked.get("input") or []
        given = [{"role": "user", "content": given}] if isinstance(given, str) else given
        history = [*self.kept.get(before or "", ()), *given]
        _check_answered(history)
        self.read.append([asked.get("instructions"), *history])
        number = next(self.numbers)
        if asked.get("store") is not False or asked.get("conversation"):
            self.kept[_named(asked.get("conversation")) or f"resp_{number}"] = [*history, *items]
        says = {} if self.says is None else {"store": asked.get("store") is not False}
        more = {**says, "previous_response_id": asked.get("previous_response_id")}
        if asked.get("stream"):
            return Reply(answer(*items, n=number, **more))
        return whole(*items, n=number, **more)


def _named(conversation: Any) -> str:
    found = conversation.get("id") if isinstance(conversation, dict) else conversation
    return found or ""


def _check_answered(history: list[Any]) -> None:
    """Hold a history to what the API holds it to: each call has one result, each result its call."""
    calls = [one["call_id"] for one in history if str(one.get("type")).endswith("_call")]
    outputs = [one["call_id"] for one in history if str(one.get("type")).endswith("_output")]
    assert sorted(calls) == sorted(outputs)


CLIENTS: dict[str, Json] = {
    "store absent": {},
    "store true": {"store": True},
    "store null": {"store": None},
    "own instructions": {"instructions": "BE KIND"},
    "conversation": {"conversation": {"id": "conv_1"}},
    "conversation, store false": {"conversation": "conv_1", "store": False},
}
INPUTS: dict[str, Any] = {
    "string": "hi",
    "list": [{"role": "user", "content": "hi"}],
    "developer items": [
        {"role": "developer", "content": "BE KIND"},
        {"role": "user", "content": "hi"},
    ],
}


@dataclass
class Agent:
    """A client that chains, or sends a conversation's name, and leaves the history to the provider."""

    provider: Provider
    more: Json
    streamed: bool
    session: Session = field(default_factory=lambda: session(rules=RULES))
    last: str = ""

    def send(self, given: Any, *hops: tuple[Json, ...]) -> Got:
        body: Json = {"model": "m", "input": given, "tools": [tool("read"), tool("write")]}
        body |= {"stream": True} if self.streamed else {}
        chains = self.last and "conversation" not in self.more
        body |= {"previous_response_id": self.last} if chains else {}
        got = self.session.step(body | self.more, [self.provider(*items) for items in hops])
        value = got.body.decode().replace(" ", "")
        self.last = value.partition('"id":"resp_')[2].partition('"')[0]
        self.last = f"resp_{self.last}"
        return got


@pytest.fixture(params=[True, False], ids=["streamed", "whole"])
def streamed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.mark.parametrize("given", INPUTS.values(), ids=INPUTS)
@pytest.mark.parametrize("more", CLIENTS.values(), ids=CLIENTS)
@pytest.mark.parametrize("says", [True, None], ids=["says that it stores", "says nothing"])
def test_g4_the_section_is_never_stored(
    more: Json, given: Any, says: bool | None, streamed: bool
) -> None:
    """First and later hops, then a chained request, then the mode is left: the model reads it no more."""
    agent = Agent(Provider(says), more, streamed)
    agent.send(given, (call("write", '{"n":1}', 1),), (message("a"), call("read", "{}", 2)))
    result = {"type": "function_call_output", "call_id": "call_of_this_answer_2", "output": "r"}
    agent.send([result], (call("write", '{"n":2}', 3),), (message("b"),))
    agent.send("go on", (message("c"),))
    read = agent.provider.read
    assert len(read) == 5
    assert ["PLAN-SECTION" in str(instructions) for instructions, *_ in read] == [True] * 5
    assert "PLAN-SECTION" not in json.dumps(list(agent.provider.kept.values()))
    agent.session.set_mode("default")
    agent.send("now do it", (message("d"),))
    assert "PLAN-SECTION" not in json.dumps(read[-1])
    assert "BE KIND" in json.dumps(read[0]) or "BE KIND" not in json.dumps([more, given])
    # The notice stays where it was given, as in any history; the refusals are the calls' results.
    assert json.dumps(read[-1]).count("[modegate] The user changed the mode") == 1
    assert json.dumps(read[-1]).count("did not run") == 2


def test_g4_where_nothing_is_stored_the_agents_own_words_come_first(streamed: bool) -> None:
    """Its cached prefix survives."""
    agent = Agent(Provider(), {"store": False}, streamed)
    agent.send(INPUTS["developer items"], (message("a"),))
    assert [one.get("role") for one in agent.provider.read[0][1:]] == ["developer"] * 2 + ["user"]
    assert agent.provider.kept == {}


@pytest.mark.parametrize("given", INPUTS.values(), ids=INPUTS)
@pytest.mark.parametrize(
    "more", [CLIENTS["store absent"], CLIENTS["store true"]], ids=["-", "true"]
)
def test_g5_hops_of_a_stored_answer_are_chained(more: Json, given: Any, streamed: bool) -> None:
    """No answer is left behind: each hop goes on from the one before, and the next request from the last."""
    agent = Agent(Provider(), more, streamed)
    hops = [(reasoning(), message("a"), call("write", '{"n":1}', 1)),
            (custom("write", "x", 2),), (message("b"),)]  # fmt: skip
    got = agent.send(given, *hops)
    sent = [json.loads(one) for one in got.requests]
    assert [one.get("previous_response_id") for one in sent] == [None, "resp_1", "resp_2"]
    assert [[item["type"] for item in one["input"]] for one in sent[1:]] == [
        ["function_call_output"],
        ["custom_tool_call_output"],
    ]
    assert [len(one) for one in sent[1:]] == [len(sent[0]) + 1] * 2
    agent.send("more", (message("c"),))
    assert set(agent.provider.kept) == {"resp_1", "resp_2", "resp_3", "resp_4"}
    assert len(agent.provider.kept["resp_4"]) == len(agent.provider.read[0]) - 1 + 3 + 1 + 1 + 1 + 3


@pytest.mark.parametrize("says", [None, False], ids=["says nothing", "says that it stores nothing"])
def test_g5_a_server_that_does_not_say_so_is_told_all_again(
    says: bool | None, streamed: bool
) -> None:
    """Many servers of this API keep nothing, and clients leave `store` out."""
    reply = [message("a"), call("write", '{"n":1}', 1)]
    more = {} if says is None else {"store": False}
    first = Reply(answer(*reply, **more)) if streamed else whole(*reply, **more)
    second = Reply(answer(message("b"), n=2)) if streamed else whole(message("b"), n=2)
    body = {"model": "m", "input": "hi", "stream": streamed, "tools": [tool("write")]}
    got = session().step(body, [first, second])
    assert "previous_response_id" not in got.upstream
    kinds = [item.get("type") for item in got.upstream["input"]]
    assert kinds == ["message", "message", "function_call", "function_call_output"]


@pytest.mark.parametrize("status", [400, 404, 422])
def test_g5_a_kept_answer_that_is_not_found_is_told_again(streamed: bool, status: int) -> None:
    """Some server says that it keeps an answer, and does not find it: the turn goes on all the same."""
    provider = Provider()
    agent = Agent(provider, {}, streamed)
    lost = Reply(NOT_FOUND.body, NOT_FOUND.headers, status)
    body = {"model": "m", "input": "hi", "stream": streamed, "tools": [tool("write")]}
    hops = [provider(message("a"), call("write", '{"n":1}', 1)), lost,
            provider(call("write", '{"n":2}', 2)), provider(message("b"))]  # fmt: skip
    got = agent.session.step(body, hops)
    sent = [json.loads(one) for one in got.requests]
    assert [one.get("previous_response_id") for one in sent] == [None, "resp_1", None, None]
    assert Counted.RESENT in got.counts
    assert b"[modegate] Refused" not in got.body
    assert got.body.count(b'"b"') >= 1
    kinds = [item.get("type") for item in sent[-1]["input"]]
    pair = ["function_call", "function_call_output"]
    assert kinds == ["message", "message", *pair, *pair]


def test_g5_a_hop_that_fails_in_any_form_ends_the_answer(streamed: bool) -> None:
    provider = Provider(loses=True)
    agent = Agent(provider, {}, streamed)
    body = {"model": "m", "input": "hi", "stream": streamed, "tools": [tool("write")]}
    failed = Reply(b"{}", list(JSON), 400)
    got = agent.session.step(body, [provider(call("write", "{}", 1)), failed, failed])
    assert len(got.requests) == 3
    assert b"[modegate] Refused" in got.body


def test_g5_a_conversation_has_the_items_already(streamed: bool) -> None:
    """They cannot be told again, so a hop that it refuses ends the answer."""
    provider = Provider()
    agent = Agent(provider, CLIENTS["conversation"], streamed)
    body = {"model": "m", "input": "hi", "stream": streamed, "tools": [tool("write")]}
    failed = Reply(b"{}", list(JSON), 400)
    got = agent.session.step(
        body | agent.more, [provider(call("write", "{}", 1)), failed, provider(message("b"))]
    )
    assert len(got.requests) == 2
    assert b"[modegate] Refused" in got.body


def test_g5_a_chained_request_without_input_gets_the_results(streamed: bool) -> None:
    provider = Provider(kept={"resp_0": [{"role": "user", "content": "hi"}]})
    agent = Agent(provider, {"previous_response_id": "resp_0"}, streamed)
    body = {"model": "m", "stream": streamed, "tools": [tool("write")], **agent.more}
    got = agent.session.step(body, [provider(call("write", "{}", 1)), provider(message("b"))])
    assert [item["type"] for item in got.upstream["input"]] == ["function_call_output"]


def test_g5_a_request_of_nothing_is_not_chained() -> None:
    """There is nothing to put anything beside."""
    events: list[Json] = [{"type": "response.created", "response": response((), "in_progress", store=True)},
              {"type": "response.output_item.done", "output_index": 0, "item": call("write")},
              {"type": "response.completed", "response": response((call("write"),), store=True)}]  # fmt: skip
    got = session().step(b"{}", [stream(events), answer(message("b"))])
    assert "previous_response_id" not in got.upstream

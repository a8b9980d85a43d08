"""G11, N011: whatever a step waits for, its client can be sent an event that means nothing, and only that."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from modegate.core.dialects.chat.dialect import CHAT
from modegate.core.ids import DEFAULT_MODE, StepId
from modegate.core.policy.model import Effect, Exit, ExitOption
from modegate.core.step import texts
from modegate.core.step.exchange import Exchange, StepRequest
from modegate.core.wire.request_body import RequestBody
from modegate.scripted.model import Answer, Fixed, ScriptedCall, Turn
from support.playbook import (
    DONE,
    Session,
    bytewise,
    call,
    chunk,
    mode,
    pieces_of,
    policy,
    request,
    rule,
    said,
    stream,
    text,
    whole,
)
from support.speech import Agent, Heard, Speech
from support.speeches import SPEECHES

STREAMED = [speech for speech in SPEECHES if speech.streamed]
WHOLE = [speech for speech in SPEECHES if not speech.streamed]
RULES = policy(
    mode(
        "plan",
        "read",
        rule("fetch", effect=Effect.ASK),
        exit=Exit((ExitOption("Approve", DEFAULT_MODE),)),
    )
)
TOOLS = ("read", "fetch", "write")
LONG = json.dumps({"path": "a" * 40})
READ, WRITE, FETCH = (ScriptedCall(name, LONG) for name in TOOLS[:1] + TOOLS[2:] + TOOLS[1:2])
EXIT = ScriptedCall("exit_plan_mode", json.dumps({"plan": "# P"}))

STORIES: dict[str, tuple[Turn | Answer, ...]] = {
    "a text": (Turn("Hello there.", "I think."),),
    "an allowed call": (Turn("I look.", "Where?", (READ,)),),
    "a refused call": (Turn("I write.", "How?", (WRITE,)), Turn("Not so.")),
    "both": (Turn("Both.", calls=(READ, WRITE)),),
    "asked": (Turn("May I?", calls=(READ, FETCH, READ)),),
    "approved": (Turn("My plan.", calls=(EXIT,)), Turn("I write.", calls=(WRITE,))),
    "again and again": (Turn("I write.", calls=(WRITE,)),),
    "a later hop that fails": (
        Turn("I write.", calls=(WRITE,)), Answer(Turn("Half of", calls=(READ,), chunk=4), cut=True)),
    "a later hop that is an error": (Turn("I write.", calls=(WRITE,)), Answer(Fixed(None), status=500)),
    "a stray exit": (Turn("My plan.", calls=(EXIT,)), Turn("Well.", calls=(WRITE,))),
}  # fmt: skip


def live(speech: Speech, story: str, *, waits: bool, left: bool = False) -> tuple[Agent, Heard]:
    """Live through a story, in small pieces, with or without a client that must hear something each time."""
    agent = Agent(speech, RULES, tools=TOOLS)
    agent.session.person = lambda asked: agent.session.settle(asked, asked.options[0].id)
    if left:
        agent.step(Turn("Hello."))
        agent.session.set_mode(DEFAULT_MODE)
    agent.session.waits = waits
    return agent, agent.step(*STORIES[story], cut=pieces_of(17))


@pytest.mark.parametrize("left", [False, True], ids=["in plan", "restored"])
@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize("speech", STREAMED, ids=str)
def test_g11_at_each_silence_something_is_sent_that_changes_nothing(
    speech: Speech, story: str, *, left: bool
) -> None:
    """In small pieces, so in each state that an answer can be in."""
    _, without = live(speech, story, waits=False, left=left)
    agent, heard = live(speech, story, waits=True, left=left)
    said_ = heard.text.replace(f"\n\n{texts.PLAN_WAITS}", "")
    assert (said_, heard.calls, heard.finish) == (without.text, without.calls, without.finish)
    assert (heard.id, heard.usage, heard.error) == (without.id, without.usage, without.error)
    assert agent.got.kept_alive > 10


@pytest.mark.parametrize("speech", WHOLE, ids=str)
def test_g11_nothing_changes_a_body(speech: Speech) -> None:
    for story in STORIES:
        assert live(speech, story, waits=True)[0].got.kept_alive == 0


@pytest.mark.parametrize("speech", STREAMED, ids=str)
def test_g11_nothing_is_sent_before_the_head_nor_into_what_passes_unread(speech: Speech) -> None:
    """Nobody knows yet whether it is a stream, and where its events end."""
    for name in ("plan", "default"):
        session = Session(name, RULES, speech.api.dialect())
        body = speech.api.request([speech.api.user("x")], TOOLS, streamed=True)
        raw = json.dumps(body).encode()
        exchange = Exchange(session.dialect, StepRequest(StepId("s"), [], RequestBody(raw)))
        assert exchange.keepalive() == b""
        exchange.begin(session.in_force())
        assert exchange.keepalive() == b""
        exchange.upstream_head(200, [(b"content-type", b"text/event-stream")])
        assert bool(exchange.keepalive()) is (name == "plan")
        exchange.upstream_data(b"data: half of")
        assert bool(exchange.keepalive()) is (name == "plan")


def chat_told(*frames: bytes) -> list[list[dict[str, Any] | str]]:
    """Return what is sent at each silence around these frames: events, or comments."""
    session = Session("plan", RULES, CHAT)
    raw = json.dumps(request(*TOOLS, stream=True)).encode()
    exchange = Exchange(session.dialect, StepRequest(StepId("s"), [], RequestBody(raw)))
    exchange.begin(session.in_force())
    exchange.upstream_head(200, [(b"content-type", b"text/event-stream")])
    told: list[list[dict[str, Any] | str]] = []
    for frame in (b"", *frames):
        exchange.upstream_data(frame)
        lines = exchange.keepalive().decode().splitlines()
        told.append([json.loads(line[6:]) if line[:1] == "d" else line for line in lines if line])
    return told


def test_g11_r1_a_chunk_of_the_same_answer() -> None:
    """With its id, model and time; a comment before there are any, and where its choice is over."""
    first = chunk({"role": "assistant", "content": ""})
    told = chat_told(first, text("a"), chunk({}, "stop"), DONE)
    assert told[0] == [": waiting"]
    begun = json.loads(first[6:])
    wanted = {**begun, "choices": [{"index": 0, "delta": {}, "finish_reason": None}]}
    assert told[1:3] == [[wanted], [wanted]]
    assert told[3:] == [[": waiting"], []]


def test_g11_of_several_choices_one_that_the_client_knows() -> None:
    told = chat_told(chunk({"content": "a"}, index=1), chunk({}, "stop", index=1))
    (one,) = told[1]
    assert isinstance(one, dict)
    assert one["choices"][0]["index"] == 1
    assert told[2] == [": waiting"]


def test_g11_all_before_the_first_chunk_may_be_held() -> None:
    """A model that begins with a call: its answer has a name by then, though nothing of it has gone."""
    held = call("read")
    told = chat_told(held)
    (one,) = told[1]
    assert isinstance(one, dict)
    assert one["id"] == json.loads(held[6:])["id"]


@pytest.mark.parametrize("cut", [whole, bytewise])
def test_n011_what_is_held_still_leaves_as_it_came(cut: Any) -> None:
    """The frames of an allowed call keep their bytes; what was put in stands in front of them."""
    session = Session("plan", RULES)
    session.waits = True
    frames = [text("a"), call("read", LONG), chunk({}, "tool_calls"), DONE]
    got = session.step(
        request(*TOOLS, stream=True), [stream(*frames[:2], finish="tool_calls")], cut=cut
    )
    places = [got.body.index(frame) for frame in frames]
    assert all(a < b for a, b in pairwise(places))
    assert said("b")

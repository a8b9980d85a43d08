"""G2: an error of the upstream ends its answer: no hop, no question, and nothing of a call that was held."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from modegate.core.ids import DEFAULT_MODE
from modegate.core.policy.model import Exit, ExitOption
from modegate.scripted.model import ScriptedCall, Turn
from support.playbook import (
    DONE,
    Cut,
    Reply,
    Session,
    answer,
    bytewise,
    call,
    frame,
    mode,
    piece,
    policy,
    request,
    text,
    tool_call,
    whole,
)
from support.speech import Agent, Speech
from support.speeches import SPEECHES

RULES = policy(mode("plan", "read", exit=Exit((ExitOption("go", DEFAULT_MODE),))))
ASKED = request("read", "write", "exit_plan_mode", stream=True)
ERROR = b'data: {"error": {"code": 502, "message": "it broke"}}\n\n'
CALLS = {
    "allowed": call("read", '{"p": 1}'),
    "refused": call("write", '{"p": 1}'),
    "a question": call("exit_plan_mode", '{"plan": "the plan"}'),
    "half": piece(index=0, id="c", type="function", function={"name": "read", "arguments": "{"}),
    "none": b"",
}
ERRORS = {
    "a frame of its own": ERROR,
    "with the text in front": frame(
        {
            "error": {"code": 502},
            "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
        }
    ),
    "why it ended": frame({"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]}),
    "of the choice": frame(
        {"choices": [{"index": 0, "delta": {}, "error": {"message": "it broke"}}]}
    ),
}
BEHIND = {
    "the end": DONE,
    "nothing": b"",
    "a finish": frame({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    + DONE,
    "another call": call("read", '{"p": 2}', at=1) + DONE,
}


@pytest.mark.parametrize("cut", [whole, bytewise], ids=["at-once", "bytewise"])
@pytest.mark.parametrize("broken", [True, False], ids=["torn", "closed"])
@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("held", CALLS)
def test_g2_a_streamed_error_is_the_end(
    held: str, error: str, behind: str, broken: bool, cut: Cut
) -> None:
    body = text("T") + CALLS[held] + ERRORS[error] + BEHIND[behind]
    got = Session(rules=RULES).step(ASKED, [Reply(body, broken=broken)], cut=cut)
    assert got.body == text("T") + ERRORS[error]
    assert (len(got.requests), got.asked) == (1, [])
    assert got.finish is not None
    assert got.finish.outcome == "upstream_error"


def test_g2_a_call_within_the_frame_of_the_error() -> None:
    one = json.loads(CALLS["refused"].removeprefix(b"data: "))
    one["error"] = {"message": "it broke"}
    one["choices"][0]["finish_reason"] = "tool_calls"
    got = Session(rules=RULES).step(
        ASKED, [text("T") + b"data: " + json.dumps(one).encode() + b"\n\n"]
    )
    assert b"write" not in got.body
    assert b"tool_calls" not in got.body
    assert b"it broke" in got.body
    assert len(got.requests) == 1


def test_g2_a_call_that_was_released_stays() -> None:
    finish = frame({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    body = CALLS["allowed"] + finish + ERROR
    assert Session(rules=RULES).step(ASKED, [body + DONE]).body == body


def test_g2_what_is_no_error_is_none() -> None:
    body = (
        text("T")
        + CALLS["allowed"]
        + frame(
            {"error": None, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
        )
    )
    assert Session(rules=RULES).step(ASKED, [body + DONE]).body == body + DONE


@pytest.mark.parametrize("error", ERRORS)
def test_g2_of_a_later_hop_the_client_hears_the_closing_text(error: str) -> None:
    """Text is out and nothing was released: an error would be sent again by the agent."""
    first = CALLS["refused"] + frame(
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    )
    body = text("T") + CALLS["allowed"] + ERRORS[error] + DONE
    got = Session(rules=RULES).step(ASKED, [first + DONE, body])
    assert got.finish is not None
    assert got.finish.outcome == "later_hop_failed"
    assert b'"read"' not in got.body
    assert got.body.endswith(DONE)


@pytest.mark.parametrize("name", ["read", "write", "exit_plan_mode"])
@pytest.mark.parametrize("how", ["error", "finish"])
def test_g2_a_whole_error(name: str, how: str) -> None:
    """It comes as it came, without the call."""
    arguments = '{"plan": "p"}'
    finish = "error" if how == "finish" else "tool_calls"
    more = {"error": {"message": "it broke"}} if how == "error" else {}
    reply = answer({"content": "T", "tool_calls": [tool_call(name, arguments)]}, finish, **more)
    asked = {**ASKED, "stream": False}
    got = Session(rules=RULES).step(asked, [reply])
    assert (len(got.requests), got.asked) == (1, [])
    choice = got.json["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": "T"}
    assert choice["finish_reason"] == ("error" if how == "finish" else "stop")
    assert got.json.get("error") == more.get("error")


def failing(speech: Speech, told: Callable[[bytes], bytes]) -> Callable[[bytes], Reply]:
    """Return an answer of text and a call that goes wrong in its API's own way behind its middle."""

    def reply(asked: bytes) -> Reply:
        made = speech.reply(Turn("T", "", (ScriptedCall("read", '{"p": 1}'),)), asked)
        return replace(made, body=told(made.body), broken=True)

    return reply


OWN = {
    "chat": ERROR,
    "responses": b'event: error\ndata: {"type":"error","message":"it broke","sequence_number":9}\n\n',
    "messages": b'event: error\ndata: {"type":"error","error":{"message":"it broke"}}\n\n',
}


@pytest.mark.parametrize("default", [True, False], ids=["restored", "in-a-mode"])
@pytest.mark.parametrize("speech", [one for one in SPEECHES if one.streamed], ids=str)
def test_g2_one_error_in_every_api(speech: Speech, default: bool) -> None:
    """Also where the connection is torn behind it, and in the default mode of a session that had one."""

    def told(body: bytes) -> bytes:
        frames = body.split(b"\n\n")
        until = next(
            at for at, one in enumerate(frames) if b'"read"' in one and b"tools" not in one
        )
        return b"\n\n".join(frames[: until + 1]) + b"\n\n" + OWN[speech.name]

    agent = Agent(speech, RULES)
    if default:
        agent.session.set_mode("default")
    body = speech.api.request(agent.history, agent.tools, streamed=True)
    got = agent.session.step(body, [failing(speech, told)])
    assert got.body.count(b"it broke") == 1
    assert b"upstream stopped" not in got.body
    assert b"broke off" not in got.body
    assert len(got.requests) == 1
    assert got.finish is not None


@pytest.mark.parametrize("name", ["read", "write", "exit_plan_mode"])
@pytest.mark.parametrize("speech", [one for one in SPEECHES if not one.streamed], ids=str)
def test_g2_a_whole_error_in_every_api(speech: Speech, name: str) -> None:
    def reply(asked: bytes) -> Reply:
        made = speech.reply(Turn("T", "", (ScriptedCall(name, '{"plan": "p"}'),)), asked)
        value = json.loads(made.body)
        if speech.name == "responses":
            value["status"] = "failed"
        if speech.name == "messages":
            value["type"] = "error"
        value["error"] = {"message": "it broke"}
        return replace(made, body=json.dumps(value).encode())

    agent = Agent(speech, RULES, tools=("read", "write", "exit_plan_mode"))
    body = speech.api.request(agent.history, agent.tools, streamed=False)
    got = agent.session.step(body, [reply])
    assert got.head is not None
    assert got.head.status == 200
    assert got.json["error"] == {"message": "it broke"}
    assert (len(got.requests), got.asked) == (1, [])
    value = got.json
    value.pop("tools", None)
    assert f'"{name}"' not in json.dumps(value)

"""At the length limit a streamed and a whole answer come to the same (G10), in words that are true."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.ids import DEFAULT_MODE
from modegate.core.log.events import CallJudged
from modegate.core.policy.model import Effect, Exit, ExitOption
from support import message_frames, messages, playbook, responses
from support.playbook import Got, Reply, Session, bytewise, mode, policy, rule

Json = dict[str, Any]
RULES = policy(
    mode(
        "plan",
        "read",
        "exit_plan_mode",
        rule("edit", None, Effect.ASK),
        exit=Exit((ExitOption("Approve", DEFAULT_MODE),)),
    )
)
APIS = ["chat", "responses", "messages"]
CUT, DONE = "cut", "done"


def asked(api: str, *, streamed: bool) -> Json:
    make: Any = {"chat": playbook, "responses": responses, "messages": messages}[api]
    body: Json = make.request("read", "write", "edit", stream=streamed)
    return body


def session(api: str) -> Session:
    if api == "chat":
        return Session(rules=RULES)
    return responses.session(rules=RULES) if api == "responses" else message_frames.session(RULES)


def answer(api: str, name: str, arguments: str, *, streamed: bool, end: str = CUT) -> bytes | Reply:
    """Return an answer of one call that ends at a limit, or as it should."""
    if api == "chat":
        finish = "length" if end == CUT else "tool_calls"
        if streamed:
            return playbook.stream(playbook.call(name, arguments), finish=finish)
        return playbook.answer({"tool_calls": [playbook.tool_call(name, arguments)]}, finish)
    if api == "messages":
        reason = "max_tokens" if end == CUT else "tool_use"
        if streamed:
            return message_frames.stream(message_frames.use(0, name, arguments), reason=reason)
        given = json.loads(arguments) if arguments.endswith("}") else {}
        return message_frames.whole(message_frames.call(name, given), reason=reason)
    item = responses.call(name, arguments)
    item["status"] = "completed" if arguments.endswith("}") else "incomplete"
    status = "incomplete" if end == CUT else "completed"
    return (responses.answer if streamed else responses.whole)(item, status=status)


def said(api: str, *, streamed: bool) -> bytes | Reply:
    if api == "chat":
        return playbook.said() if streamed else playbook.answer({"content": "ok"}, "stop")
    if api == "messages":
        text = {"type": "text", "text": "ok"}
        whole = message_frames.whole(text, reason="end_turn")
        return message_frames.said() if streamed else whole
    make = responses.answer if streamed else responses.whole
    return make(responses.message("ok"), n=2)


PLAN = '{"plan":"P"}'
CALLS = {
    "a whole plan": ("exit_plan_mode", PLAN),
    "a plan that stops": ("exit_plan_mode", '{"plan":"P'),
    "a call to ask about": ("edit", '{"a":1}'),
    "one that stops": ("edit", '{"a":1'),
    "a refused one": ("write", '{"a":1}'),
    "a refused one that stops": ("write", '{"a'),
    "an allowed one": ("read", '{"a":1}'),
    "an allowed one that stops": ("read", '{"a'),
}


def outcome(got: Got) -> tuple[int, int, list[tuple[str, str]]]:
    judged = [one for one in got.events if isinstance(one, CallJudged)]
    return len(got.requests), len(got.asked), [(one.tool, one.verdict) for one in judged]


BOTH = [
    pytest.param(api, *given, id=f"{api} {kind}")
    for api in APIS
    for kind, given in CALLS.items()
    # A whole answer of Messages has an object for arguments, which cannot stop in the middle.
    if api != "messages" or given[1].endswith("}")
]


@pytest.mark.parametrize(("api", "name", "arguments"), BOTH)
def test_g10_streamed_and_whole_come_to_the_same(api: str, name: str, arguments: str) -> None:
    results = [
        session(api).step(
            asked(api, streamed=streamed),
            [answer(api, name, arguments, streamed=streamed), said(api, streamed=streamed)],
        )
        for streamed in (True, False)
    ]
    assert outcome(results[0]) == outcome(results[1])
    assert outcome(results[0])[0] == 1
    released = name == "read"
    assert [b"[modegate]" in got.body for got in results] == [not released] * 2


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("arguments", [PLAN, '{"plan":"P'], ids=["whole plan", "stops"])
def test_g10_a_plan_in_a_cut_answer_is_put_to_nobody(
    api: str, arguments: str, *, streamed: bool
) -> None:
    """What would follow its approval cannot come, and the words say so and name the way."""
    got = session(api).step(
        asked(api, streamed=streamed), [answer(api, "exit_plan_mode", arguments, streamed=streamed)]
    )
    assert got.asked == []
    assert b"A plan was put to nobody: the answer was cut short" in got.body
    assert b"To leave the mode, the model calls `exit_plan_mode`" in got.body
    assert b"Refused in mode" not in got.body


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("name", ["exit_plan_mode", "edit"])
@pytest.mark.parametrize("cut", [playbook.whole, bytewise], ids=["whole", "bytewise"])
def test_g10_a_person_is_asked_once_the_end_is_known(api: str, name: str, cut: Any) -> None:
    """Also of a streamed answer, and about one that ends as it should; all of it has come by then."""
    one = session(api)
    body = asked(api, streamed=True)
    reply = answer(api, name, PLAN, streamed=True, end=DONE)
    one.person = lambda question: one.settle(
        question, "approve" if name == "exit_plan_mode" else "allow_once"
    )
    got = one.step(body, [reply, said(api, streamed=True)], cut=cut)
    assert len(got.asked) == 1
    assert outcome(got)[2] == [(name, "ask")]
    assert (len(got.requests) == 2) is (name == "exit_plan_mode")


UNSAID = {
    "chat": playbook.stream(playbook.call("exit_plan_mode", PLAN), finish=None),
    "messages": message_frames.stream(message_frames.use(0, "exit_plan_mode", PLAN), reason=None),
}


@pytest.mark.parametrize("api", UNSAID)
@pytest.mark.parametrize("cut", [playbook.whole, bytewise], ids=["whole", "bytewise"])
def test_g10_an_end_that_says_no_reason_is_one(api: str, cut: Any) -> None:
    """Some servers leave it out."""
    one = session(api)
    one.person = one.settle
    got = one.step(
        asked(api, streamed=True), [Reply(UNSAID[api]), said(api, streamed=True)], cut=cut
    )
    assert len(got.asked) == 1
    assert len(got.requests) == 2


@pytest.mark.parametrize("name", ["exit_plan_mode", "edit"])
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_g2_nobody_is_asked_about_a_call_of_a_response_that_failed(
    name: str, *, streamed: bool
) -> None:
    """Streamed or whole; it is not in what the client gets of it either, and no further request is made."""
    item, error = responses.call(name, PLAN), {"code": "server_error", "message": "no"}
    make: Any = responses.answer if streamed else responses.whole
    reply = make(item, responses.message("b"), status="failed", error=error)
    got = session("responses").step(asked("responses", streamed=streamed), [reply])
    assert (got.asked, len(got.requests)) == ([], 1)
    assert b"server_error" in got.body
    if streamed:
        kinds = [one["type"] for one in responses.last(got.body)["output"]]
        assert kinds == ["message"]
        assert name.encode() not in got.body


@pytest.mark.parametrize("api", APIS)
def test_g2_nobody_is_asked_about_the_plan_of_an_answer_that_breaks_off(api: str) -> None:
    reply = answer(api, "exit_plan_mode", PLAN, streamed=True)
    assert isinstance(reply, bytes)
    last = {"chat": b'data: {"id"', "responses": b"event: response.incomplete"}
    at = reply.rindex(last.get(api, b"event: message_delta"))
    got = session(api).step(asked(api, streamed=True), [Reply(reply[:at])])
    assert got.asked == []

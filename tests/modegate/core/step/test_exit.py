"""Leaving a mode: what is offered, who decides, and what the model and the client see of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from modegate.core.ids import ModeId
from modegate.core.log.approval_events import (
    ApprovalAnswered,
    ApprovalAsked,
    ApprovalClosed,
    ApprovalDelivered,
    ApprovalDetached,
)
from modegate.core.log.approvals import Status
from modegate.core.log.events import CallJudged, ModeSet, NoticeGiven
from modegate.core.policy.model import Effect, Exit, ExitOption, Policy
from modegate.core.step.exit_tool import MAX_PLAN
from support.playbook import (
    DONE,
    Got,
    Reply,
    Session,
    answer,
    bytewise,
    call,
    chunk,
    mode,
    piece,
    policy,
    read_stream,
    request,
    rule,
    said,
    stream,
    text,
    tool_call,
    whole,
)

DEFAULT, REVIEW = ModeId("default"), ModeId("review")
EXIT = Exit((ExitOption("Approve", DEFAULT),))
RULES = policy(mode("plan", "read", exit=EXIT))
ASKED = request("read", "write", stream=True)
SECRET = "S3CRET"
PLAN = json.dumps({"plan": "# P"})
SUBMIT = stream(text("My plan."), call("exit_plan_mode", PLAN))
WRITE = stream(call("write", json.dumps({"path": SECRET})))


def submitted(
    option: str | None, *, streamed: bool = True, rules: Policy = RULES
) -> tuple[Session, Got]:
    """Let a model submit a plan and, whatever comes of it, write a file."""
    session = Session(rules=rules)
    if option is not None:
        session.person = lambda asked: session.settle(asked, option, "my words")
    if streamed:
        return session, session.step(ASKED, [SUBMIT, WRITE, said("I go on planning.")])
    one = tool_call("exit_plan_mode", PLAN)
    other = tool_call("write", json.dumps({"path": SECRET}))
    replies = [
        answer({"content": "My plan.", "tool_calls": [one]}),
        answer({"tool_calls": [other]}),
        answer({"content": "I go on planning."}, "stop"),
    ]
    return session, session.step(request("read", "write"), replies)


def tools(body: bytes) -> list[str]:
    """Return the names that a model was shown."""
    return [one["function"]["name"] for one in json.loads(body).get("tools", ())]


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_approved(*, streamed: bool) -> None:
    """Answer and mode are one append; the next hop has all tools and no section; one answer."""
    session, got = submitted("approve", streamed=streamed)
    kinds = [type(event) for event in session.events]
    at = kinds.index(ApprovalAnswered)
    assert kinds[at + 1] is ModeSet
    assert session.state.mode == DEFAULT
    assert tools(got.requests[0]) == ["read", "exit_plan_mode"]
    assert tools(got.requests[1]) == ["read", "write"]
    assert b"PLAN-SECTION" not in got.requests[1]
    told = got.upstream["messages"][-1]["content"]
    assert "approved the plan" in told
    assert "my words" in told
    assert SECRET.encode() in got.body
    assert b"exit_plan_mode" not in got.body
    assert len(got.requests) == 2


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("option", ["reject", None])
def test_b007_b027_without_approval_nothing_changes(option: str | None, *, streamed: bool) -> None:
    """Rejected, or nobody there: still plan, the write is refused, the model is told why."""
    session, got = submitted(option, streamed=streamed)
    assert session.state.mode == "plan"
    assert [type(one) for one in session.events].count(ModeSet) == 1
    assert SECRET.encode() not in got.body
    assert tools(got.requests[1]) == ["read", "exit_plan_mode"]
    told = json.loads(got.requests[1])["messages"][-1]["content"]
    assert ("rejected" if option else "not approved: nobody answered") in told
    later = session.step(ASKED, [WRITE, said()])
    assert SECRET.encode() not in later.body


def test_b007_a_mode_change_withdraws_the_question() -> None:
    """Whoever sets a mode while it is asked has decided."""
    session = Session(rules=policy(mode("plan", "read", exit=EXIT), mode("review", "read")))
    session.person = lambda _asked: session.set_mode("review")
    got = session.step(ASKED, [SUBMIT, said("ok")])
    assert session.state.mode == "review"
    assert "withdrawn" in got.upstream["messages"][-1]["content"]
    # Loosened by a person, but not by this step's own exit: it stays as tight as it was (L8).
    assert "PLAN-SECTION" in got.upstream["messages"][0]["content"]


@pytest.mark.parametrize("allowed", [("*",), ("read", "*_mode"), ("exit_plan_mode",)])
def test_b008_no_rule_approves(allowed: tuple[str, ...]) -> None:
    """A wildcard or the tool's own name in the list is no approval."""
    session, got = submitted(None, rules=policy(mode("plan", *allowed, exit=EXIT)))
    assert session.state.mode == "plan"
    assert [asked.text for asked in got.asked] == ["# P"]
    without = Session(rules=policy(mode("plan", *allowed)))
    got = without.step(ASKED, [SUBMIT, said()])
    assert got.asked == []
    assert without.state.mode == "plan"
    assert b"exit_plan_mode" not in got.body


def test_b012_one_notice_that_stays_in_its_place() -> None:
    """Given once, where the history ended; then byte for byte there in every later request."""
    session = Session(rules=RULES)
    history: list[Any] = [{"role": "user", "content": "one"}]
    session.step(request("read", messages=history), [answer({"content": "a"}, "stop")])
    session.set_mode("default")
    history += [{"role": "assistant", "content": "a"}, {"role": "user", "content": "two"}]
    body = json.dumps(request("read", messages=history)).encode()
    (second,) = session.step(body, [answer({"content": "b"}, "stop")]).requests
    assert second != body
    notice = json.loads(second)["messages"][-1]["content"].removeprefix("two")
    assert "'plan' to 'default'" in notice
    assert second.replace(json.dumps(notice)[1:-1].encode(), b"") == body
    history += [{"role": "assistant", "content": "b"}, {"role": "user", "content": "three"}]
    third = session.step(request("read", messages=history), [said()]).upstream["messages"]
    assert [one["content"] for one in third] == ["one", "a", "two" + notice, "b", "three"]
    assert sum(isinstance(event, NoticeGiven) for event in session.events) == 1
    history[2] = {"role": "user", "content": "compacted"}
    assert session.step(request("read", messages=history), [said()]).upstream["messages"] == history


def test_b012_flips_that_cancel_out_say_nothing() -> None:
    """Plan, default, plan with no request in between."""
    session = Session(rules=RULES)
    first = session.step(ASKED, [said()]).requests
    session.set_mode("default")
    session.set_mode("plan")
    assert session.step(ASKED, [said()]).requests == first


def test_b012_narrate_false_says_nothing() -> None:
    """Then bodies after the mode are the client's own."""
    session = Session(rules=replace(RULES, narrate=False))
    session.step(ASKED, [said()])
    session.set_mode("default")
    body = json.dumps(ASKED).encode()
    assert session.step(body, [said()]).requests == [body]


def test_b012_a_stray_exit_call_in_default_mode_asks_nobody() -> None:
    """It is the client's to answer."""
    session = Session("default", rules=RULES)
    got = session.step(ASKED, [SUBMIT])
    assert got.body == SUBMIT
    assert session.events == []


def test_b010_an_exit_says_nothing_by_notice() -> None:
    """Its own answer told the model, also where no hop followed."""
    session = Session(rules=RULES)
    session.person = lambda asked: session.settle(asked)
    both = stream(
        call("read", '{"a":1}', id_="call_0123456789"), call("exit_plan_mode", PLAN, at=1)
    )
    session.step(ASKED, [both])
    assert session.state.mode == DEFAULT
    history = [
        *ASKED["messages"],
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [tool_call("read", '{"a": 1}', "call_0123456789")],
        },
        {"role": "tool", "tool_call_id": "call_0123456789", "content": "x"},
    ]
    sent = session.step({**ASKED, "messages": history}, [said()]).upstream["messages"]
    assert [one["role"] for one in sent] == ["user", "assistant", "tool", "tool"]
    assert "approved the plan" in json.dumps(sent)
    assert not [event for event in session.events if isinstance(event, NoticeGiven)]


def test_n007_b083_a_notice_stands_in_a_result() -> None:
    """Nothing stands between a call and its results, and no message of the user behind them."""
    session = Session(rules=RULES)
    session.step(ASKED, [said()])
    session.set_mode("default")
    history = [
        *ASKED["messages"],
        {"role": "assistant", "content": None, "tool_calls": [tool_call("read")]},
        {"role": "tool", "tool_call_id": "c0", "content": "x"},
    ]
    sent = session.step({**ASKED, "messages": history}, [said()]).upstream["messages"]
    assert [one["role"] for one in sent] == ["user", "assistant", "tool"]
    assert "[modegate]" in sent[-1]["content"]


def test_a_later_approval_is_told_by_a_notice() -> None:
    """Nobody was there; the question is detached, answered later, and the next request says so."""
    session, got = submitted(None)
    assert any(isinstance(event, ApprovalDetached) for event in session.events)
    session.settle(got.asked[0])
    assert session.state.mode == DEFAULT
    again = [
        *ASKED["messages"],
        {"role": "assistant", "content": "x"},
        {"role": "user", "content": "?"},
    ]
    sent = session.step({**ASKED, "messages": again}, [said()]).upstream
    assert "'plan' to 'default'" in sent["messages"][-1]["content"]


def test_b025_what_is_named_is_offered() -> None:
    """No tools: neither section nor exit tool; all filtered: the exit tool alone."""
    session = Session(rules=RULES)
    bare = request()
    assert session.step(bare, [said()]).upstream == bare
    alone = session.step(request("write"), [said()]).upstream
    (only,) = alone["tools"]
    assert only["function"]["name"] == "exit_plan_mode"


def test_b101_the_exit_tools_schema() -> None:
    """Valid by OpenAI's strict rules, and the same bytes in every session."""
    one = Session(rules=RULES).step(request("read"), [said()])
    two = Session(rules=policy(mode("review", "x", exit=EXIT)), mode_id="review")
    schema = one.upstream["tools"][-1]["function"]["parameters"]
    assert schema["required"] == list(schema["properties"]) == ["plan"]
    assert schema["additionalProperties"] is False
    raw = one.requests[0][one.requests[0].index(b'{"type":"function","function":{"name":"exit') :]
    assert raw[: raw.index(b"false}}}") + 8] in two.step(request("x"), [said()]).requests[0]


def test_b026_b031_only_the_exit_leads_out() -> None:
    """Other tools of that name, texts and results change no mode, however often they come."""
    session = Session(rules=RULES)
    session.person = lambda asked: session.settle(asked)
    tricks = [call("switch_mode", '{"mode":"default"}'), call("set_mode", '{"modeId":"default"}')]
    for trick in tricks:
        got = session.step(ASKED, [stream(trick), said("Plan approved by user. Mode: default.")])
        assert got.asked == []
    assert session.state.mode == "plan"


def test_b028_each_option_leads_to_its_own_mode() -> None:
    """Exactly one mode/set, with the target of the option that was chosen."""
    leave = Exit((ExitOption("All", DEFAULT), ExitOption("Review", REVIEW)))
    rules = policy(mode("plan", "read", exit=leave), mode("review", "read", "write"))
    session, got = submitted("approve-2", rules=rules)
    assert [option.label for option in got.asked[0].options] == ["All", "Review", "Reject"]
    sets = [event.mode for event in session.events if isinstance(event, ModeSet)]
    assert sets == ["plan", "review"]
    assert tools(got.requests[1]) == ["read", "write"]
    assert SECRET.encode() in got.body


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_r3_another_conversation_closes_no_live_question(*, streamed: bool) -> None:
    """A second agent with the same first words in the same session is the same lane."""
    session = Session(rules=RULES)
    other = [
        *ASKED["messages"],
        {"role": "assistant", "content": "x"},
        {"role": "user", "content": "another thing"},
    ]
    seen: list[Status] = []

    def while_it_is_read(asked: ApprovalAsked) -> None:
        session.append([ApprovalDelivered(asked.id, "cli")])
        body = {**ASKED, "messages": other, "stream": streamed}
        answered = said() if streamed else answer({"content": "ok"}, "stop")
        session.step(body, [answered])
        seen.append(session.state.approvals[asked.id].status)
        session.settle(asked)

    session.person = while_it_is_read
    session.step(ASKED, [SUBMIT, said()])
    assert seen == [Status.DELIVERED]
    assert session.state.mode == DEFAULT


def test_b029_an_old_plan_is_not_approvable() -> None:
    """A new message of the user closes it; so does another plan; its late allow changes nothing."""
    session, first = submitted(None)
    old = first.asked[0]
    more = [
        *ASKED["messages"],
        {"role": "assistant", "content": "x"},
        {"role": "user", "content": "no"},
    ]
    session.step({**ASKED, "messages": more}, [said()])
    assert ApprovalClosed(old.id, "abandoned") in session.events
    with pytest.raises(Exception, match="closed"):
        session.settle(old)
    second = stream(call("exit_plan_mode", json.dumps({"plan": "v2"})))
    newer = session.step({**ASKED, "messages": more}, [second, said()])
    third = stream(call("exit_plan_mode", json.dumps({"plan": "v3"})))
    newest = session.step({**ASKED, "messages": more}, [third, said()])
    assert ApprovalClosed(newer.asked[0].id, "superseded") in session.events
    session.settle(newest.asked[0])
    assert session.state.mode == DEFAULT


def test_b052_arguments_that_are_an_object() -> None:
    """The plan reaches the person all the same."""
    one = piece(index=0, id="c1", function={"name": "exit_plan_mode", "arguments": {"plan": "x"}})
    got = Session(rules=RULES).step(ASKED, [stream(one), said()])
    assert [asked.text for asked in got.asked] == ["x"]


PLANS: dict[str, tuple[Any, str | None]] = {
    "200-KB": ({"plan": "x" * 200_000}, None),
    "markup": ({"plan": "<script>\x1b[31m\u202e</script>"}, None),
    "too-long": ({"plan": "x" * (MAX_PLAN + 1)}, "KB"),
    "empty": ({"plan": ""}, "empty"),
    "blank": ({"plan": " \n\t"}, "empty"),
    "missing": ({}, "needs the argument"),
    "object": ({"plan": {"a": 1}}, "string"),
    "number": ({"plan": 3}, "string"),
    "list": ([], "needs the argument"),
}


@pytest.mark.parametrize("cut", [whole, bytewise], ids=["whole", "bytewise"])
@pytest.mark.parametrize(("arguments", "refused"), PLANS.values(), ids=PLANS)
def test_plans(arguments: Any, refused: str | None, cut: Callable[[bytes], Any]) -> None:
    """What a person could read is asked about as it is; all else goes back to the model."""
    body = stream(call("exit_plan_mode", json.dumps(arguments)))
    got = Session(rules=RULES).step(ASKED, [body, said()], cut=cut if len(body) < 9_000 else whole)
    assert [asked.text for asked in got.asked] == ([] if refused else [arguments["plan"]])
    told = json.loads(got.requests[1])["messages"][-1]["content"]
    assert (refused or "nobody answered") in told


ASKING = policy(mode("plan", "read", rule("fetch", None, Effect.ASK), exit=EXIT))
FETCHES = request("read", "fetch", "write", stream=True)


@pytest.mark.parametrize("cut", [whole, bytewise], ids=["whole", "bytewise"])
def test_ask_rules(cut: Callable[[bytes], Any]) -> None:
    """A person decides call by call, one after the other; what is allowed leaves as it came."""
    session = Session(rules=ASKING)
    decisions = iter(["allow_once", "reject"])
    session.person = lambda asked: session.settle(asked, next(decisions))
    two = stream(call("fetch", '{"u":"one"}'), call("fetch", '{"u":"two"}', at=1))
    got = session.step(FETCHES, [two], cut=cut)
    assert [asked.text for asked in got.asked] == ['{"u":"one"}', '{"u":"two"}']
    calls = read_stream(got.body)[0]["calls"]
    assert [one["arguments"] for one in calls.values()] == ['{"u":"one"}']
    assert call("fetch", '{"u":"one"}') in got.body
    assert session.state.mode == "plan"
    verdicts = [event.verdict for event in session.events if isinstance(event, CallJudged)]
    assert verdicts == ["ask", "ask"]


def test_ask_a_person_who_is_not_there() -> None:
    """Silence is not approval (L9)."""
    got = Session(rules=ASKING).step(FETCHES, [stream(call("fetch")), said("ok")])
    assert b"tool_calls" not in got.body
    assert "not approved" in got.upstream["messages"][-1]["content"]


def test_l8_an_allowed_call_needs_the_mode_that_is_in_force_then() -> None:
    """A person allows it, and another tightens in the meantime."""
    session = Session(rules=policy(*ASKING.modes.values(), mode("review", "read")))

    def both(asked: ApprovalAsked) -> None:
        session.settle(asked, "allow_once")
        session.set_mode("review")

    session.person = both
    got = session.step(FETCHES, [stream(call("fetch", json.dumps({"u": SECRET}))), said("ok")])
    assert SECRET.encode() not in got.body


def test_answers_by_a_person_are_no_hops() -> None:
    """Ten rejections are fine; the limit is for what nobody answered."""
    session = Session(rules=RULES)
    session.person = lambda asked: session.settle(asked, "reject")
    plans = [stream(call("exit_plan_mode", json.dumps({"plan": f"v{n}"}))) for n in range(10)]
    got = session.step(ASKED, [*plans, said("I give up.")])
    assert len(got.requests) == 11
    assert read_stream(got.body)[0]["text"].endswith("I give up.")


def test_exit_beside_a_refused_and_a_released_call() -> None:
    """Those are judged in the old mode; the agent gets the released one alone."""
    session = Session(rules=RULES)
    session.person = lambda asked: session.settle(asked)
    body = stream(
        call("read", "{}"),
        call("exit_plan_mode", PLAN, at=1),
        call("write", json.dumps({"p": SECRET}), at=2),
    )
    got = session.step(ASKED, [body])
    assert [one["name"] for one in read_stream(got.body)[0]["calls"].values()] == ["read"]
    assert SECRET.encode() not in got.body
    assert session.state.mode == DEFAULT
    assert len(got.requests) == 1


def test_an_upstream_that_fails_after_the_approval() -> None:
    """The mode was left by then; the client is told, and not by an error that it would retry."""
    session = Session(rules=RULES)
    session.person = lambda asked: session.settle(asked)
    got = session.step(ASKED, [SUBMIT, Reply(b"", status=503)])
    assert session.state.mode == DEFAULT
    assert "approved" in read_stream(got.body)[0]["text"]
    assert got.body.endswith(DONE)


def test_an_exit_that_is_cut_asks_nobody() -> None:
    """A plan that stops at the length limit is none."""
    body = call("exit_plan_mode", '{"plan":"# P') + chunk(None, "length") + DONE
    got = Session(rules=RULES).step(ASKED, [body])
    assert got.asked == []
    assert read_stream(got.body)[0]["finish"] == "length"


@pytest.mark.parametrize("finish", ["content_filter", "length"])
def test_l9_a_plan_of_an_answer_that_was_cut_short_is_put_to_nobody(finish: str) -> None:
    """No hop can follow it, and it may not be the whole plan."""
    session = Session(rules=RULES)
    got = session.step(ASKED, [stream(text("a"), call("exit_plan_mode", PLAN), finish=finish)])
    assert got.asked == []
    assert len(got.requests) == 1
    assert read_stream(got.body)[0]["finish"] == finish
    (judged,) = [event for event in got.events if isinstance(event, CallJudged)]
    assert "cut short" in judged.reason

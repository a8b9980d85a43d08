"""R1: a client that drops its request and sends the same one again finds its question where it was."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from modegate.core.ids import DEFAULT_MODE, CallId, Lane, StepId, ToolName
from modegate.core.log.approval_events import (
    ApprovalAnswered,
    ApprovalAsked,
    ApprovalClosed,
    ApprovalDelivered,
    ApprovalDetached,
    ApprovalDropped,
    ApprovalJoined,
    ClientLeft,
    Option,
)
from modegate.core.log.approvals import Approval, Status, opened, step
from modegate.core.log.events import Event
from modegate.core.log.open_questions import (
    away,
    delivered,
    dropped,
    joinable,
    kept,
    left,
    next_over,
    over,
    returned,
)
from modegate.core.policy.model import Effect, Exit, ExitOption
from modegate.scripted.model import ScriptedCall, Turn
from support.playbook import mode, policy, rule
from support.speech import Agent, Speech
from support.speeches import SPEECHES

S, T = StepId("s"), StepId("t")
LANE = Lane("main")
OPTIONS = (Option("approve", "Approve", "approve", DEFAULT_MODE), Option("reject", "No", "reject"))
EXIT = ApprovalAsked(
    "a", S, LANE, CallId("c"), ToolName("exit_plan_mode"), "exit", "# P", OPTIONS, 100_000, "2:x"
)
ASK = replace(EXIT, tool=ToolName("fetch"), purpose="ask", text="{}")
GONE = ApprovalDropped("a", S, 61_000)
NO = ApprovalAnswered("a", "reject")


def after(*events: Event, asked: ApprovalAsked = EXIT) -> Approval:
    """Return a question after these events."""
    found = opened(asked, 1_000)
    for event in events:
        found = step(found, event, "person:cli")
    return found


def test_a_question_whose_client_went_stays_open_for_a_while() -> None:
    one = after(ApprovalDelivered("a", "acp"), GONE)
    assert (one.status, one.shown, one.open, one.waited_for) == (
        Status.DELIVERED, ("acp",), True, False)  # fmt: skip
    assert (away(one), one.ends) == (True, 61_000)
    assert over({"a": one}, 60_999) == []
    assert next_over({"a": one}, 60_999) == 61_000
    assert next_over({"a": one}, 61_000) is None
    assert over({"a": one}, 61_000) == [ApprovalClosed("a", "abandoned")]
    assert after(GONE, ApprovalClosed("a", "abandoned")).ends == 100_000


def test_it_belongs_to_whoever_still_waits() -> None:
    """Two steps that join one question do not lose it together when the first client drops."""
    both = after(ApprovalJoined("a", T))
    assert both.waiting == (S, T)
    one = step(both, GONE, "gate")
    assert (one.waiting, one.waited_for, one.ends) == ((T,), True, 100_000)
    assert not away(one)
    assert away(step(one, ApprovalDropped("a", T, 9), "gate"))


def test_who_comes_back_waits_for_it_again() -> None:
    one = after(GONE, ApprovalJoined("a", T))
    assert (one.waiting, one.until, one.waited_for) == ((T,), 0, True)


JOINS: dict[str, tuple[Approval, ApprovalAsked, int, bool]] = {
    "a plan": (after(GONE), EXIT, 60_999, True),
    "too late": (after(GONE), EXIT, 61_000, False),
    "another plan": (after(GONE), replace(EXIT, text="# Q"), 0, False),
    "a plan from elsewhere": (after(GONE), replace(EXIT, place="4:y"), 0, True),
    "a call": (after(GONE, asked=ASK), ASK, 0, True),
    "a call that is waited for": (after(asked=ASK), ASK, 0, False),
    "a call from elsewhere": (after(GONE, asked=ASK), replace(ASK, place="4:y"), 0, False),
    "another tool": (after(GONE, asked=ASK), replace(ASK, tool=ToolName("rm")), 0, False),
    "other arguments": (after(GONE, asked=ASK), replace(ASK, text="[]"), 0, False),
    "another lane": (after(GONE), replace(EXIT, lane=Lane("sub")), 0, False),
    "an answer that nobody heard": (after(GONE, NO), EXIT, 0, True),
    "a no from elsewhere": (after(GONE, NO), replace(EXIT, place="4:y"), 0, False),
    "an answer that was heard": (after(NO), EXIT, 0, False),
    "an answer that was heard since": (after(GONE, NO, ApprovalJoined("a", T)), EXIT, 0, False),
    "a detached one": (after(GONE, ApprovalDetached("a", "nobody")), EXIT, 0, False),
    "a closed one": (after(GONE, ApprovalClosed("a", "abandoned")), EXIT, 0, False),
}


@pytest.mark.parametrize(("one", "asked", "now", "joins"), JOINS.values(), ids=JOINS)
def test_r1_what_joins(one: Approval, asked: ApprovalAsked, now: int, *, joins: bool) -> None:
    """The same question alone; an answer to it that came meanwhile is heard once."""
    asked = replace(asked, id="b", step=T)
    assert joinable({"a": one}, asked, now) == ("a" if joins else None)


def test_an_answer_while_nobody_waits_is_heard_of_late() -> None:
    one = after(GONE, NO)
    assert (one.waited, away(one)) == (False, True)
    heard = step(one, ApprovalJoined("a", T), "gate")
    assert (heard.waited, away(heard), heard.status) == (True, False, Status.ANSWERED)


def test_who_shows_it_counts_while_its_client_is_away() -> None:
    one = {"a": after(GONE)}
    shows = ApprovalDelivered("a", "acp", "acp")
    assert delivered(one, "a", "acp") == [shows]
    shown = {"a": step(one["a"], shows, "gate")}
    assert left(shown, "a", "acp", reject=True) == [ClientLeft("a", "acp", "dismissed"), NO]


def test_a_step_of_the_same_request_keeps_it_and_lets_it_go() -> None:
    """Its model may come to the same question, and takes its time."""
    elsewhere = replace(EXIT, id="c", place="4:y")
    gone = ApprovalDropped("c", S, 61_000)
    one = {
        "a": after(GONE),
        "b": after(asked=replace(EXIT, id="b")),
        "c": after(gone, asked=elsewhere),
    }
    assert returned(one, LANE, "2:x") == ("a",)
    assert returned(one, Lane("sub"), "2:x") == ()
    keeps = ApprovalDropped("a", T, 900_000)
    assert kept(one, T, ["a", "b"], 60_999, 900_000) == [keeps]
    assert kept(one, T, ["a"], 61_000, 900_000) == []
    assert step(one["a"], keeps, "gate").until == 900_000
    assert dropped(one, T, ["a", "b"], 70_000) == [ApprovalDropped("a", T, 70_000)]
    assert dropped({"b": after()}, S, (), 9) == [ApprovalDropped("a", S, 9)]
    assert dropped({"b": after()}, T, (), 9) == []


# As agents live with it.

RULES = policy(
    mode(
        "plan",
        "read",
        rule("fetch", effect=Effect.ASK),
        exit=Exit((ExitOption("Approve", DEFAULT_MODE),)),
    )
)
PLAN = Turn("My plan.", calls=(ScriptedCall("exit_plan_mode", json.dumps({"plan": "# P"})),))
FETCH = Turn("I fetch.", calls=(ScriptedCall("fetch", '{"url": "u"}'),))


def dropping(speech: Speech, turn: Turn) -> tuple[Agent, ApprovalAsked]:
    """Return an agent that asked a person and then dropped its request; nothing came of that."""
    agent = Agent(speech, RULES, tools=("read", "fetch", "write"))
    session = agent.session

    def drop(asked: ApprovalAsked) -> None:
        session.append(dropped(session.state.approvals, asked.step, (), 1_000), by="gate")

    session.person = drop
    agent.step(turn, Turn("It goes on, but nobody hears it."))
    session.person = None
    return agent, agent.got.asked[0]


@pytest.mark.parametrize("answered", [False, True], ids=["meanwhile open", "meanwhile answered"])
@pytest.mark.parametrize("turn", [PLAN, FETCH], ids=["plan", "call"])
@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_r1_the_same_request_again_joins_its_question(
    speech: Speech, turn: Turn, *, answered: bool
) -> None:
    agent, asked = dropping(speech, turn)
    session = agent.session
    if answered:
        session.settle(asked, "reject", "Too long.")
    else:
        session.person = lambda _: session.settle(asked, "reject", "Too long.")
    agent.step(turn, Turn("I see."))
    assert list(session.state.approvals) == [asked.id]
    assert "Too long." in str(agent.told())


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_r1_another_plan_takes_its_place(speech: Speech) -> None:
    """A person must not approve what the model does not know of."""
    agent, asked = dropping(speech, PLAN)
    other = ScriptedCall("exit_plan_mode", json.dumps({"plan": "# Q"}))
    agent.session.person = lambda new: agent.session.settle(new, "approve")
    agent.step(Turn("My plan.", calls=(other,)), Turn("I go on."))
    old = agent.session.state.approvals[asked.id]
    assert (old.status, old.why) == (Status.CLOSED, "superseded")
    assert agent.session.state.mode == DEFAULT_MODE


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_r1_a_new_message_of_its_user_closes_it(speech: Speech) -> None:
    agent, asked = dropping(speech, PLAN)
    agent.history += agent.speech.api.results([])
    agent.user("No, never do that.")
    agent.step(Turn("Well."))
    assert agent.session.state.approvals[asked.id].why == "abandoned"


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_r1_a_plan_approved_while_its_client_was_away_is_told_by_a_notice(speech: Speech) -> None:
    agent, asked = dropping(speech, PLAN)
    agent.session.settle(asked, "approve")
    agent.step(Turn("I write.", calls=(ScriptedCall("write", "{}"),)))
    assert "from 'plan' to 'default'" in str(agent.told())

"""What a connection is sent to catch up with a session: what it was not shown, and nothing older."""

from __future__ import annotations

import itertools
from collections.abc import Generator
from dataclasses import replace

import pytest

from modegate.core.ids import (
    DEFAULT_MODE,
    CallId,
    Lane,
    ModeId,
    Seq,
    SessionId,
    StepId,
    ToolName,
)
from modegate.core.log.approval_events import ApprovalAsked, Option
from modegate.core.log.approvals import Approval, Status
from modegate.core.log.fold import State
from modegate.core.policy.model import Level, Mode, Policy
from modegate_acp.following.catch_up import (
    LastShown,
    Outgoing,
    Perspective,
    Snapshot,
    begin,
    catch_up,
    forget,
    replied,
)
from modegate_acp.messages.clients import Peer, client_named
from support.acp import Json, kinds

PLAN = Mode(ModeId("plan"), "Plan", "Look.", "", ())
POLICY = Policy("p", {PLAN.id: PLAN})
OPTIONS = (Option("approve", "Approve", "approve", DEFAULT_MODE), Option("reject", "No", "reject"))
EXPIRES = 1_000


def state(seq: int, mode: str = "default", mode_seq: int = 0, *approvals: Approval) -> State:
    open_ones = {one.asked.id: one for one in approvals}
    return State(Seq(seq), ModeId(mode), Seq(mode_seq), approvals=open_ones)


def view(
    state: State, policy: Policy = POLICY, level: Level = Level.FULL, now: int = 0
) -> Perspective:
    return Perspective(Snapshot(SessionId("s"), state, policy), Peer(), level, now)


def question(name: str = "q", status: Status = Status.ASKED, option: str = "") -> Approval:
    place = (StepId("s"), Lane("l"), CallId("c"), ToolName("exit_plan_mode"))
    asked = ApprovalAsked(name, *place, "exit", "# Plan", OPTIONS, EXPIRES)
    return Approval(asked, status, option=option, by="person:cli")


def shown(seen: State, policy: Policy = POLICY) -> LastShown:
    """Return what a connection was shown that has caught up with a state."""
    return catch_up(begin(view(seen, policy)), view(seen, policy), rpcs().__next__)[0]


def rpcs(first: int = 1) -> Generator[str, None, None]:
    return (f"r{number}" for number in itertools.count(first))


def sent(out: list[Outgoing]) -> list[Json]:
    return [one.message for one in out]


def test_first_comes_what_can_be_typed_then_what_is_open() -> None:
    seen = state(3, "plan", 2, question())
    now, out = catch_up(begin(view(seen)), view(seen), rpcs().__next__)
    assert kinds(sent(out)) == [
        "available_commands_update",
        "tool_call",
        "session/request_permission",
    ]
    assert [one.question for one in out] == [None, None, "q"]
    assert catch_up(now, view(seen), rpcs(5).__next__) == (now, [])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (state(1), state(2, "plan", 2)),
        (state(2, "plan", 2), state(3, "default", 3)),
        # Away and back while it was slow: the newest is told, with its seq.
        (state(2, "plan", 2), state(4, "plan", 4)),
    ],
    ids=["set", "left", "set again"],
)
def test_a_mode_is_told_in_both_ways(old: State, new: State) -> None:
    now, out = catch_up(shown(old), view(new), rpcs().__next__)
    mode, options = sent(out)
    assert mode["params"]["update"]["currentModeId"] == new.mode
    assert options["params"]["update"]["configOptions"][0]["currentValue"] == new.mode
    assert mode["params"]["_meta"] == options["params"]["_meta"] == {"modegate/seq": new.seq}
    assert now.mode_seq == new.mode_seq


def test_other_events_are_not_told() -> None:
    assert catch_up(shown(state(2, "plan", 2)), view(state(9, "plan", 2)), rpcs().__next__)[1] == []


def test_an_older_state_changes_nothing() -> None:
    before = shown(state(5, "plan", 5))
    assert catch_up(before, view(state(4, "default", 3)), rpcs().__next__) == (before, [])


def test_other_modes_of_the_policy_are_told() -> None:
    _, out = catch_up(shown(state(1)), view(state(1), Policy("q", {})), rpcs().__next__)
    assert kinds(sent(out)) == ["current_mode_update", "config_option_update"]


def test_a_client_that_does_not_bear_options_gets_none() -> None:
    narrow = replace(view(state(2, "plan", 2)), peer=client_named("JetBrains", "2026.1"))
    _, out = catch_up(shown(state(1)), narrow, rpcs().__next__)
    assert kinds(sent(out)) == ["current_mode_update"]


def test_whoever_may_only_look_is_shown_and_not_asked() -> None:
    seen = state(3, "plan", 2, question())
    now, out = catch_up(
        shown(state(2, "plan", 2)), view(seen, level=Level.OBSERVE), rpcs().__next__
    )
    assert kinds(sent(out)) == ["tool_call"]
    assert [one.question for one in out] == [None]
    _, out = catch_up(now, view(state(4, "plan", 2)), rpcs().__next__)
    assert kinds(sent(out)) == ["tool_call_update"]


ENDS: dict[str, tuple[State, str, str]] = {
    "approved": (
        state(4, "plan", 2, question(status=Status.ANSWERED, option="approve")),
        "completed",
        "Approved: Approve (by person:cli).",
    ),
    "rejected": (
        state(4, "plan", 2, question(status=Status.ANSWERED, option="reject")),
        "failed",
        "Rejected: No (by person:cli).",
    ),
    "closed": (
        state(4, "plan", 2, replace(question(status=Status.CLOSED), why="superseded")),
        "failed",
        "Closed: superseded.",
    ),
    "forgotten": (state(4, "plan", 2), "failed", "This question is over."),
}


@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS)
def test_how_a_question_ends(case: tuple[State, str, str]) -> None:
    ended, status, text = case
    before = shown(state(3, "plan", 2, question()))
    now, out = catch_up(before, view(ended), rpcs().__next__)
    dismissed, update = sent(out)
    assert dismissed["method"] == "$/cancel_request"
    assert dismissed["params"] == {"requestId": "r1"}
    assert update["params"]["update"]["status"] == status
    assert update["params"]["update"]["content"][0]["content"]["text"] == text
    assert now.asked == {}


def test_who_has_replied_is_not_dismissed() -> None:
    before = replied(shown(state(3, "plan", 2, question())), "q")
    ended = state(4, "plan", 2, question(status=Status.ANSWERED, option="approve"))
    _, out = catch_up(before, view(ended), rpcs().__next__)
    assert kinds(sent(out)) == ["tool_call_update"]
    assert replied(before, "another") is before


def test_r1_a_dialog_stays_while_the_client_is_away_and_goes_when_it_does_not_come_back() -> None:
    asked, away = question(), replace(question(), until=500)
    before = shown(state(3, "plan", 2, asked))
    now, out = catch_up(before, view(state(4, "plan", 2, away)), rpcs().__next__)
    assert sent(out) == []
    assert now.asked["q"] == replace(before.asked["q"], expires=500)
    _, out = catch_up(now, view(state(4, "plan", 2, away), now=500), rpcs().__next__)
    assert len(sent(out)) == 2
    back = replace(question(), waiting=(StepId("t"),))
    now, out = catch_up(now, view(state(5, "plan", 2, back)), rpcs().__next__)
    assert (sent(out), now.asked["q"].expires) == ([], before.asked["q"].expires)


def test_a_question_expires_without_an_event() -> None:
    seen = state(3, "plan", 2, question())
    _, out = catch_up(shown(seen), view(seen, now=EXPIRES), rpcs().__next__)
    assert kinds(sent(out)) == ["$/cancel_request", "tool_call_update"]
    assert "Expired." in str(sent(out)[1])


def test_a_call_whose_step_went_on_is_over() -> None:
    call = replace(question().asked, purpose="ask")
    seen = state(3, "plan", 2, Approval(call))
    over = state(4, "plan", 2, Approval(call, Status.DETACHED, why="timeout"))
    _, out = catch_up(shown(seen), view(over), rpcs().__next__)
    assert "Not answered in time." in str(sent(out)[1])


def test_a_detached_plan_stays_open() -> None:
    seen = state(3, "plan", 2, question())
    detached = state(4, "plan", 2, question(status=Status.DETACHED))
    assert catch_up(shown(seen), view(detached), rpcs().__next__)[1] == []


def test_what_was_forgotten_is_asked_again_under_another_id() -> None:
    seen = state(3, "plan", 2, question())
    before = forget(shown(seen), "q")
    _, out = catch_up(before, view(seen), rpcs(2).__next__)
    assert sent(out)[1]["id"] == "r2"

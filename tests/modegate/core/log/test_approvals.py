"""The life of an approval, cell by cell, and that whatever happens one answer counts at most (L9)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.errors import BadOption, ModegateError, NotOpen, UnknownMode
from modegate.core.ids import DEFAULT_MODE, CallId, Lane, ModeId, Seq, StepId, ToolName
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
from modegate.core.log.approvals import (
    KEPT_SETTLED,
    MAX_SHOWN,
    TRANSITIONS,
    Approval,
    Status,
    opened,
    remember,
    step,
)
from modegate.core.log.events import Event, ModeSet
from modegate.core.log.fold import State, dump_state, fold, fold_all, load_state
from modegate.core.log.open_questions import (
    MAX_COMMENT,
    answer,
    delivered,
    joinable,
    left,
    moved_on,
    replaced,
)
from modegate.core.log.records import Record
from modegate.core.policy.model import EXPIRES_MS, NOBODY_S, WAIT_STREAMED_S, WAIT_WHOLE_S, Waits
from modegate.core.policy.waiting import abandoned, due, next_due

PLAN = ModeId("plan")
BUILD = ModeId("build")
EXIT = (
    Option("approve", "Approve", "approve", DEFAULT_MODE),
    Option("approve-2", "Approve, and build", "approve", BUILD),
    Option("reject", "Reject", "reject"),
)
ONCE = (Option("allow_once", "Allow once", "allow_once"), Option("reject", "Reject", "reject"))
NOW = 5_000
EXPIRES = 10_000


def exit_asked(name: str = "a", lane: str = "main", text: str = "# Plan") -> ApprovalAsked:
    place = (StepId("s"), Lane(lane), CallId("c"), ToolName("exit_plan_mode"))
    return ApprovalAsked(name, *place, "exit", text, EXIT, EXPIRES)


def call_asked(name: str = "a", lane: str = "main", text: str = "{}") -> ApprovalAsked:
    place = (StepId("s"), Lane(lane), CallId("c"), ToolName("web_fetch"))
    return ApprovalAsked(name, *place, "ask", text, ONCE, EXPIRES)


HISTORIES: dict[Status, tuple[Event, ...]] = {
    Status.ASKED: (),
    Status.DELIVERED: (ApprovalDelivered("a", "cli"),),
    Status.DETACHED: (ApprovalDetached("a", "nobody"),),
    Status.ANSWERED: (ApprovalAnswered("a", "reject", "no"),),
    Status.CLOSED: (ApprovalClosed("a", "abandoned"),),
}
OPEN = (Status.ASKED, Status.DELIVERED, Status.DETACHED)


def at(status: Status, asked: ApprovalAsked | None = None) -> Approval:
    approval = opened(asked or exit_asked(), 1_000)
    for event in HISTORIES[status]:
        approval = step(approval, event, "person:first")
    assert approval.status is status
    return approval


CELLS: dict[tuple[Status, Event], Status] = {
    (Status.ASKED, ApprovalDelivered("a", "acp")): Status.DELIVERED,
    (Status.ASKED, ApprovalDetached("a", "timeout")): Status.DETACHED,
    (Status.ASKED, ApprovalAnswered("a", "approve")): Status.ANSWERED,
    (Status.ASKED, ApprovalClosed("a", "superseded")): Status.CLOSED,
    (Status.DELIVERED, ApprovalDelivered("a", "acp")): Status.DELIVERED,
    (Status.DELIVERED, ApprovalDetached("a", "timeout")): Status.DETACHED,
    (Status.DELIVERED, ApprovalAnswered("a", "approve")): Status.ANSWERED,
    (Status.DELIVERED, ApprovalClosed("a", "superseded")): Status.CLOSED,
    (Status.DETACHED, ApprovalDelivered("a", "acp")): Status.DETACHED,
    (Status.DETACHED, ApprovalDetached("a", "timeout")): Status.DETACHED,
    (Status.DETACHED, ApprovalAnswered("a", "approve")): Status.ANSWERED,
    (Status.DETACHED, ApprovalClosed("a", "superseded")): Status.CLOSED,
    (Status.ANSWERED, ApprovalDelivered("a", "acp")): Status.ANSWERED,
    (Status.ANSWERED, ApprovalDetached("a", "timeout")): Status.ANSWERED,
    (Status.ANSWERED, ApprovalAnswered("a", "approve")): Status.ANSWERED,
    (Status.ANSWERED, ApprovalClosed("a", "superseded")): Status.ANSWERED,
    (Status.CLOSED, ApprovalDelivered("a", "acp")): Status.CLOSED,
    **{
        (status, event): status
        for status in Status
        for event in (
            ApprovalJoined("a", StepId("t")),
            ApprovalDropped("a", StepId("not waiting"), 9_000),
        )
    },
    (Status.ASKED, ClientLeft("a", "acp", "gone")): Status.ASKED,
    (Status.DELIVERED, ClientLeft("a", "acp", "gone")): Status.DELIVERED,
    (Status.DETACHED, ClientLeft("a", "acp", "gone")): Status.DETACHED,
    (Status.ANSWERED, ClientLeft("a", "acp", "gone")): Status.ANSWERED,
    (Status.CLOSED, ClientLeft("a", "acp", "gone")): Status.CLOSED,
    (Status.CLOSED, ApprovalDetached("a", "timeout")): Status.CLOSED,
    (Status.CLOSED, ApprovalAnswered("a", "approve")): Status.CLOSED,
    (Status.CLOSED, ApprovalClosed("a", "superseded")): Status.CLOSED,
}


def test_the_table_has_a_cell_for_every_status_and_event() -> None:
    says_who = {ApprovalDelivered, ClientLeft, ApprovalJoined, ApprovalDropped}
    kinds = says_who | {ApprovalDetached, ApprovalAnswered, ApprovalClosed}
    assert {status: set(row) for status, row in TRANSITIONS.items()} == dict.fromkeys(Status, kinds)
    assert {(s, type(e)) for s, e in CELLS} == {(s, kind) for s in Status for kind in kinds}


@pytest.mark.parametrize(
    ("status", "event", "after"),
    [(status, event, after) for (status, event), after in CELLS.items()],
    ids=[f"{status}-{type(event).__name__}" for status, event in CELLS],
)
def test_each_cell(status: Status, event: Event, after: Status) -> None:
    before = at(status)
    found = step(before, event, "person:second")
    assert found.status is after
    if after is status:
        same = replace(found, shown=before.shown, waiting=before.waiting)
        assert same == before, (
            "what changes no status changes nothing but who shows it or waits for it"
        )


@pytest.mark.parametrize("status", OPEN)
def test_an_answer_is_kept_with_who_gave_it(status: Status) -> None:
    found = step(at(status), ApprovalAnswered("a", "approve-2", "go on"), "person:acp")
    assert (found.option, found.by, found.comment) == ("approve-2", "person:acp", "go on")
    assert (found.approved, found.to) == (True, BUILD)
    assert found.waited is (status is not Status.DETACHED)
    assert found.settled() == "answered with 'approve-2' by person:acp"


@pytest.mark.parametrize(
    ("asked", "option", "approved", "to"),
    [
        (exit_asked(), "approve", True, DEFAULT_MODE),
        (exit_asked(), "approve-2", True, BUILD),
        (exit_asked(), "reject", False, None),
        (call_asked(), "allow_once", True, None),
        (call_asked(), "reject", False, None),
        (exit_asked(), "never offered", False, None),
    ],
)
def test_what_counts_as_approved(
    asked: ApprovalAsked, option: str, approved: bool, to: ModeId | None
) -> None:
    found = step(opened(asked, 0), ApprovalAnswered("a", option), "person:cli")
    assert (found.approved, found.to) == (approved, to)


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.ANSWERED])
def test_nothing_but_an_answer_is_approval(status: Status) -> None:
    assert not at(status).approved


# A person's answer at each status.

ANSWERS: dict[str, tuple[str, str, int, set[ModeId]]] = {
    "offered": ("a", "approve-2", NOW, {PLAN, BUILD}),
    "rejection": ("a", "reject", NOW, {PLAN, BUILD}),
    "unknown option": ("a", "approve-3", NOW, {PLAN, BUILD}),
    "no option": ("a", "", NOW, {PLAN, BUILD}),
    "expired": ("a", "approve-2", EXPIRES, {PLAN, BUILD}),
    "foreign id": ("b", "approve-2", NOW, {PLAN, BUILD}),
    "mode gone": ("a", "approve-2", NOW, {PLAN}),
    "to default with no modes left": ("a", "approve", NOW, set()),
}
OUTCOMES: dict[str, list[Event] | type[ModegateError]] = {
    "offered": [ApprovalAnswered("a", "approve-2", "words"), ModeSet(BUILD)],
    "rejection": [ApprovalAnswered("a", "reject", "words")],
    "unknown option": BadOption,
    "no option": BadOption,
    "expired": NotOpen,
    "foreign id": NotOpen,
    "mode gone": UnknownMode,
    "to default with no modes left": [
        ApprovalAnswered("a", "approve", "words"),
        ModeSet(DEFAULT_MODE),
    ],
}


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("kind", ANSWERS)
def test_each_answer_at_each_status(status: Status, kind: str) -> None:
    name, option, now, modes = ANSWERS[kind]
    # Late, repeated and contradicting answers are those to a settled question.
    outcome = OUTCOMES[kind] if status in OPEN else NotOpen

    def answered() -> list[Event]:
        return answer(
            {"a": at(status)}, name, option, comment="words", now_ms=now, modes=modes
        )  # fmt: skip

    if isinstance(outcome, list):
        assert answered() == outcome
    else:
        with pytest.raises(outcome):
            answered()


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (Status.ANSWERED, "already answered with 'reject' by person:first"),
        (Status.CLOSED, "already closed: abandoned"),
    ],
)
def test_a_late_answer_is_told_how_it_ended(status: Status, words: str) -> None:
    with pytest.raises(NotOpen, match=words):
        answer({"a": at(status)}, "a", "approve", now_ms=NOW, modes={PLAN})


def test_who_names_no_option_that_was_offered_is_told_which_were() -> None:
    with pytest.raises(BadOption, match="offered: approve, approve-2, reject"):
        answer({"a": at(Status.ASKED)}, "a", "yes", now_ms=NOW, modes={PLAN})


@pytest.mark.parametrize(
    ("status", "open_"),
    [
        (Status.ASKED, True),
        (Status.DELIVERED, True),
        (Status.DETACHED, False),
        (Status.ANSWERED, False),
        (Status.CLOSED, False),
    ],
)
def test_a_call_is_over_once_its_step_went_on(status: Status, open_: bool) -> None:
    approvals = {"a": at(status, call_asked())}
    assert approvals["a"].open is open_
    if open_:
        answered = answer(approvals, "a", "allow_once", now_ms=NOW, modes={PLAN})
        assert answered == [ApprovalAnswered("a", "allow_once")]
    else:
        with pytest.raises(NotOpen):
            answer(approvals, "a", "allow_once", now_ms=NOW, modes={PLAN})


def test_a_late_yes_to_a_call_is_told_that_it_is_over() -> None:
    with pytest.raises(NotOpen, match=r"over: its step went on without an answer \(nobody\)"):
        answer(
            {"a": at(Status.DETACHED, call_asked())}, "a", "reject", now_ms=NOW, modes={PLAN}
        )  # fmt: skip


def test_a_comment_is_bounded() -> None:
    (event,) = answer(
        {"a": at(Status.ASKED)}, "a", "reject", comment="x" * 9_999, now_ms=NOW, modes={PLAN}
    )
    assert event == ApprovalAnswered("a", "reject", "x" * MAX_COMMENT)


@pytest.mark.parametrize("status", Status)
def test_delivery_is_noted_once(status: Status) -> None:
    """Once for each client, while a step waits."""
    one = at(status)
    first = [ApprovalDelivered("a", "acp", "acp:1")] if one.waited_for else []
    assert delivered({"a": one}, "a", "acp", "acp:1") == first
    for event in first:
        one = step(one, event, "gate")
        assert "acp:1" in one.shown
    assert delivered({"a": one}, "a", "acp", "acp:1") == []


def test_a7_clients_that_are_known_to_show_it_are_bounded() -> None:
    one = at(Status.ASKED)
    for n in range(MAX_SHOWN + 3):
        one = step(one, ApprovalDelivered("a", "acp", f"acp:{n}"), "gate")
    assert len(one.shown) == MAX_SHOWN
    assert one.shown[-1] == f"acp:{MAX_SHOWN + 2}"


def shown_to(*clients: str) -> Approval:
    one = at(Status.ASKED)
    for client in clients:
        one = step(one, ApprovalDelivered("a", "acp", client), "gate")
    return one


GONE, DISMISSED = ClientLeft("a", "x", "gone"), ClientLeft("a", "x", "dismissed")
NO = ApprovalAnswered("a", "reject")


@pytest.mark.parametrize(
    ("one", "reject", "events"),
    [
        (shown_to("x", "y"), True, [DISMISSED]),
        (shown_to("x", "y"), False, [GONE]),
        (shown_to("x"), True, [DISMISSED, NO]),
        (shown_to("x"), False, [GONE]),
        (shown_to("y"), True, []),
        (shown_to("y"), False, []),
        (shown_to(), True, [NO]),
        (at(Status.DETACHED), True, []),
        (at(Status.ANSWERED), True, []),
        (at(Status.CLOSED), False, []),
    ],
    ids=[
        "dismissed, others have it", "gone, others have it", "dismissed by the last", "the last is gone",
        "dismissed where it was not shown", "gone where it was not shown", "dismissed before it is known",
        "nobody waits", "answered", "closed",
    ],
)  # fmt: skip
def test_a7_who_leaves(one: Approval, reject: bool, events: list[Event]) -> None:
    assert left({"a": one}, "a", "x", reject=reject) == events
    after = one
    for event in events:
        after = step(after, event, "person:acp")
    assert "x" not in after.shown
    assert after.approved is one.approved
    assert left({}, "a", "x", reject=reject) == []


def test_a7_a_question_without_a_no_is_left_open() -> None:
    one = shown_to("x")
    one = replace(one, asked=replace(one.asked, options=EXIT[:1]))
    assert left({"a": one}, "a", "x", reject=True) == [DISMISSED]


def test_a7_nobody_is_left() -> None:
    """One dismisses it, the other's socket closes: the step goes on as if nobody had been there."""
    one = shown_to("x", "y")
    for event in (ClientLeft("a", "x", "dismissed"), ClientLeft("a", "y", "gone")):
        assert due(one, 30.0, 0.0, streamed=True, draining=False) is None
        one = step(one, event, "gate")
    assert one.status is Status.DELIVERED
    assert due(one, 30.0, 0.5, streamed=True, draining=False) is None
    assert next_due(one, 30.0, 0.5, streamed=True) == NOBODY_S - 0.5
    assert due(one, 30.0, NOBODY_S, streamed=True, draining=False) == "nobody"
    # Who comes back in time has it again.
    back = step(one, ApprovalDelivered("a", "acp", "z"), "gate")
    assert due(back, 30.0, NOBODY_S, streamed=True, draining=False) is None


def test_delivery_of_nothing_is_refused() -> None:
    with pytest.raises(NotOpen, match="no approval 'b'"):
        delivered({"a": at(Status.ASKED)}, "b", "cli")


# How long a step waits.


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    ("status", "waited", "why"),
    [
        (Status.ASKED, 0.0, None),
        (Status.ASKED, NOBODY_S - 0.1, None),
        (Status.ASKED, NOBODY_S, "nobody"),
        (Status.DELIVERED, NOBODY_S, None),
        (Status.DELIVERED, WAIT_WHOLE_S - 0.1, None),
        (Status.DELIVERED, WAIT_STREAMED_S, "timeout"),
        (Status.ASKED, WAIT_STREAMED_S, "timeout"),
    ],
)
def test_when_a_step_goes_on_without_an_answer(
    streamed: bool, status: Status, waited: float, why: str | None
) -> None:
    one = at(status)

    def after(more: float) -> str | None:
        return due(one, waited + more, waited + more, streamed=streamed, draining=False)

    assert after(0.0) == why
    assert due(one, waited, waited, streamed=streamed, draining=True) == "shutdown"
    rest = next_due(one, waited, waited, streamed=streamed)
    if why is None:
        assert after(rest) is not None
        assert after(rest - 0.01) is None
    else:
        assert rest == 0.0


def test_only_a_stream_waits_for_an_hour() -> None:
    one = at(Status.DELIVERED)
    assert due(one, WAIT_WHOLE_S, 0.0, streamed=False, draining=False) == "timeout"
    assert due(one, WAIT_WHOLE_S, 0.0, streamed=True, draining=False) is None


def test_the_limits_can_be_others() -> None:
    waits = Waits(nobody=1.0, streamed=3.0, whole=2.0)
    one = at(Status.DELIVERED)
    assert next_due(at(Status.ASKED), 0.0, 0.0, streamed=True, waits=waits) == 1.0
    assert due(one, 2.0, 0.0, streamed=False, draining=False, waits=waits) == "timeout"
    assert due(one, 2.0, 0.0, streamed=True, draining=False, waits=waits) is None


# What a new question, and a new message, do to older ones.


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize(
    ("old", "new", "replaces"),
    [
        (exit_asked("a", text="v1"), exit_asked("b", text="v2"), True),
        (exit_asked("a", text="v1"), exit_asked("b", text="v1"), True),
        (exit_asked("a"), exit_asked("b", lane="sub"), False),
        (exit_asked("a"), call_asked("b"), False),
        (call_asked("a"), exit_asked("b"), False),
        (call_asked("a"), call_asked("b"), False),
    ],
    ids=["another plan", "the same plan", "another lane", "a call", "over a call", "two calls"],
)
def test_b029_one_open_plan_a_lane(
    status: Status, old: ApprovalAsked, new: ApprovalAsked, replaces: bool
) -> None:
    closed = [ApprovalClosed("a", "superseded")] if replaces and status in OPEN else []
    assert replaced({"a": at(status, old)}, new) == closed


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize(
    ("old", "new", "joins"),
    [
        (exit_asked("a"), exit_asked("b"), True),
        (exit_asked("a", text="v1"), exit_asked("b", text="v2"), False),
        (exit_asked("a"), exit_asked("b", lane="sub"), False),
        (exit_asked("a"), replace(exit_asked("b"), options=EXIT[1:]), False),
        (call_asked("a"), call_asked("b"), False),
        (exit_asked("a"), call_asked("b", text="# Plan"), False),
    ],
    ids=["the same", "another plan", "another lane", "other options", "calls", "a call"],
)
def test_the_same_plan_joins_the_question_that_is_waited_for(
    status: Status, old: ApprovalAsked, new: ApprovalAsked, joins: bool
) -> None:
    waits = status in (Status.ASKED, Status.DELIVERED)
    found = joinable({"a": at(status, old)}, new, NOW)
    assert found == ("a" if joins and waits else None)


def test_an_expired_question_is_not_joined() -> None:
    assert joinable({"a": at(Status.ASKED)}, exit_asked("b"), EXPIRES) is None


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("lane", ["main", "sub", None])
def test_a_new_message_closes_what_is_open(status: Status, lane: str | None) -> None:
    approvals = {"a": at(status)}
    closes = approvals["a"].open and lane != "sub"
    assert moved_on(approvals, lane, "2:user:new") == (("a",) if closes else ())
    # The same request once more is no new message.
    assert moved_on(approvals, lane, approvals["a"].asked.place) == ()


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("minutes", [0, 59, 61])
def test_r3_what_a_step_waits_for_stays(status: Status, minutes: int) -> None:
    """Another conversation with the same first words closes nothing that a person reads.

    A step that was killed waits no more, and nobody waits for longer than an hour.
    """
    one = at(status)
    found = abandoned({"a": one}, ["a", "forgotten"], one.asked_at + minutes * 60_000)
    closes = one.open and (status is Status.DETACHED or minutes > 60)
    assert found == ([ApprovalClosed("a", "abandoned")] if closes else [])


# The fold.


def log(*events: Event, by: str = "person:cli") -> list[Record]:
    return [Record(Seq(n), n * 1_000, by, event) for n, event in enumerate(events, 1)]


def test_the_fold_knows_when_it_was_asked() -> None:
    state = fold_all(log(ModeSet(PLAN), exit_asked()))
    assert state.approvals == {"a": opened(exit_asked(), 2_000)}


def test_an_id_is_asked_once() -> None:
    state = fold_all(log(exit_asked(text="v1"), exit_asked(text="v2")))
    assert state.approvals["a"].asked.text == "v1"


@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES.keys())
def test_what_was_never_asked_is_nothing(history: tuple[Event, ...]) -> None:
    assert fold_all(log(*history)).approvals == {}


@pytest.mark.parametrize("status", OPEN)
def test_a_mode_change_closes_what_is_open(status: Status) -> None:
    state = fold_all(log(exit_asked(), *HISTORIES[status], ModeSet(PLAN)))
    assert (state.approvals["a"].status, state.approvals["a"].why) == (Status.CLOSED, "superseded")
    with pytest.raises(NotOpen, match="superseded"):
        answer(state.approvals, "a", "approve", now_ms=NOW, modes={PLAN})


def test_the_answer_that_sets_the_mode_is_not_closed_by_it() -> None:
    asked = fold_all(log(ModeSet(PLAN), exit_asked(), call_asked("b")))
    events = answer(asked.approvals, "a", "approve-2", now_ms=NOW, modes={PLAN, BUILD})
    state = fold_all(
        [Record(Seq(3 + n), NOW, "person:acp", e) for n, e in enumerate(events, 1)], asked
    )
    assert (state.mode, state.set_by_person) == (BUILD, True)
    assert state.approvals["a"].status is Status.ANSWERED
    assert state.approvals["b"].status is Status.CLOSED


@pytest.mark.parametrize("asked", [exit_asked(text="x" * 1_000), call_asked(text="x" * 1_000)])
@pytest.mark.parametrize("status", Status)
def test_only_what_can_be_answered_keeps_its_text(status: Status, asked: ApprovalAsked) -> None:
    state = fold_all(log(asked, *HISTORIES[status]))
    found = state.approvals["a"]
    assert bool(found.asked.text) is found.open
    assert load_state(dump_state(state)) == state


def test_the_last_settled_are_remembered_and_all_open_ones() -> None:
    first, *rest = [exit_asked(f"q{n}", lane=f"l{n}") for n in range(KEPT_SETTLED + 10)]
    closes = [ApprovalClosed(one.id, "abandoned") for one in rest]
    state = fold_all(log(exit_asked("open", lane="x"), first, *rest, *closes))
    assert len(state.approvals) == KEPT_SETTLED + 2
    # An old question that is settled now is the newest of the settled ones.
    late = fold(
        state, Record(Seq(state.seq + 1), 1, "person:cli", ApprovalAnswered("q0", "reject"))
    )
    assert late.approvals["q0"].status is Status.ANSWERED
    assert late.approvals["open"].open


def test_remembering_changes_nothing_of_what_is_open() -> None:
    found = {"a": at(Status.ASKED), "b": at(Status.DETACHED, exit_asked("b"))}
    assert remember(found) == found


def test_questions_expire_after_a_day() -> None:
    assert EXPIRES_MS == 86_400_000


IDS = st.sampled_from(["a", "b", "c"])
QUESTIONS = st.one_of(
    st.builds(exit_asked, IDS, st.sampled_from(["main", "sub"]), st.sampled_from(["v1", "v2"])),
    st.builds(call_asked, IDS),
)
HAPPENINGS: st.SearchStrategy[Event] = st.one_of(
    QUESTIONS,
    st.builds(ApprovalDelivered, IDS, st.just("acp"), st.sampled_from(["", "x", "y"])),
    st.builds(ClientLeft, IDS, st.sampled_from(["x", "y"]), st.sampled_from(["dismissed", "gone"])),
    st.builds(ApprovalDetached, IDS, st.sampled_from(["nobody", "timeout", "shutdown"])),
    st.builds(ApprovalClosed, IDS, st.sampled_from(["expired", "superseded", "abandoned"])),
    st.builds(ApprovalJoined, IDS, st.sampled_from(["s", "t"])),
    st.builds(ApprovalDropped, IDS, st.sampled_from(["s", "t"]), st.integers(NOW, EXPIRES)),
    st.builds(ModeSet, st.sampled_from([PLAN, DEFAULT_MODE, BUILD])),
)
PEOPLE = st.tuples(
    st.just("answer"), IDS, st.sampled_from(["approve", "approve-2", "reject", "allow_once", "x"])
)
TIMES = st.integers(NOW - 1_000, EXPIRES + 1_000)
STORIES = st.lists(st.tuples(st.one_of(HAPPENINGS, PEOPLE), TIMES), max_size=30)


@given(STORIES)
def test_whatever_the_order_one_answer_counts_and_only_an_approval_sets_a_mode(
    story: list[tuple[Any, int]],
) -> None:
    """L9: people answer at any time, anything; what they append is decided by the core alone."""
    state, answered, seq = State(), [], 0
    for what, now in story:
        events: list[Event] = [what] if not isinstance(what, tuple) else []
        if isinstance(what, tuple):
            before = state.approvals.get(what[1])
            try:
                events = answer(state.approvals, what[1], what[2], now_ms=now, modes={PLAN, BUILD})
            except (NotOpen, BadOption):
                continue
            assert before is not None
            assert before.open
            assert now < before.ends <= before.asked.expires
            answered.append(what[1])
            sets = [event.mode for event in events if isinstance(event, ModeSet)]
            to = {option.id: option.to for option in before.asked.options}[what[2]]
            assert sets == ([to] if to is not None else [])
            assert not sets or what[2].startswith("approve")
        for event in events:
            seq += 1
            state = fold(state, Record(Seq(seq), now, "person:cli", event))
    for name in set(answered):
        assert answered.count(name) == 1
        assert state.approvals[name].status is Status.ANSWERED


@given(
    st.lists(
        HAPPENINGS | st.builds(ApprovalAnswered, IDS, st.sampled_from(["approve", "reject"])),
        max_size=30,
    )
)
def test_a_settled_question_never_changes_again(events: list[Event]) -> None:
    states = [State()]
    for record in log(*events):
        states.append(fold(states[-1], record))
    for before, after in pairwise(states):
        for name, one in before.approvals.items():
            if not one.status.open:
                now = after.approvals[name]
                # But it can be heard of late, or no more.
                assert replace(now, waited=one.waited, until=one.until, asked=one.asked) == one

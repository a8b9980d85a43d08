"""L2: the mode in force, and all else that is known of a session, is the fold of its log."""

from __future__ import annotations

import hashlib
import re
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from modegate.core.log.events import (
    AnswerMapped,
    CallJudged,
    Event,
    ModeSet,
    RequestHeader,
    RequestHeaderDelta,
    SessionOpen,
    TurnWithheld,
    Unknown,
)
from modegate.core.log.fold import (
    CHECKPOINT_VERSION,
    MAX_LANES,
    MAX_MAPPED,
    MAX_WITHHELD,
    RULE_EVENTS,
    TRANSITIONS,
    Header,
    State,
    dump_state,
    fold,
    fold_all,
    load_state,
)
from modegate.core.log.records import VERSION, Record

PLAN = ModeId("plan")
REVIEW = ModeId("review")
MAIN = Lane("main")


def log(*events: Event, by: str = "person:cli") -> list[Record]:
    return [Record(Seq(n), n * 1_000, by, event) for n, event in enumerate(events, 1)]


def tools(*names: str) -> tuple[ToolName, ...]:
    return tuple(map(ToolName, names))


def header(lane: str, *names: str) -> RequestHeader:
    return RequestHeader(Lane(lane), "plan", "p1", tools(*names), "s1")


def judged() -> CallJudged:
    call = (StepId("x"), CallId("c"), ToolName("t"), "h")
    return CallJudged(*call, "answer", "r", PLAN, Seq(1), "p", "why")


def withheld(n: int) -> TurnWithheld:
    return TurnWithheld(StepId(f"s{n}"), "b", "a", ())


def mapped(client: str, last: str, *, owed: bool = False) -> AnswerMapped:
    return AnswerMapped(StepId("s"), client, last, ("{}",) if owed else ())


LANES = st.sampled_from(["a", "b", "c"]).map(Lane)
TOOLS = st.lists(st.sampled_from(["x", "y", "z"]).map(ToolName), max_size=3, unique=True).map(tuple)
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(ModeSet, st.sampled_from([DEFAULT_MODE, PLAN, REVIEW])),
    st.builds(SessionOpen, st.just("a"), st.just("/"), st.sampled_from(["path", "derived"])),
    st.builds(RequestHeader, LANES, st.just("plan"), st.just("p"), TOOLS, st.just("s")),
    st.builds(RequestHeaderDelta, LANES, st.just("plan"), st.just("p"), TOOLS, TOOLS, st.just("s")),
    st.just(judged()),
    st.builds(withheld, st.integers(0, 9)),
    st.builds(mapped, st.sampled_from("ab"), st.sampled_from("ab"), owed=st.booleans()),
    st.builds(Unknown, st.sampled_from(["note/x", "mode/x", ""]), st.just(VERSION)),
)
LOGS = st.lists(
    st.tuples(EVENTS, st.sampled_from(["gate", "policy", "person:cli"])), max_size=20
).map(lambda pairs: [Record(Seq(n), n, by, event) for n, (event, by) in enumerate(pairs, 1)])


def test_every_event_has_a_transition() -> None:
    assert set(TRANSITIONS) == set(get_args(Event))


def test_a_session_without_events_is_in_default_and_was_never_gated() -> None:
    assert fold_all([]) == State()
    assert State().mode == DEFAULT_MODE
    assert not State().ever_gated


def test_the_last_mode_wins() -> None:
    state = fold_all(log(ModeSet(PLAN), ModeSet(REVIEW)))
    assert (state.mode, state.mode_seq, state.seq) == (REVIEW, 2, 2)


def test_nothing_but_its_event_changes_the_mode() -> None:
    others = (header("l", "read"), judged(), withheld(1), SessionOpen("a", "/", "path"))
    state = fold_all(log(ModeSet(PLAN), *others))
    assert (state.mode, state.mode_seq, state.seq) == (PLAN, 1, 5)


def test_remembers_when_each_mode_was_last_left() -> None:
    modes = [PLAN, PLAN, DEFAULT_MODE, REVIEW, PLAN, DEFAULT_MODE]
    state = fold_all(log(*map(ModeSet, modes)))
    assert state.left == {PLAN: 6_000, REVIEW: 5_000}
    assert state.mode == DEFAULT_MODE
    assert state.ever_gated


@pytest.mark.parametrize(
    ("by", "expected"), [("person:cli", True), ("policy", False), ("gate", False), ("agent", False)]
)
def test_knows_whether_a_person_set_the_mode(by: str, *, expected: bool) -> None:
    assert fold_all(log(ModeSet(PLAN), by=by)).set_by_person is expected


def test_a_person_who_has_set_the_mode_stays_the_one_who_has() -> None:
    first = fold_all(log(ModeSet(PLAN)))
    assert fold(first, Record(Seq(2), 0, "policy", ModeSet(REVIEW))).set_by_person


def test_the_first_opening_counts() -> None:
    first = SessionOpen("a", "/", "path", parent=SessionId("p"))
    second = SessionOpen("b", "/", "path", parent=SessionId("q"))
    assert fold_all(log(first, second)).opened == first


def test_a_lane_has_its_last_header() -> None:
    state = fold_all(log(header("main", "a"), header("main", "b", "c"), header("other", "d")))
    assert state.lanes == {
        MAIN: Header("plan", "p1", tools("b", "c"), "s1"),
        Lane("other"): Header("plan", "p1", tools("d"), "s1"),
    }
    assert state.ever_gated


def test_a_delta_changes_the_lanes_header() -> None:
    delta = RequestHeaderDelta(MAIN, "default", "p2", tools("d", "e"), tools("b"), "s2")
    state = fold_all(log(header("main", "a", "b", "c"), delta))
    assert state.lanes[MAIN] == Header("default", "p2", tools("a", "c", "d", "e"), "s2")


def test_a_delta_of_a_forgotten_lane_adds_what_it_names() -> None:
    delta = RequestHeaderDelta(MAIN, "plan", "p1", tools("d"), tools("b"), "s1")
    assert fold_all(log(delta)).lanes[MAIN].tools == ("d",)


def test_of_too_many_lanes_the_one_longest_unchanged_is_forgotten() -> None:
    names = [f"l{n}" for n in range(MAX_LANES)]
    events = [header(name, "a") for name in (*names, "l0", "new")]
    lanes = fold_all(log(*events)).lanes
    assert len(lanes) == MAX_LANES
    assert Lane("l1") not in lanes
    assert list(lanes)[-2:] == ["l0", "new"]


def test_withheld_turns_are_kept_in_order_and_within_a_bound() -> None:
    events = [withheld(n) for n in range(MAX_WITHHELD + 2)]
    assert fold_all(log(*events)).withheld == tuple(events[2:])


def test_an_answer_is_known_by_the_last_that_was_said_of_it() -> None:
    events = (mapped("a", "b"), mapped("c", "c", owed=True), mapped("a", "d"))
    assert {name: one.last for name, one in fold_all(log(*events)).mapped.items()} == {
        "a": "d",
        "c": "c",
    }
    assert not fold_all(log(*events, mapped("c", "c"))).mapped["c"].owed
    many = [mapped(f"a{n}", "b") for n in range(MAX_MAPPED + 2)]
    kept = list(fold_all(log(*many)).mapped)
    assert (kept[0], len(kept)) == ("a2", MAX_MAPPED)


@pytest.mark.parametrize("kind", RULE_EVENTS)
def test_an_unknown_event_that_could_carry_a_rule_makes_the_session_unreadable(kind: str) -> None:
    state = fold_all(log(ModeSet(PLAN), Unknown(f"{kind}later", VERSION)))
    assert state.unreadable == (
        f"event 2 is of type '{kind}later', version {VERSION}, which is not known here"
    )
    assert state.mode == PLAN


@pytest.mark.parametrize("kind", ["call/later", "mode/set", "", "note/given"])
def test_an_event_of_a_newer_version_makes_the_session_unreadable(kind: str) -> None:
    assert fold_all(log(Unknown(kind, VERSION + 1))).unreadable


@pytest.mark.parametrize("kind", ["request/later", "call/later", "notice/given", "modes"])
def test_another_unknown_event_is_passed_over(kind: str) -> None:
    state = fold_all(log(ModeSet(PLAN), Unknown(kind, VERSION)))
    assert state.unreadable is None
    assert (state.mode, state.seq) == (PLAN, 2)


def test_nothing_makes_an_unreadable_session_readable_again() -> None:
    state = fold_all(log(Unknown("mode/x", 1), Unknown("turn/y", 1), ModeSet(DEFAULT_MODE)))
    assert state.unreadable
    assert "event 1" in state.unreadable


@pytest.mark.parametrize("seq", [0, 1, 2])
def test_refuses_a_record_out_of_order(seq: int) -> None:
    state = fold_all(log(ModeSet(PLAN), ModeSet(REVIEW)))
    with pytest.raises(ValueError, match="does not come after 2"):
        fold(state, Record(Seq(seq), 0, "x", ModeSet(DEFAULT_MODE)))


@given(LOGS, st.data())
def test_a_fold_from_any_checkpoint_equals_the_fold_from_the_start(
    records: list[Record], data: st.DataObject
) -> None:
    whole = fold_all(records)
    cut = data.draw(st.integers(0, len(records)))
    checkpoint = dump_state(fold_all(records[:cut]))
    assert fold_all(records[cut:], load_state(checkpoint)) == whole
    # The order of lanes decides which is forgotten first, so it is part of the state.
    assert list(fold_all(records[cut:], load_state(checkpoint)).lanes) == list(whole.lanes)


@given(LOGS)
def test_folding_leaves_earlier_states_alone(records: list[Record]) -> None:
    states, state = [], State()
    for record in records:
        state = fold(state, record)
        states.append((state, dump_state(state)))
    assert all(dump_state(kept) == dumped for kept, dumped in states)


@given(LOGS)
def test_the_mode_is_that_of_the_last_mode_set(records: list[Record]) -> None:
    modes = [record.event.mode for record in records if isinstance(record.event, ModeSet)]
    assert fold_all(records).mode == (modes[-1] if modes else DEFAULT_MODE)


@pytest.mark.parametrize("raw", [b"", b"?", b"[]", b'{"seq": "x"}', b'{"lanes": []}'])
def test_what_is_no_checkpoint_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match="not a checkpoint"):
        load_state(raw)


def test_another_state_has_another_version() -> None:
    """An old checkpoint read as a new state would lack what an event said that was unknown then."""
    schema = msgspec.json.schema(State)
    told = re.sub(
        rb'"description":"(?:[^"\\\\]|\\\\.)*",?', b"", msgspec.json.encode(schema, order="sorted")
    )
    assert (CHECKPOINT_VERSION, hashlib.sha256(told).hexdigest()[:16]) == (5, "8576f1de4e023512")

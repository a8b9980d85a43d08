"""What a control token's level covers, and which level an act needs."""

from __future__ import annotations

import pytest

from modegate.core.ids import DEFAULT_MODE, ModeId, Seq, SessionId
from modegate.core.levels import to_answer, to_set
from modegate.core.log.events import Event, ModeSet, SessionOpen
from modegate.core.log.fold import fold_all
from modegate.core.log.records import Record
from modegate.core.policy.model import Level

PLAN, REVIEW = ModeId("plan"), ModeId("review")
OPEN = SessionOpen("agent/1", "/v1/x", "path")
CHILD = SessionOpen("agent/1", "/v1/x", "path", SessionId("parent"))


@pytest.mark.parametrize(
    ("level", "covers"),
    [("observe", ["observe"]), ("tighten", ["observe", "tighten"]), ("full", list(Level))],
)
def test_a_level_covers_those_before_it(level: str, covers: list[str]) -> None:
    assert [one for one in Level if Level(level).covers(one)] == covers


@pytest.mark.parametrize(
    ("events", "wanted", "first", "level"),
    [
        pytest.param([], PLAN, DEFAULT_MODE, "tighten", id="new, into a mode"),
        pytest.param([], DEFAULT_MODE, DEFAULT_MODE, "tighten", id="new, changes nothing"),
        pytest.param([], PLAN, PLAN, "tighten", id="new, what it would begin in"),
        pytest.param([], REVIEW, PLAN, "full", id="new, instead of what it would begin in"),
        pytest.param([], DEFAULT_MODE, PLAN, "full", id="new, out of what it would begin in"),
        pytest.param([OPEN], PLAN, REVIEW, "tighten", id="begun, so no other first mode counts"),
        pytest.param([ModeSet(PLAN)], DEFAULT_MODE, DEFAULT_MODE, "full", id="out of a mode"),
        pytest.param([ModeSet(PLAN)], REVIEW, DEFAULT_MODE, "full", id="into another mode"),
        pytest.param([ModeSet(PLAN)], PLAN, DEFAULT_MODE, "tighten", id="the mode in force"),
        pytest.param(
            [ModeSet(PLAN), ModeSet(DEFAULT_MODE)], REVIEW, PLAN, "tighten", id="left, into a mode"
        ),
        pytest.param([CHILD], PLAN, DEFAULT_MODE, "full", id="a child stops following its parent"),
        pytest.param(
            [CHILD, ModeSet(DEFAULT_MODE)], PLAN, DEFAULT_MODE, "tighten", id="a child on its own"
        ),
    ],
)
def test_what_setting_a_mode_needs(
    events: list[Event], wanted: ModeId, first: ModeId, level: str
) -> None:
    records = [Record(Seq(n), n, "person:cli", event) for n, event in enumerate(events, 1)]
    assert to_set(fold_all(records), wanted, first=first) is Level(level)


@pytest.mark.parametrize(
    ("kind", "level"), [("reject", "tighten"), ("approve", "full"), ("allow_once", "full")]
)
def test_what_an_answer_needs(kind: str, level: str) -> None:
    assert to_answer(kind) is Level(level)

"""By whom a session is held, in words for people."""

from __future__ import annotations

import pytest

from modegate.core.ids import DEFAULT_MODE, ModeId, Seq, SessionId
from modegate.core.log.fold import State
from modegate.core.policy.gating import ALONE, Holder, held

PLAN, REVIEW = ModeId("plan"), ModeId("review")


def in_mode(mode: ModeId, seq: int = 1) -> State:
    return State(Seq(seq), mode)


@pytest.mark.parametrize(
    ("own", "parents", "mode", "label", "told"),
    [
        (DEFAULT_MODE, [], DEFAULT_MODE, "default", "default"),
        (PLAN, [], PLAN, "plan", "plan"),
        (DEFAULT_MODE, [DEFAULT_MODE], DEFAULT_MODE, "default", "default"),
        (DEFAULT_MODE, [PLAN], PLAN, "plan", "plan (by its parent p0)"),
        (PLAN, [DEFAULT_MODE], PLAN, "plan", "plan"),
        (PLAN, [PLAN], PLAN, "plan", "plan (by its parent p0)"),
        (REVIEW, [PLAN], REVIEW, "review+plan", "review+plan (by its parent p0)"),
        (
            DEFAULT_MODE,
            [REVIEW, PLAN],
            REVIEW,
            "review+plan",
            "review+plan (by its parent p0, p1)",
        ),
    ],
)
def test_r5_what_is_in_force_and_by_whom(
    own: ModeId, parents: list[ModeId], mode: ModeId, label: str, told: str
) -> None:
    chain = [(SessionId("s"), in_mode(own))]
    chain += [(SessionId(f"p{n}"), in_mode(one, 2)) for n, one in enumerate(parents)]
    found = held(chain)
    assert (found.mode(own), found.label(own), found.told(own)) == (mode, label, told)
    assert (len(found.parents), found.age) == (len(parents), 2 * len(parents))


def test_who_has_no_parent_is_alone() -> None:
    assert held([(SessionId("s"), in_mode(PLAN))]) == ALONE
    chain = [(SessionId("s"), State()), (SessionId("p"), in_mode(PLAN))]
    assert held(chain).by == (Holder(SessionId("p"), PLAN),)

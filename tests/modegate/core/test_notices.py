"""When a lane is told of a mode change, and where the sentence stands from then on."""

from __future__ import annotations

import pytest

from modegate.core import notices
from modegate.core.dialects.base import Item
from modegate.core.events import NoticeGiven, RequestHeader
from modegate.core.ids import Lane, Seq
from support.playbook import Session, mode, policy

LANE = Lane("main")
RULES = policy(mode("plan", "read"), mode("review", "read"))


def history(keys: str) -> list[Item]:
    """Give items: a small letter for a message, a capital for an answer."""
    return [Item(key, key.isupper()) for key in keys]


def session(*modes: str) -> Session:
    """Give a session whose lane was shown the first of these modes before a person set the others."""
    made = Session(modes[0], RULES)
    made.append([RequestHeader(LANE, modes[0], "h", (), "")])
    for name in modes[1:]:
        made.set_mode(name)
    return made


@pytest.mark.parametrize(("modes", "keys", "told"), [
    (("plan", "default"), "uAv", "from 'plan' to 'default'. All tools are available again"),
    (("plan", "review"), "u", "from 'plan' to 'review'. Its rules are in the system text"),
    (("plan",), "uAv", ""),
    (("plan", "default", "plan"), "uAv", ""),
    (("plan", "default"), "uA", ""),
    (("plan", "default"), "", ""),
], ids=["left", "changed", "same", "net-zero", "behind-an-answer", "no-history"])  # fmt: skip
def test_due(modes: tuple[str, ...], keys: str, told: str) -> None:
    """B012: a change that is still one is told, behind the newest message of the agent."""
    given = notices.due(session(*modes).standing(), LANE, history(keys))
    assert (given is not None) is bool(told)
    if given is not None:
        assert told in given.text
        assert (given.item, given.at) == (keys[-1], len(keys) - 1)
        assert given.before == (keys[-2] if len(keys) > 1 else "")


def test_the_first_step_of_a_lane_is_told_by_the_section() -> None:
    """It knows of no other mode."""
    standing = session("plan", "default").standing()
    assert notices.due(standing, Lane("another"), history("u")) is None


@pytest.mark.parametrize(("keys", "at", "wanted"), [
    ("uv", 1, 1), ("xuv", 1, 2), ("uw", 1, None), ("v", 0, None), ("uvAuv", 1, 1), ("uvAuv", 9, 4),
    ("uvAuv", -1, 4),
])  # fmt: skip
def test_place(keys: str, at: int, wanted: int | None) -> None:
    """Behind the same message behind the same one: at the old place, else at the last."""
    one = NoticeGiven(LANE, "default", Seq(2), "u", "v", "told", at)
    other = NoticeGiven(Lane("another"), "default", Seq(2), "u", "v", "not here", at)
    placed = notices.place(history(keys), [one, other], LANE)
    assert placed == ({} if wanted is None else {wanted: ["told"]})


def test_two_in_one_place_stand_in_order() -> None:
    """A step that was sent again after one more change."""
    both = [NoticeGiven(LANE, "m", Seq(n), "", "u", f"n{n}", 0) for n in (2, 3)]
    assert notices.place(history("u"), both, LANE) == {0: ["n2", "n3"]}

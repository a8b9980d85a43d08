"""The checker of histories finds what is wrong, in histories that are wrong on purpose, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.history import Flip, Got, Logged, Rules, Session, Settled, Step, faults

RULES = Rules("plan", {"plan": frozenset({"read"})}, grace=5.0)


def log(*events: tuple[str, str, dict[str, Any]]) -> list[Logged]:
    """Return a log of events, each as type, by and data."""
    return [Logged(seq, *event) for seq, event in enumerate(events, 1)]


def mode(name: str, by: str = "person:control") -> tuple[str, str, dict[str, Any]]:
    """Return a `mode/set`."""
    return ("mode/set", by, {"mode": name})


def judged(
    step: str, tool: str, by: str, at: int, verdict: str = "release"
) -> tuple[str, str, dict[str, Any]]:
    """Return a `call/judged`."""
    data = {"call": f"{step}-1", "tool": tool, "mode": by, "mode_seq": at, "verdict": verdict}
    return ("call/judged", "gate", data)


OPEN = ("session/open", "agent", {"agent": "soak"})
BEGIN = (OPEN, mode("plan", "policy"))
ANSWERED = ("approval/answered", "person:control", {"id": "a1", "option": "approve"})


def story() -> Session:
    """Return a history in which all is well: begun in plan, left by an approval, tightened by a person."""
    return Session(
        "s",
        flips=[Flip("plan", 30, 31, 6)],
        settled=[Settled("a1", "approve", 12, 13), Settled("a1", "reject", 12)],
        steps=[
            Step("s1", 1, 2, offered=frozenset({"read"})),
            Step("s2", 10, 15, (Got("write", 14),), frozenset({"read", "write"})),
            Step("s3", 20, 32, (Got("write", 31.5),), frozenset({"read", "write"})),
            Step("s4", 33, 35, (Got("read", 34),), frozenset({"read"})),
        ],
        log=log(
            *BEGIN,
            judged("s1", "write", "plan", 2, "answer"),
            ANSWERED,
            mode("default"),
            mode("plan"),
            judged("s4", "read", "plan", 6),
        ),
    )


def test_all_is_well() -> None:
    """A possible history has no fault."""
    assert faults(story(), RULES) == []


def hole(session: Session) -> None:
    """An event is missing in the middle."""
    session.log = [event for event in session.log if event.seq != 3]


def lost_flip(session: Session) -> None:
    """A failover lost the end of the log."""
    session.log = session.log[:5]
    session.steps = session.steps[:3]


def lost_answer(session: Session) -> None:
    """A person was told of a yes that the log does not have."""
    session.settled.append(Settled("a2", "approve", 40, 41))


def twice(session: Session) -> None:
    """Two people were told that theirs is the answer."""
    session.settled[1] = Settled("a1", "reject", 12, 13)


def counted_twice(session: Session) -> None:
    """One yes stands twice in the log, and leaves the mode twice."""
    last = log(*[("x", "", {})] * 7, ANSWERED, mode("default"))[7:]
    session.log = [*session.log, *last]


def nobody(session: Session) -> None:
    """The mode was left, and nobody had asked for that."""
    session.settled.clear()
    session.log = log(*BEGIN, OPEN, OPEN, mode("default"), mode("plan"))


def loose_beginning(session: Session) -> None:
    """A first request was served raw, though the policy has sessions begin in plan (S1)."""
    session.log = []
    session.flips, session.settled = [], []
    session.steps = [Step("s1", 1, 2, (Got("write", 1.5),))]


def never_begun(session: Session) -> None:
    """A session was served without a beginning, harmlessly as it happened (H1)."""
    loose_beginning(session)
    session.steps = [Step("s1", 1, 2)]


def began_by_policy_elsewhere(session: Session) -> None:
    """The policy's own hand set a mode that is not the policy's."""
    session.log = [session.log[0], replace(session.log[1], data={"mode": "default"})]
    session.flips, session.settled, session.steps = [], [], [Step("s1", 1, 2)]


def leaked(session: Session) -> None:
    """A step that began after the acknowledgement got what plan forbids."""
    session.steps[3] = replace(session.steps[3], got=(Got("write", 34),))


def offered(session: Session) -> None:
    """Its model was shown what plan forbids."""
    session.steps[3] = replace(session.steps[3], offered=frozenset({"write"}))


def went_on(session: Session) -> None:
    """An answer under way went on for long after the switch (H14)."""
    session.steps[2] = replace(session.steps[2], ended=40, got=(Got("write", 37),))


def stale(session: Session) -> None:
    """A verdict came from a mode that had been replaced before its step began."""
    session.log = [*session.log[:6], *log(*[OPEN] * 6, judged("s4", "read", "default", 5))[6:]]


def invented(session: Session) -> None:
    """A verdict names a mode that was not set where it says."""
    session.log = [*session.log[:6], *log(*[OPEN] * 6, judged("s4", "read", "plan", 5))[6:]]


def released(session: Session) -> None:
    """The gate itself says that it released what plan forbids."""
    session.log = [*session.log[:6], *log(*[OPEN] * 6, judged("s4", "write", "plan", 6))[6:]]


def backwards(session: Session) -> None:
    """A flip stands in front of one that was acknowledged before it was asked for."""
    session.flips = [Flip("plan", 30, 31, 6), Flip("default", 32, 33, 5)]


WRONG: dict[str, tuple[Callable[[Session], None], str]] = {
    "hole": (hole, "holes"),
    "lost flip": (lost_flip, "mode plan was acknowledged at 6"),
    "lost answer": (lost_answer, "approve of a2 was acknowledged and is gone"),
    "two winners": (twice, "a1 was acknowledged 2 times"),
    "counted twice": (counted_twice, "a1 was answered 2 times"),
    "nobody asked": (nobody, "nobody asked for mode default"),
    "S1 loose beginning": (loose_beginning, "got write, in plan since 0"),
    "H1 never begun": (never_begun, "its log does not say that it began in plan"),
    "policy sets another": (began_by_policy_elsewhere, "nobody asked for mode default"),
    "leak": (leaked, "step s4 got write, in plan since 6"),
    "offered": (offered, "step s4 was offered write"),
    "H14 went on": (went_on, "step s3 got write, in plan since 6"),
    "stale verdict": (stale, "judged by default of 5; 6 was acknowledged"),
    "invented mode": (invented, "which was not set there"),
    "released": (released, "write was released in plan"),
    "backwards": (backwards, "6 was acknowledged before 5 was asked for"),
}


@pytest.mark.parametrize(("spoil", "said"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_is_found(spoil: Callable[[Session], None], said: str) -> None:
    """Each way in which a history can be wrong is told in a line that names it."""
    session = story()
    spoil(session)
    found = faults(session, RULES)
    assert any(said in fault for fault in found), found
    assert all(fault.startswith("s: ") for fault in found)


def landed(session: Session) -> None:
    """Nobody was told that the mode was set, and it was: its step may get what plan forbids."""
    session.flips.append(Flip("default", 33))
    session.log = [*session.log, Logged(8, *mode("default"))]
    session.steps.append(Step("s5", 33, 36, (Got("write", 35.9),)))


POSSIBLE: dict[str, Callable[[Session], None]] = {
    "an unacknowledged flip that did not land": lambda s: s.flips.append(Flip("default", 33)),
    "an unacknowledged flip that landed": landed,
    "a switch within grace": lambda s: s.steps.append(Step("s5", 20, 36, (Got("write", 35.9),))),
    "the mode was in force already": lambda s: s.flips.append(
        Flip("plan", 40, 41, 7, changed=False)
    ),
    "a step that was refused proves nothing": lambda s: s.steps.append(
        Step("s5", 50, 51, served=False)
    ),
    "people who came too late": lambda s: s.settled.append(Settled("a1", "approve", 50)),
}


@pytest.mark.parametrize("more", POSSIBLE.values(), ids=POSSIBLE)
def test_what_can_be_is_no_fault(more: Callable[[Session], None]) -> None:
    """What is only not known is not held against anybody."""
    session = story()
    more(session)
    assert faults(session, RULES) == []


@given(st.lists(st.sampled_from(["plan", "default"]), max_size=12), st.data())
def test_flips_in_turn_are_never_a_fault_and_each_loss_is(modes: list[str], data: Any) -> None:
    """Flips one after the other leave one history; whichever acknowledged event is cut off, it is missed."""
    changes = [m for m, before in zip(modes, ["plan", *modes], strict=False) if m != before]
    flips = [Flip(m, 10 * n, 10 * n + 1, n + 2) for n, m in enumerate(changes, 1)]
    session = Session("s", flips, log=log(*BEGIN, *(mode(m) for m in changes)))
    assert faults(session, RULES) == []
    if changes:
        kept = data.draw(st.integers(2, len(changes) + 1))
        session.log = session.log[:kept]
        assert faults(session, RULES)

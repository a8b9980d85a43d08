"""What people and agents saw of a run, held against the log it left: a checker of histories, and pure.

In the manner of Jepsen: while things break, each client notes what it asked, when it asked, and when it was
told what came of it. Afterwards there is only the log and these notes, and `faults` says what cannot be: that
an acknowledged event is gone, that an approval counts twice, that a mode was set which nobody asked for, that
a session began looser than its policy says, or that a step was judged looser than what had been acknowledged
before it began.

An operation that was never acknowledged may have taken effect at any time after it began, or never; so the
notes alone leave several modes possible at a moment. A fault is what none of them allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Seq = int
Seconds = float
"""Of one clock, that of the process which takes the notes."""


@dataclass(frozen=True, slots=True)
class Flip:
    """A person asked for a mode."""

    mode: str
    began: Seconds
    ended: Seconds | None = None
    """When it was acknowledged; None if it never was."""
    seq: Seq = 0
    """The end of the log that the acknowledgement named: there the mode was in force."""
    changed: bool = True


@dataclass(frozen=True, slots=True)
class Settled:
    """A person answered a question."""

    approval: str
    option: str
    began: Seconds
    ended: Seconds | None = None
    """When they were told that their answer is the one; None if they were told nothing, or another thing."""


@dataclass(frozen=True, slots=True)
class Got:
    """A call that reached the agent."""

    tool: str
    at: Seconds


@dataclass(frozen=True, slots=True)
class Step:
    """A request of an agent, as far as it saw the answer."""

    name: str
    """Stands in the ids of its calls, in front of the last dash."""
    began: Seconds
    ended: Seconds
    got: tuple[Got, ...] = ()
    offered: frozenset[str] = frozenset()
    """Tools that its model was shown, in any hop."""
    served: bool = True
    """Whether it was answered, and not refused."""


@dataclass(frozen=True, slots=True)
class Logged:
    """One event of a session's log."""

    seq: Seq
    type: str
    by: str
    data: Mapping[str, Any]


@dataclass(slots=True)
class Session:
    """All that is known of one session."""

    name: str
    flips: list[Flip] = field(default_factory=list)
    settled: list[Settled] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    log: Sequence[Logged] = ()


@dataclass(frozen=True, slots=True)
class Rules:
    """What the policy said in the whole run."""

    initial: str
    """The mode in which a session begins."""
    tools: Mapping[str, frozenset[str]]
    """What each mode allows; a mode that is not named allows everything."""
    grace: Seconds
    """How long after an acknowledgement an answer that was under way may go on as it was."""

    def allow(self, modes: Iterable[str], tool: str) -> bool:
        """Return whether one of these modes allows a tool."""
        return any(mode not in self.tools or tool in self.tools[mode] for mode in modes)


def faults(session: Session, rules: Rules) -> list[str]:
    """Say what cannot be, each in one line; nothing of a history that is possible."""
    checks = (_whole, _kept, _ordered, _once, _asked_for, _begun, _held, _judged)
    return [f"{session.name}: {fault}" for check in checks for fault in check(session, rules)]


def _whole(session: Session, _rules: Rules) -> Iterator[str]:
    """The log has no holes."""
    seqs = [event.seq for event in session.log]
    if seqs != list(range(1, len(seqs) + 1)):
        yield "the seqs of its log have holes"


def _kept(session: Session, rules: Rules) -> Iterator[str]:
    """What was acknowledged is in the log."""
    end = session.log[-1].seq if session.log else 0
    for flip in session.flips:
        if flip.ended is None:
            continue
        if flip.seq > end or _mode_at(session, rules, flip.seq) != flip.mode:
            yield f"mode {flip.mode} was acknowledged at {flip.seq} and is not in force there"
        elif flip.changed and (flip.seq, flip.mode) not in _sets(session):
            yield f"mode {flip.mode} was acknowledged as set at {flip.seq} and is not"
    answers = {(e.data["id"], e.data["option"]) for e in _of(session, "approval/answered")}
    for answer in session.settled:
        if answer.ended is not None and (answer.approval, answer.option) not in answers:
            yield f"{answer.option} of {answer.approval} was acknowledged and is gone"


def _ordered(session: Session, _rules: Rules) -> Iterator[str]:
    """What was acknowledged before another thing was asked for stands in front of it."""
    done = [flip for flip in session.flips if flip.ended is not None]
    for first in done:
        for later in done:
            if first.ended is not None and first.ended <= later.began and first.seq > later.seq:
                yield f"{first.seq} was acknowledged before {later.seq} was asked for"


def _once(session: Session, _rules: Rules) -> Iterator[str]:
    """A question has one answer, and an answer sets a mode once."""
    answered = Counter(event.data["id"] for event in _of(session, "approval/answered"))
    won = Counter(one.approval for one in session.settled if one.ended is not None)
    for counts, what in ((answered, "was answered"), (won, "was acknowledged")):
        yield from (f"{name} {what} {count} times" for name, count in counts.items() if count > 1)


def _asked_for(session: Session, rules: Rules) -> Iterator[str]:
    """Each mode was set by somebody who asked for it, or by the policy as the session began."""
    for seq, mode in _sets(session):
        if _asked_at(session, rules, seq, mode) is None:
            yield f"nobody asked for mode {mode}, which was set at {seq}"


def _begun(session: Session, rules: Rules) -> Iterator[str]:
    """A session that was served has begun, in no looser mode than its policy says."""
    served = any(step.served for step in session.steps)
    if served and rules.initial in rules.tools and not _sets(session):
        yield f"it was served, and its log does not say that it began in {rules.initial}"


def _held(session: Session, rules: Rules) -> Iterator[str]:
    """No call reached an agent, and no tool its model, that no possible mode allows."""
    for step in session.steps:
        seen = _acknowledged(session, step.began)
        modes = _possible(session, rules, seen, step.ended)
        for tool in sorted(step.offered):
            if not rules.allow(modes, tool):
                yield f"step {step.name} was offered {tool}, in {_list(modes)} since {seen}"
        for got in step.got:
            since = max(seen, _acknowledged(session, got.at - rules.grace))
            modes = _possible(session, rules, since, got.at)
            if not rules.allow(modes, got.tool):
                yield f"step {step.name} got {got.tool}, in {_list(modes)} since {since}"


def _judged(session: Session, rules: Rules) -> Iterator[str]:
    """No verdict was given by a mode that had been replaced, with acknowledgement, before its step began."""
    steps = {step.name: step for step in session.steps}
    for event in _of(session, "call/judged"):
        mode, at = event.data["mode"], event.data["mode_seq"]
        if event.data["verdict"] == "release" and not rules.allow([mode], event.data["tool"]):
            yield f"{event.data['tool']} was released in {mode}"
        if at and (at, mode) not in _sets(session):
            yield f"{event.data['call']} was judged by {mode} of {at}, which was not set there"
        step = steps.get(event.data["call"].rpartition("-")[0])
        if step is None:
            continue
        seen = _acknowledged(session, step.began)
        newest = max((seq for seq, _ in _sets(session) if seq <= seen), default=0)
        if at < newest:
            yield f"step {step.name} was judged by {mode} of {at}; {newest} was acknowledged before"


def _of(session: Session, kind: str) -> list[Logged]:
    return [event for event in session.log if event.type == kind]


def _sets(session: Session) -> list[tuple[Seq, str]]:
    """Return where which mode was set."""
    return [(event.seq, event.data["mode"]) for event in _of(session, "mode/set")]


def _mode_at(session: Session, rules: Rules, seq: Seq) -> str:
    """Return the mode in force at a place of the log."""
    return next((mode for at, mode in reversed(_sets(session)) if at <= seq), rules.initial)


def _acknowledged(session: Session, moment: Seconds) -> Seq:
    """Return how far the log was known to reach at a moment, by what had been acknowledged."""
    flips = [one.seq for one in session.flips if one.ended is not None and one.ended <= moment]
    answers = {
        one.approval for one in session.settled if one.ended is not None and one.ended <= moment
    }
    # An answer and the mode that it sets are one append, the mode right behind it.
    told = [e.seq + 1 for e in _of(session, "approval/answered") if e.data["id"] in answers]
    return max([*flips, *told], default=0)


def _possible(session: Session, rules: Rules, seen: Seq, until: Seconds) -> set[str]:
    """Return the modes that can have been in force from a place of the log to a moment."""
    modes = {_mode_at(session, rules, seen)}
    for seq, mode in _sets(session):
        if seq > seen:
            asked = _asked_at(session, rules, seq, mode)
            if asked is None or asked <= until:
                modes.add(mode)
    return modes


def _asked_at(session: Session, rules: Rules, seq: Seq, mode: str) -> Seconds | None:
    """Return the first moment at which somebody asked for a mode that was set; None if nobody did."""
    event = session.log[seq - 1] if seq <= len(session.log) else None
    if event is not None and event.by == "policy":
        return float("-inf") if mode == rules.initial else None
    before = session.log[seq - 2] if 2 <= seq <= len(session.log) else None
    if before is not None and before.type == "approval/answered":
        name, option = before.data["id"], before.data["option"]
        asked = [a.began for a in session.settled if (a.approval, a.option) == (name, option)]
    else:
        asked = [
            flip.began
            for flip in session.flips
            if flip.mode == mode and (flip.ended is None or (flip.changed and flip.seq == seq))
        ]
    return min(asked, default=None)


def _list(modes: Iterable[str]) -> str:
    return " or ".join(sorted(modes))

"""The modes in force during one step: the session's own, and those of the sessions it was started from.

A call needs the release of every mode in force, and the strictest verdict wins. A child follows its
parent until a person sets the child's own mode.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from modegate.core.argument.globs import glob_matches, is_glob
from modegate.core.errors import BadSession, ModeGone, SessionUnreadable
from modegate.core.ids import DEFAULT_MODE, ModeId, Seq, SessionId, Tenant, ToolName
from modegate.core.log.fold import State
from modegate.core.policy import judge as verdicts
from modegate.core.policy.findings import Commands
from modegate.core.policy.judge import Judgement, ToolCall, Verdict
from modegate.core.policy.model import Effect, Mode, Policy

MAX_CHAIN = 8
"""Sessions in a chain of parents; agents measured nest five deep."""

DAY_MS = 24 * 60 * 60 * 1000

STRICTNESS = {Verdict.RELEASE: 0, Verdict.ASK: 1, Verdict.ANSWER: 2}


@dataclass(frozen=True, slots=True)
class ModeInForce:
    """One mode in force, the session it was set on, and where in that session's log."""

    mode: Mode
    session: SessionId
    seq: Seq


@dataclass(frozen=True, slots=True)
class ModesInForce:
    """All that a step is assembled and judged under."""

    state: State
    """Of the session itself."""
    modes: tuple[ModeInForce, ...]
    """The session's own first, then its parent's, and so on; empty in the default mode."""
    policy: Policy
    sessions: tuple[SessionId, ...] = ()
    """Every session whose log counts: its own first, then its parent's, and so on."""
    commands: defaultdict[int, Commands] = field(
        init=False, default_factory=lambda: defaultdict(Commands), compare=False, repr=False
    )
    """What was found of shell commands in each of the modes: a step may have many calls."""

    @property
    def gated(self) -> bool:
        return bool(self.modes)

    @property
    def label(self) -> str:
        """The modes in force as people see them: `plan`, or `plan+review`."""
        return "+".join(mode.id for mode in self._modes()) or DEFAULT_MODE

    @property
    def section(self) -> str:
        """The text that the model is given: of every mode in force, each once."""
        return "\n\n".join(dict.fromkeys(m.section for m in self._modes() if m.section))

    @property
    def section_in(self) -> Literal["instructions", "input"]:
        """Where the section goes in a Responses request: `input` if any mode in force says so."""
        return "input" if any(m.section_in == "input" for m in self._modes()) else "instructions"

    def judge(self, call: ToolCall) -> tuple[Judgement, ModeInForce | None]:
        """Return the strictest verdict on a call, and the mode it came from; None in the default mode."""
        found = [
            (verdicts.judge(one.mode, call, self.commands[at]), one)
            for at, one in enumerate(self.modes)
        ]
        free = (Judgement(Verdict.RELEASE, "no rule", "no mode is in force"), None)
        return max(found, key=lambda ruling: STRICTNESS[ruling[0].verdict], default=free)

    def may_offer(self, name: ToolName) -> bool:
        return all(verdicts.may_offer(one.mode, name) for one in self.modes)

    def may_run(self, name: ToolName) -> bool:
        """Return whether calls of this name may run unjudged: the provider runs them itself.

        Such a call can wait for no person, and its arguments are not seen before it has run.
        """
        call = ToolCall(name, None)
        return all(verdicts.judge(one.mode, call).verdict is Verdict.RELEASE for one in self.modes)

    def _modes(self) -> Iterable[Mode]:
        """Return each mode once; of one that the policy changed within the step, the newest."""
        return {one.mode.id: one.mode for one in self.modes}.values()


def modes_in_force(policy: Policy, chain: Sequence[tuple[SessionId, State]]) -> ModesInForce:
    """Find the modes in force in a session.

    Args:
        policy: the policy of this step.
        chain: the session, then its parent, its parent's parent, and so on; never empty.

    Raises:
        BadSession: the chain is longer than `MAX_CHAIN`, or runs in a circle.
        SessionUnreadable: the log of a session that counts cannot be read.
        ModeGone: the policy no longer has a mode that is in force.
    """
    ids = [session for session, _ in chain]
    if len(ids) > MAX_CHAIN or len(set(ids)) < len(ids):
        raise BadSession(
            f"session {ids[0]!r} has a chain of parents that is longer than {MAX_CHAIN} or runs in a circle: "
            + " < ".join(ids[: MAX_CHAIN + 1])
        )
    return ModesInForce(chain[0][1], tuple(_chain_modes(policy, chain)), policy, tuple(ids))


def _chain_modes(policy: Policy, chain: Sequence[tuple[SessionId, State]]) -> Iterator[ModeInForce]:
    for session, state in chain:
        if state.unreadable is not None:
            raise SessionUnreadable(
                f"the log of session {session!r} is unreadable: {state.unreadable}"
            )
        if state.mode != DEFAULT_MODE:
            yield ModeInForce(_mode(policy, session, state.mode), session, state.mode_seq)
        if state.set_by_person:
            return


def _mode(policy: Policy, session: SessionId, mode: ModeId) -> Mode:
    if mode not in policy.modes:
        raise ModeGone(
            f"session {session!r} is in mode {mode!r}, which the policy no longer has; "
            f"set another with: modegate mode {session} NAME"
        )
    return policy.modes[mode]


def tightest(policy: Policy, candidates: Iterable[ModeId]) -> ModeId:
    """Return the mode that seems to let least through; `default` only if there is no other.

    It is the one with the fewest globs that allow or ask, then with the fewest such rules. A mode that the
    policy no longer has lets nothing through. Among equals the first by name.
    """
    modes = set(candidates) - {DEFAULT_MODE}
    return min(modes, key=lambda mode: (*_openings(policy, mode), mode), default=DEFAULT_MODE)


def _openings(policy: Policy, mode: ModeId) -> tuple[int, int]:
    known = policy.modes.get(mode)
    if known is None:
        return -1, -1
    opening = [rule for rule in known.rules if rule.effect is not Effect.DENY]
    return sum(is_glob(rule.pattern) for rule in opening), len(opening)


def initial_mode(policy: Policy, tenant: Tenant, agent: str | None) -> ModeId:
    """Return the mode in which a new session begins, by its tenant and its agent.

    Where several things are said of it, the tightest mode counts, and `default` only if nothing else is said.

    Args:
        policy: the policy now.
        tenant: of the session.
        agent: the `user-agent` of its first request; None if that is not known yet: the session may be any
            agent's.
    """
    rules = policy.sessions
    said = [
        mode
        for pattern, mode in rules.initial_mode_by_agent.items()
        if agent is None or glob_matches(pattern, agent)
    ]
    said += [mode for one, mode in rules.initial_mode_by_tenant.items() if one == tenant]
    if not said or (agent is None and tenant not in rules.initial_mode_by_tenant):
        said.append(rules.initial_mode)
    return tightest(policy, said)


def derived_start(policy: Policy, kin: Iterable[State], now_ms: int) -> ModeId:
    """Return the mode in which a derived session begins that was not seen before.

    An agent that compacts its history gets another derived id, which must be no way out of a mode.

    Args:
        policy: the policy now; modes that were left and have gone from it do not count.
        kin: the derived sessions of the same tenant and `user-agent`.
        now_ms: milliseconds since the epoch.
    """
    candidates: list[ModeId] = []
    for state in kin:
        candidates.append(state.mode)
        candidates += (
            mode
            for mode, left_at in state.left.items()
            if left_at >= now_ms - DAY_MS and mode in policy.modes
        )
    return tightest(policy, candidates)


def combine(first: ModesInForce, second: ModesInForce) -> ModesInForce:
    """Return the modes of both, all of which must release: nothing gets looser within a step (L8)."""
    more = tuple(one for one in second.modes if one not in first.modes)
    return replace(second, modes=(*first.modes, *more))

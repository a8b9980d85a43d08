"""Conversations that nobody thought of: what holds in any of them, in every dialect, streamed and whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.ids import DEFAULT_MODE
from modegate.core.log.approval_events import ApprovalAsked
from modegate.core.policy.model import Effect, Exit, ExitOption
from modegate.scripted.model import ScriptedCall, Turn
from support.playbook import cut_at, mode, policy, rule
from support.speech import Agent, Entry, Speech
from support.speeches import SPEECHES

RULES = policy(
    mode(
        "plan",
        "read",
        "grep",
        rule("fetch", effect=Effect.ASK),
        exit=Exit((ExitOption("Approve", DEFAULT_MODE),)),
    )
)
ALLOWED = ("read", "grep", "fetch", "exit_plan_mode")
SECRET = "S3CRET"


@dataclass(frozen=True)
class Step:
    """One step of an agent."""

    mode: str
    hops: tuple[Turn, ...]
    """What the model says."""
    yes: bool | None
    """What a person says who is asked; None: nobody is there."""
    user: bool
    """The user says something behind results."""
    places: tuple[int, ...]
    """Where the upstream's bytes are cut."""


_call = st.builds(
    ScriptedCall,
    st.sampled_from(["read", "grep", "write", "write", "nobody_knows", "fetch", "exit_plan_mode"]),
    st.sampled_from(['{"path": "a"}', "{}", '{"path": "%"}', '{"a": [1, {"b": "ä\\n"}]}', '{"cut']),
    id=st.none() | st.sampled_from(["call_", "toolu_01AbCdEfGhIjKlMnOp"]),
    custom=st.sampled_from([False, False, False, True]),
)
_turn = st.builds(
    Turn,
    st.sampled_from(["", "Hi.", "A longer text, in words.", " ü\n\nb "]),
    st.sampled_from(["", "", "Hm.", "One thought,\nanother."]),
    st.lists(_call, max_size=3).map(tuple),
    st.sampled_from([None, None, None, None, "length"]),
    chunk=st.integers(1, 30),
    fragments=st.integers(1, 4),
)
_step = st.builds(
    Step,
    st.sampled_from(["plan", "plan", "default"]),
    st.lists(_turn, min_size=1, max_size=3).map(tuple),
    st.sampled_from([True, False, None]),
    st.booleans(),
    st.lists(st.integers(1, 4000), max_size=3).map(tuple),
)


def distinct(turn: Turn, numbers: count[int], *, gated: bool) -> Turn:
    """Return the turn with ids that no call had before, and a mark in what a mode refuses.

    Where no mode is in force, or the answer is cut short, calls that nobody can read go to the agent as they
    are: none are made. Nor are thoughts that lead to nothing.
    """
    calls = []
    for call in turn.calls:
        number = next(numbers)
        arguments = call.arguments
        if call.name == "exit_plan_mode":
            arguments = f'{{"plan": "# Plan {number}"}}'
        elif call.name not in ALLOWED:
            arguments = arguments.replace('"a"', f'"{SECRET}{number}"')
        if arguments.startswith('{"cut') and (turn.finish or not gated):
            arguments = "{}"
        custom = call.custom and call.name != "exit_plan_mode"
        calls.append(
            replace(call, id=call.id and f"{call.id}{number}", arguments=arguments, custom=custom)
        )
    text = turn.text or ("" if calls or not turn.reasoning else "So.")
    return replace(turn, text=text, calls=tuple(calls))


def decide(agent: Agent, *, yes: bool | None) -> None:
    """Let a person decide on whatever is asked."""

    def settle(asked: ApprovalAsked) -> None:
        options = [option.id for option in asked.options]
        agent.session.settle(asked, options[0] if yes else options[-1])

    agent.session.person = None if yes is None else settle


def left(agent: Agent) -> bool:
    """Return whether the mode was left in the last step."""
    asked = {one.id for one in agent.got.asked if one.purpose == "exit"}
    approvals = agent.session.state.approvals
    return any(approvals[name].approved for name in asked)


def lasting(entries: list[Entry]) -> list[Entry]:
    """Return what stays as it is from request to request."""
    return [entry for entry in entries if entry.kind not in ("system", "thinks")]


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
@given(steps=st.lists(_step, min_size=1, max_size=3))
def test_what_holds_in_any_conversation(speech: Speech, steps: list[Step]) -> None:
    agent = Agent(speech, RULES, tools=("read", "grep", "write", "fetch"))
    agent.session.waits = True
    numbers = count(10)
    before: list[Entry] = []
    for step in steps:
        if step.mode != agent.session.state.mode:
            agent.session.set_mode(step.mode)
        decide(agent, yes=step.yes)
        gated, turns = step.mode != "default", []
        for turn in step.hops:
            turns.append(distinct(turn, numbers, gated=gated))
            # Behind an approved plan no mode is in force, within the step too.
            gated = gated and not (step.yes and "exit_plan_mode" in (c.name for c in turn.calls))
        # A person can say no again and again, but this model gives in at last.
        heard = agent.step(*turns, Turn("Enough."), cut=cut_at(*step.places))
        assert not heard.error
        assert "exit_plan_mode" not in heard.names
        if step.mode == "plan" and not left(agent):
            assert set(heard.names) <= set(ALLOWED)
            assert step.yes or "fetch" not in heard.names
            assert SECRET.encode() not in agent.got.body
        told = lasting(agent.told(0))
        assert told[: len(before)] == before, "the model finds what was, where it was"
        for hop in range(len(agent.got.requests)):
            before = lasting(agent.told(hop))
            assert before[: len(told)] == told
            told = before
        agent.keep(heard)
        if step.user or not heard.calls:
            agent.user("Go on.")

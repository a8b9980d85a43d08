"""Conversations that nobody thought of: what holds in any of them, in every dialect, streamed and whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modegate.core.script import ScriptedCall, Turn
from support.speech import Agent, Entry, Speech
from support.speeches import SPEECHES

ALLOWED = ("read", "grep")
SECRET = "S3CRET"


@dataclass(frozen=True)
class Step:
    """A mode, what the model says hop by hop, and whether the user says something behind results."""

    mode: str
    hops: tuple[Turn, ...]
    user: bool


_call = st.builds(
    ScriptedCall,
    st.sampled_from(["read", "grep", "write", "write", "nobody_knows"]),
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
    st.booleans(),
)


def distinct(turn: Turn, numbers: count[int], *, gated: bool) -> Turn:
    """Give the turn with ids that no call had before, and a mark in what a mode refuses.

    Where no mode is in force, or the answer is cut short, calls that nobody can read go to the agent as they
    are: none are made. Nor are thoughts that lead to nothing.
    """
    calls = []
    for call in turn.calls:
        number = next(numbers)
        arguments = call.arguments
        if call.name not in ALLOWED:
            arguments = arguments.replace('"a"', f'"{SECRET}{number}"')
        if arguments.startswith('{"cut') and (turn.finish or not gated):
            arguments = "{}"
        calls.append(replace(call, id=call.id and f"{call.id}{number}", arguments=arguments))
    text = turn.text or ("" if calls or not turn.reasoning else "So.")
    return replace(turn, text=text, calls=tuple(calls))


def lasting(entries: list[Entry]) -> list[Entry]:
    """Give what stays as it is from request to request."""
    return [entry for entry in entries if entry.kind not in ("system", "thinks")]


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
@settings(max_examples=20, deadline=None)
@given(steps=st.lists(_step, min_size=1, max_size=3))
def test_what_holds_in_any_conversation(speech: Speech, steps: list[Step]) -> None:
    agent = Agent(speech)
    numbers = count(10)
    before: list[Entry] = []
    for step in steps:
        if step.mode != agent.session.state.mode:
            agent.session.set_mode(step.mode)
        heard = agent.step(
            *(distinct(turn, numbers, gated=step.mode != "default") for turn in step.hops)
        )
        assert not heard.error
        if step.mode == "plan":
            assert set(heard.names) <= set(ALLOWED)
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

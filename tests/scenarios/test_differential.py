"""What is judged is what runs: answers of a hostile upstream, through the gate, into clients of others.

Whole and streamed answers of all three APIs are changed in the ways of `support.differential.mutations`; what
comes out of the gate is read by the SDKs that agents use and by models of clients without one. None may
find a call that the mode forbids. This is a fixed part; `make fuzz` runs it as long as you like.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from modegate.scripted.model import ScriptedCall, Turn
from support.differential.answers import TOOLS, expected, mutated, valid
from support.differential.faults import FAULTS
from support.differential.sdks import NodeSdks, PythonSdks, Told
from support.differential.trial import (
    LOOSE,
    Tally,
    asked,
    attempt,
    live,
    readable,
    rules,
    seen,
    told_by_all,
)
from support.playbook import bytewise, pieces_of, whole
from support.speech import Speech
from support.speeches import SPEECHES

SEEDS = range(40)
"""For each API, streamed and whole."""


@pytest.fixture(scope="module")
def python() -> PythonSdks:
    return PythonSdks()


@pytest.fixture(scope="module")
def node() -> Iterator[NodeSdks]:
    with NodeSdks(TOOLS) as started:
        yield started


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_no_client_runs_what_was_not_released(
    speech: Speech, python: PythonSdks, node: NodeSdks
) -> None:
    tally, policy = Tally(), rules()
    more = range(LOOSE, LOOSE + len(SEEDS)) if speech.streamed else ()
    trials = [attempt(speech, policy, seed) for seed in (*SEEDS, *more)]
    trials = [trial for trial in trials if tally.note(trial)]
    for trial, told in zip(trials, told_by_all(trials, python, node), strict=True):
        assert tally.judge(trial, told) == [], trial.got.body
    # Most answers that are wrong are refused; a test in which nothing was called would hold for nothing.
    assert tally.verdicts["release"] > 5
    assert tally.verdicts["answer"]
    assert all(tally.calls.values()), tally.calls


@pytest.mark.parametrize("speech", [one for one in SPEECHES if one.streamed], ids=str)
def test_g11_no_client_minds_being_kept_alive(
    speech: Speech, python: PythonSdks, node: NodeSdks
) -> None:
    """At each silence that an answer of one hop or two can have, something goes that SDKs leave out."""
    policy, request = rules(), asked(speech)
    rng = Random(2)
    turns: list[Turn] = [valid(rng) for _ in range(6)]
    refused = Turn("I write.", "How?", (ScriptedCall("write", "{}"),))
    trials = []
    for turn in turns:
        replies = [speech.reply(one, request) for one in (refused, turn)]
        for hops in (replies, replies[1:]):
            trials.append(live(speech, policy, hops, pieces_of(30), waits=True))
            assert trials[-1].got.kept_alive > 10
    before = python.errors.total(), node.errors.total()
    results: list[Told] = told_by_all(trials, python, node)
    assert (python.errors.total(), node.errors.total()) == before
    for turn, *told in zip(turns, results[::2], results[1::2], strict=True):
        for client, calls in (item for one in told for item in one.items()):
            assert seen(calls) == expected(turn), client


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_every_client_gets_what_is_allowed(
    speech: Speech, python: PythonSdks, node: NodeSdks
) -> None:
    """An answer that obeys the mode arrives as it came, and all clients see its calls.

    But for calls of chat completions that are released for their arguments, which go in one piece.
    """
    policy, request = rules(), asked(speech)
    rng = Random(1)
    turns: list[Turn] = [valid(rng) for _ in range(12)]
    trials = []
    for turn in turns:
        reply = speech.reply(turn, request)
        cut = rng.choice([whole, bytewise])
        trials.append(live(speech, policy, [reply], cut))
        weighed = str(speech) == "chat-streamed" and any(one.name == "edit" for one in turn.calls)
        assert (trials[-1].body == reply.body) is not weighed
    results: list[Told] = told_by_all(trials, python, node)
    for turn, told in zip(turns, results, strict=True):
        for client, calls in told.items():
            assert seen(calls) == expected(turn), client
    for turn, trial in zip(turns, trials, strict=True):
        assert seen(readable(trial)) == expected(turn)


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    """A gate that is wrong in this way lets some client run what it may not."""
    fault, policy = FAULTS[name], rules()
    (speech,) = [one for one in SPEECHES if str(one) == fault.speech]
    sound = attempt(speech, policy, fault.number)
    assert Tally().judge(sound, {}) == []
    with fault.planted():
        assert Tally().judge(attempt(speech, policy, fault.number), {})


def test_the_same_number_is_the_same_answer() -> None:
    """So that what was found can be looked at again."""
    for speech in SPEECHES:
        one, other = (mutated(speech, asked(speech), Random(7)) for _ in range(2))
        assert one == other

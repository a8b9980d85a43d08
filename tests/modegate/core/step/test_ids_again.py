"""S5: a call that is released under the id of one that was withheld: both have to stand in one history."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from modegate.scripted.model import ScriptedCall, Turn
from support.speech import Agent, Entry, Speech
from support.speeches import SPEECHES

LONG = "call_0123456789abcdef0123"
WRITE = ScriptedCall("write", '{"p": 1}', LONG)
READ = ScriptedCall("read", '{"p": 2}', LONG)


def calls(told: list[Entry]) -> list[tuple[str, str]]:
    """Return the calls that the model is told of, each with what became of it."""
    results = {entry.id: entry.text for entry in told if entry.kind == "result"}
    return [(entry.name, results[entry.id]) for entry in told if entry.kind == "call"]


def check(agent: Agent) -> None:
    """Send the history once more; `told` raises where the API would not take it."""
    agent.step(Turn("Done."))
    found = calls(agent.told())
    assert [name for name, _ in found] == ["write", "read"]
    assert found[1][1] == "ran read"
    assert "ran" not in found[0][1]
    before = agent.got.requests[-1]
    agent.step(Turn("Done."))
    assert agent.got.requests[-1] == before


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_s5_within_one_step(speech: Speech) -> None:
    agent = Agent(speech)
    agent.keep(agent.step(Turn("", "", (WRITE,)), Turn("", "", (READ,))))
    check(agent)


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_s5_in_a_later_step(speech: Speech) -> None:
    agent = Agent(speech)
    agent.keep(agent.step(Turn("a", "", (WRITE,)), Turn("b")))
    agent.user("go on")
    agent.keep(agent.step(Turn("c", "", (READ,))))
    check(agent)


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_s5_beside_a_released_call(speech: Speech) -> None:
    agent = Agent(speech)
    other = ScriptedCall("grep", '{"q": 1}', "call_another_0123456789")
    agent.keep(agent.step(Turn("a", "", (WRITE, other))))
    agent.keep(agent.step(Turn("c", "", (READ,))))
    agent.step(Turn("Done."))
    names = [name for name, _ in calls(agent.told())]
    assert sorted(names) == ["grep", "read", "write"]


ELSEWHERE = f'{{"id": "{LONG}", "calls": [{{"call_id": "{LONG}"}}], "text": "{LONG}"}}'


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
def test_s5_only_ids_are_changed(speech: Speech, beside: bool) -> None:
    """What looks like one in a call's arguments, or is one of the agent's own tool, stays."""
    agent = Agent(speech)
    other = ScriptedCall("grep", '{"q": 1}', "call_another_0123456789")
    write = ScriptedCall("write", ELSEWHERE, LONG)
    hops = [Turn("a", LONG, (write, other))] if beside else [Turn("a", LONG, (write,)), Turn("b")]
    agent.keep(agent.step(*hops))
    if not beside:
        agent.user("go on")
    agent.keep(agent.step(Turn("c", "", (READ,))))
    agent.step(Turn("Done."))
    calls_ = [one for one in agent.told() if one.kind == "call"]
    (told,) = [one for one in calls_ if one.name == "write"]
    assert json.loads(told.text) == json.loads(ELSEWHERE)
    assert len({one.id for one in calls_}) == len(calls_)
    thoughts = [one.text for one in agent.told() if one.kind == "thinks"]
    assert set(thoughts) <= {LONG}


SIGNED = "call_0__thought__aGk+/w=="


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_a_signature_in_an_id_stays_whole(speech: Speech) -> None:
    """By way of litellm Gemini's is told in ids, in each API, and is wanted back as it was."""
    agent = Agent(speech)
    write = ScriptedCall("write", "{}", SIGNED)
    agent.keep(agent.step(Turn("a", "", (write,)), Turn("b", "", (replace(READ, id=SIGNED),))))
    (told,) = [one for one in agent.told(1) if one.kind == "call"]
    assert told.id == SIGNED
    agent.step(Turn("Done."))
    calls_ = [one.id for one in agent.told() if one.kind == "call"]
    assert all(one.endswith("__thought__aGk+/w==") for one in calls_)
    assert len(set(calls_)) == 2

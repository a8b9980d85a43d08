"""S5: a call that is released under the id of one that was withheld: both have to stand in one history."""

from __future__ import annotations

import pytest

from modegate.core.script import ScriptedCall, Turn
from support.speech import Agent, Entry, Speech
from support.speeches import SPEECHES

LONG = "call_0123456789abcdef0123"
WRITE = ScriptedCall("write", '{"p": 1}', LONG)
READ = ScriptedCall("read", '{"p": 2}', LONG)


def calls(told: list[Entry]) -> list[tuple[str, str]]:
    """Give the calls that the model is told of, each with what became of it."""
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

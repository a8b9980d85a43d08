"""What was put into a history keeps its bytes in each later request: providers cache by prefix."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from modegate.core.ids import DEFAULT_MODE, Seq
from modegate.core.log.approval_events import ApprovalAsked
from modegate.core.log.fold import dump_state, fold_all, load_state
from modegate.core.log.records import Record
from modegate.core.policy.model import Exit, ExitOption
from modegate.scripted.model import ScriptedCall, Turn
from support.playbook import mode, policy
from support.speech import Agent, Speech
from support.speeches import SPEECHES

Json = dict[str, Any]
EXIT = Exit((ExitOption("Approve", DEFAULT_MODE),))
RULES = policy(mode("plan", "read", "grep"), mode("other", "read"))
LEFT = policy(mode("plan", "read", exit=EXIT))


def calls(name: str, number: int) -> tuple[ScriptedCall, ...]:
    """Return one call."""
    return (ScriptedCall(name, "{}", id=f"call_of_{name}_{number}"),)


def history_of(body: bytes) -> list[Json]:
    """Return what a request tells its model, without system text."""
    request = json.loads(body)
    history = request.get("messages", request.get("input"))
    return [one for one in history if one.get("role") != "system"]


@dataclass
class Story:
    """A conversation in which each request is kept."""

    speech: Speech
    reasoning: str
    """The agent sends back what its model thought with each turn, with those that call, or never."""
    silent: str | None
    """What the agent writes for the text of a turn that only calls, in chat completions."""
    agent: Agent = field(init=False)
    requests: list[list[Json]] = field(default_factory=list)
    """The history of each request, without system text."""

    def __post_init__(self) -> None:
        """Begin."""
        self.agent = Agent(self.speech, RULES)

    def elsewhere(self, history: list[Json], *turns: Turn) -> bytes:
        """Return what a process that has folded the log anew asks."""
        other = Agent(self.speech, RULES, history=list(history))
        events = enumerate(self.agent.session.events, 1)
        records = [Record(Seq(at), 0, "person:test", event) for at, event in events]
        other.session.state = load_state(dump_state(fold_all(records)))
        other.session.blobs = self.agent.session.blobs
        other.step(*turns)
        return other.got.requests[0]

    def step(self, *turns: Turn) -> None:
        """Live through a step; sent in another process, or sent again, its request is the same."""
        agent, history = self.agent, list(self.agent.history)
        before = self.elsewhere(history, *turns)
        heard = agent.step(*turns)
        assert before == agent.got.requests[0] == self.elsewhere(history, *turns)
        self.requests.append(history_of(agent.got.requests[0]))
        end = len(agent.history)
        shows = self.reasoning == "each" or (self.reasoning == "calls" and bool(heard.calls))
        agent.keep(heard, reasoning=shows)
        for message in agent.history[end:]:
            if message.get("tool_calls") and not message.get("content"):
                message["content"] = self.silent


FORMS = [(one, None) for one in SPEECHES] + [(one, "") for one in SPEECHES if one.name == "chat"]


@pytest.mark.parametrize("reasoning", ["each", "calls", "never"])
@pytest.mark.parametrize("thinks", [(0, 1, 2, 3), (0,), (3,)], ids=str)
@pytest.mark.parametrize(("speech", "silent"), FORMS, ids=str)
def test_each_request_goes_on_from_the_bytes_of_the_one_before(
    speech: Speech, thinks: tuple[int, ...], reasoning: str, silent: str | None
) -> None:
    """Whatever the agent's later turns are like, and whoever folds its log."""
    thoughts = ["Hm." if at in thinks else "" for at in range(4)]
    story = Story(speech, reasoning, silent)
    story.step(Turn("", thoughts[0], calls("write", 0)), Turn("I cannot.", thoughts[1]))
    story.agent.user("Go on.")
    story.step(Turn("", thoughts[2], calls("read", 1)))
    story.step(Turn("", thoughts[3], calls("write", 2)), Turn("", thoughts[3], calls("read", 3)))
    story.step(Turn("Now I write.", "", calls("write", 4)), Turn("No.", thoughts[3]))
    story.agent.user("Go on.")
    story.agent.session.set_mode("other")
    story.step(Turn("", thoughts[2], (*calls("grep", 5), *calls("read", 6))))
    story.step(Turn("Fine.", thoughts[1]))
    story.agent.user("Go on.")
    story.agent.session.set_mode("default")
    story.step(Turn("Fine.", thoughts[0]))
    story.agent.user("Go on.")
    story.step(Turn("Fine."))
    for before, then in pairwise(story.requests):
        assert then[: len(before)] == before


@pytest.mark.parametrize("waits", [True, False], ids=["a line says that it waits", "none"])
@pytest.mark.parametrize("reasoning", [True, False], ids=["thoughts", "none"])
@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_so_it_does_with_plans(speech: Speech, reasoning: bool, waits: bool) -> None:
    """Rejected, with nobody there, and approved; and none has the line that its agent's screen had."""
    agent = Agent(speech, LEFT)
    agent.session.waits = waits
    requests: list[list[Json]] = []

    def step(option: str, *turns: Turn) -> None:
        def person(asked: ApprovalAsked) -> None:
            if option:
                agent.session.settle(asked, option, "So be it.")

        agent.session.person = person
        heard = agent.step(*turns)
        requests.append(history_of(agent.got.requests[0]))
        agent.keep(heard, reasoning=reasoning)
        if not heard.calls:
            agent.user("Go on.")

    def plan(number: int) -> tuple[ScriptedCall, ...]:
        arguments = json.dumps({"plan": f"# {number}"})
        return (ScriptedCall("exit_plan_mode", arguments, id=f"call_of_exit_{number}"),)

    step("reject", Turn("Here.", "Hm.", plan(0)), Turn("", "Hm.", calls("read", 1)))
    step("reject", Turn("", "", plan(2)), Turn("I see.", "Hm."))
    step("", Turn("", "Hm.", plan(3)), Turn("I wait."))
    step("approve", Turn("Now.", "Hm.", plan(4)), Turn("", "Hm.", calls("write", 5)))
    step("", Turn("Done."))
    step("", Turn("Done."))
    for before, then in pairwise(requests):
        assert then[: len(before)] == before
    assert "call_of_exit_4" in str(requests[-1])
    assert ("modegate watch" in str(agent.history)) is (waits and speech.streamed)
    assert "modegate watch" not in str(requests)

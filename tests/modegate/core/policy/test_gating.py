"""R4: a list of sessions tells which are not held by a mode, and why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from modegate.core.ids import Lane, ModeId, SessionId
from modegate.core.log.events import NO_TOOLS, RUNS_TEXT, RequestHeader, SessionOpen
from modegate.core.log.fold import State
from modegate.core.policy.gating import LABELS, Gating, gating
from modegate.scripted.model import Turn
from support.playbook import POLICY, Session, mode, policy
from support.speech import Agent
from support.speeches import SPEECHES

S = SessionId("s")
PLAN = State(mode=ModeId("plan"))


def after(*lanes: str) -> State:
    """Return a session in plan whose lanes are not gated for these reasons."""
    session = Session()
    session.append(
        RequestHeader(Lane(str(at)), "plan", "h", (), "", why) for at, why in enumerate(lanes)
    )
    return session.state


CHILD = State(opened=SessionOpen("a", "/", "path", SessionId("p")))

CASES = {
    "a mode": ([(S, PLAN)], Gating.ON),
    "default": ([(S, State())], Gating.DEFAULT),
    "tools beside a title writer": ([(S, after(NO_TOOLS, ""))], Gating.ON),
    "no tools at all": ([(S, after(NO_TOOLS, NO_TOOLS))], Gating.NO_TOOLS),
    "a text agent": ([(S, after(NO_TOOLS, RUNS_TEXT))], Gating.TEXT),
    "mode gone": ([(S, replace(PLAN, mode=ModeId("gone")))], Gating.MODE_GONE),
    "unreadable": ([(S, replace(PLAN, unreadable="why"))], Gating.UNREADABLE),
    "a parent's mode": ([(S, CHILD), (SessionId("p"), PLAN)], Gating.ON),
    "an unreadable parent": (
        [(S, CHILD), (SessionId("p"), replace(PLAN, unreadable="why"))],
        Gating.UNREADABLE,
    ),
    "a circle": ([(S, CHILD), (S, CHILD)], Gating.UNREADABLE),
}


@pytest.mark.parametrize(("chain", "held"), CASES.values(), ids=CASES)
def test_r4_how_a_session_is_held(chain: list[tuple[SessionId, State]], held: Gating) -> None:
    assert gating(POLICY, chain) is held
    assert LABELS[held]


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_r4_an_agent_without_tools_is_marked(speech: object) -> None:
    agent = Agent(speech, tools=())  # type: ignore[arg-type]  # what the list holds
    agent.step(Turn("<<<<<<< SEARCH"))
    assert gating(POLICY, [(S, agent.session.state)]) is Gating.NO_TOOLS
    agent.tools = ("read",)
    agent.step(Turn("Now with a tool."))
    assert gating(POLICY, [(S, agent.session.state)]) is Gating.ON


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_r4_a_text_agent_whose_text_passes_is_marked(
    speech: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("speech", "speech_chat", "speech_messages", "speech_responses"):
        monkeypatch.setattr(f"support.{module}.SYSTEM", "You are gptme v1", raising=False)
    passing = policy(mode("plan", "read", text_calls="pass"))
    for rules, held in ((POLICY, Gating.ON), (passing, Gating.TEXT)):
        for tools in (("read",), ()):
            agent = Agent(speech, rules, tools=tools)  # type: ignore[arg-type]  # what the list holds
            agent.step(Turn("Hello"))
            assert gating(rules, [(S, agent.session.state)]) is held

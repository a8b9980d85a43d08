"""G10: what the length limit cuts ends alike, streamed and whole, and is put to nobody."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from modegate.core.ids import DEFAULT_MODE
from modegate.core.log.events import CallJudged
from modegate.core.policy.model import Exit, ExitOption
from modegate.scripted.model import ScriptedCall, Turn
from support.playbook import bytewise, mode, policy
from support.speech import Agent, Heard, Speech
from support.speeches import SPEECHES

RULES = policy(mode("plan", "read", exit=Exit((ExitOption("go", DEFAULT_MODE),))))
PLAN = ScriptedCall("exit_plan_mode", '{"plan": "PLAN-SEVEN"}', "call_of_the_plan_0123")
READ = ScriptedCall("read", '{"p": 1}', "call_of_reading_0123")


def ended(speech: Speech, turn: Turn, **more: Any) -> tuple[Any, Heard]:
    agent = Agent(speech, RULES, tools=("read", "write"))
    asked = speech.api.request(agent.history, agent.tools, streamed=speech.streamed)
    got = agent.session.step(
        asked, [lambda body: speech.reply(turn, body), speech.reply(Turn("no"), b"{}")], **more
    )
    return got, speech.heard(got)


@pytest.mark.parametrize(
    "calls", [(PLAN,), (PLAN, READ), (READ, PLAN)], ids=["alone", "in front", "behind"]
)
@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_g10_a_plan_of_an_answer_that_was_cut_short_is_put_to_nobody(
    speech: Speech, calls: tuple[ScriptedCall, ...]
) -> None:
    """No hop can follow it, so that nothing could come of its approval; what is allowed beside it goes."""
    got, heard = ended(speech, Turn("Hi", "", calls, finish="length"))
    assert (got.asked, len(got.requests)) == ([], 1)
    assert heard.names == [call.name for call in calls if call is READ]
    verdicts = [
        one for one in got.events if isinstance(one, CallJudged) and one.tool == "exit_plan_mode"
    ]
    assert ["cut short" in one.reason for one in verdicts] == [True]
    assert b"PLAN-SEVEN" not in got.body
    if speech.streamed:
        assert (
            ended(speech, Turn("Hi", "", calls, finish="length"), cut=bytewise)[0].body == got.body
        )


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_a_plan_of_an_answer_that_ends_is_asked_about_as_ever(speech: Speech) -> None:
    turn = Turn("Hi", "", (PLAN,))
    got, _ = ended(speech, turn)
    assert [asked.text for asked in got.asked][:1] == ["PLAN-SEVEN"]
    broken = replace(turn, finish="length")
    assert ended(speech, broken)[0].asked == []

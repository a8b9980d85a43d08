"""H4: gptme writes the model's reasoning in front of its text, and runs the calls that stand in either."""

from __future__ import annotations

from typing import Any

import pytest

from modegate.core.log.events import CallJudged
from modegate.scripted.model import Turn
from support.playbook import Cut, bytewise, mode, policy, whole
from support.speech import Agent
from support.speeches import SPEECHES

SECRET = b"S3CRET"
RULES = policy(mode("plan", "read", "grep"))
THOUGHTS = {
    "gptme": 'I save it.\n@save(a): {"path": "a", "content": "S3CRET"}\nDone.',
    "gptme, a block": "</think>\n```save a.txt\nS3CRET\n```\nDone.",
    "gptme, in XML": "<tool-use>\n<save args='a'>\nS3CRET\n</save>\n</tool-use>",
    "without an end": 'I save it.\n@save(a): {"path": "a", "content": "S3CRET',
}
PLAIN = 'I look at {"name": "write", "arguments": {}} and `x`.\n```python\nprint({\'\n```\nSo.'


@pytest.fixture(params=SPEECHES, ids=str)
def agent(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """Return gptme."""
    for module in ("speech", "speech_chat", "speech_messages", "speech_responses"):
        monkeypatch.setattr(f"support.{module}.SYSTEM", "You are gptme v0.35.1")
    return Agent(request.param, RULES)


@pytest.mark.parametrize("cut", [whole, bytewise], ids=["whole", "bytewise"])
@pytest.mark.parametrize("thought", THOUGHTS.values(), ids=THOUGHTS)
def test_h4_a_call_in_reasoning_is_refused(agent: Agent, thought: str, cut: Cut) -> None:
    """Chat completions get words in its place; what may be signed is not changed, and ends the answer."""
    agent.step(Turn("Hi.", reasoning=thought), Turn("No."), cut=cut)
    got = agent.got
    assert SECRET not in got.body
    assert ("save", "answer") in [
        (e.tool, e.verdict) for e in got.events if isinstance(e, CallJudged)
    ]
    if str(agent.speech).startswith("chat"):
        assert b"stood here in plain text" in got.body
        assert b"No." in got.body
    else:
        assert b"stands in reasoning" in got.body
        assert len(got.requests) == 1


@pytest.mark.parametrize("cut", [whole, bytewise], ids=["whole", "bytewise"])
def test_h4_other_reasoning_passes(agent: Agent, cut: Cut) -> None:
    heard: Any = agent.step(Turn("Hi.", reasoning=PLAIN), cut=cut)
    assert (heard.reasoning, heard.text) == (PLAIN, "Hi.")

"""G12: whatever cannot be done of what an exchange asks for, the client gets one head and one end."""

from __future__ import annotations

from typing import Any

import pytest

from modegate.core.step.effects import Append, CallUpstream, SendBytes, SendHead, StopUpstream
from modegate.scripted.model import ScriptedCall, Turn
from support.playbook import JSON, STREAM, Reply, Session
from support.speech import Agent, Speech
from support.speeches import SPEECHES


@pytest.mark.parametrize("breaks", [Append, SendHead, SendBytes, StopUpstream, CallUpstream])
@pytest.mark.parametrize("story", ["whole", "streamed", "unreadable", "broken"])
@pytest.mark.parametrize("speech", SPEECHES, ids=str)
def test_g12_one_head_whatever_cannot_be_done(speech: Speech, story: str, breaks: type) -> None:
    """Effects behind the head of their batch were taken for ones that the client never saw."""
    agent = Agent(speech)
    refused, allowed = ScriptedCall("write", "{}"), ScriptedCall("read", '{"p": 1}')
    bad = Reply(b"{", list(STREAM if speech.streamed else JSON), broken=story == "broken")
    says: dict[str, tuple[Any, ...]] = {
        "whole": (Turn("a", "", (refused, allowed)),),
        "streamed": (Turn("a", "", (refused,)), Turn("b", "", (allowed,))),
        "unreadable": (bad,),
        "broken": (bad,),
    }
    body = speech.api.request(agent.history, agent.tools, streamed=speech.streamed)
    for nth in range(3):
        session = Session(dialect=speech.api.dialect())
        session.breaks, session.performs = breaks, nth
        replies = [lambda asked, one=one: speech.reply(one, asked) for one in says[story]]
        got = session.step(body, replies)
        assert got.finish is not None
        if got.head is not None and got.head.status == 200 and not speech.streamed:
            # A body of which the length was told is whole, or cut off.
            length = int(dict(got.head.headers)[b"content-length"])
            assert len(got.body) == length or got.finish.broken

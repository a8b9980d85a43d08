"""In default mode, after a mode, what nobody can read passes as it came, in every dialect and form."""

from __future__ import annotations

import json

import pytest

from modegate.scripted.model import Turn
from support.playbook import Session
from support.speech import Speech
from support.speeches import SPEECHES


@pytest.mark.parametrize("speech", SPEECHES, ids=str)
@pytest.mark.parametrize("body", [b"{", b"[]", b'{"model":1,"model":2}'])
def test_a_request_passes_and_so_does_its_answer(speech: Speech, body: bytes) -> None:
    session = Session("plan", dialect=speech.api.dialect())
    session.set_mode("default")
    asked = speech.api.request(
        [{"role": "user", "content": "x"}], ["read"], streamed=speech.streamed
    )
    reply = speech.reply(Turn("hello"), json.dumps(asked).encode())
    got = session.step(body, [reply])
    assert got.requests == [body]
    assert got.body == reply.body

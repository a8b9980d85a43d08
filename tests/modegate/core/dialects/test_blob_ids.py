"""S5: a dialect says where its stored bodies hold ids: one that was used again is changed there."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from modegate.core.dialects.registered import DIALECTS
from modegate.core.ids import StepId
from modegate.core.log.events import TurnWithheld, WithheldHop
from modegate.core.step.answer.calls import CallState
from modegate.core.step.answer.parts import Refused
from modegate.core.step.request.transcript import complete
from support import message_frames, responses
from support.playbook import answer, tool_call
from support.talk_dialect import TALK

ID = "call_0123456789abcdef0123"
ARGUMENTS = {"id": "here", "call_id": "too", "x": {"calls": [{"id": "and here"}]}}
WRITTEN = json.dumps(ARGUMENTS)
ALL = {one.name: one for one in (*DIALECTS, TALK)}
TALKED = {"id": ID, "name": "write", "arguments": ARGUMENTS}
WHOLE: dict[str, Callable[[], bytes]] = {
    "chat": lambda: answer({"tool_calls": [tool_call("write", WRITTEN, ID)]}).body,
    "messages": lambda: (
        message_frames.whole(message_frames.call("write", ARGUMENTS, ID)).body
    ),
    "responses": lambda: responses.whole(responses.call("write", WRITTEN, call_id=ID)).body,
    "talk": lambda: json.dumps({"words": "", "calls": [TALKED], "stop": "calls"}).encode(),
}  # fmt: skip


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("partial", [False, True], ids=["turn", "partial"])
def test_s5_an_id_that_was_used_again_is_changed_wherever_it_stands(
    name: str, partial: bool
) -> None:
    dialect = ALL[name]
    choice = dialect.read_whole(WHOLE[name]()).choices[0]
    (call,) = choice.calls
    call.state = CallState.WITHHELD
    refused = [Refused(call, ID, "No.", None)]
    blob = (dialect.partial_blob if partial else dialect.turn_blob)(choice, refused)
    assert blob.count(f'"{ID}"'.encode()) == 2, "a call and our answer to it"

    found = {1: TurnWithheld(StepId("s"), "u", "A", (WithheldHop((), "ref"),), 1)}
    taken = {ID, "here", "too", "and here"}
    ((_, (changed,)),) = complete(found, {"ref": blob}, taken, dialect.blob_ids).values()
    assert ID.encode() not in changed
    (other,) = {part for part in changed.split(b'"') if part.startswith(b"call_0123456789abcde")}
    assert changed == blob.replace(ID.encode(), other), "and nothing else is changed"

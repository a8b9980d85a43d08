"""A history of which the beginning was compacted away by the API leaves no stale plan behind."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.ids import DEFAULT_MODE
from modegate.core.log.approvals import Status
from modegate.core.policy.model import Exit, ExitOption
from support.message_frames import call, said, session, stream, use, whole
from support.messages import request
from support.playbook import Answers, mode, policy

RULES = policy(mode("plan", "read", exit=Exit((ExitOption("Approve", DEFAULT_MODE),))))
PLAN = {"plan": "# A"}
SEALED = {"type": "compaction", "content": "so far"}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    ("messages", "closes"),
    [
        ([{"role": "assistant", "content": [SEALED]}, user("no, never do that")], True),
        ([user("look at b.py")], False),
    ],
    ids=["compacted", "another lane"],
)
def test_g1_a_history_that_was_compacted_away_leaves_no_stale_plan(
    messages: list[dict[str, Any]], closes: bool, *, streamed: bool
) -> None:
    at = session(RULES)
    text = whole({"type": "text", "text": "hm"}, reason="end_turn")
    submit: Answers = stream(use(0, "exit_plan_mode", json.dumps(PLAN)))
    replies: list[Answers] = (
        [submit, said()] if streamed else [whole(call("exit_plan_mode", PLAN)), text]
    )
    first = request("read", "write", messages=[user("first")])
    at.step({**first, "stream": streamed}, replies)
    (asked,) = at.state.approvals.values()
    assert asked.status is Status.DETACHED
    later = request("read", "write", messages=messages)
    at.step({**later, "stream": streamed}, [said() if streamed else text])
    (asked,) = at.state.approvals.values()
    assert asked.status is (Status.CLOSED if closes else Status.DETACHED)

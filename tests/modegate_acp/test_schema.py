"""The official schemas find what is wrong with a message, so that their finding nothing says something."""

from __future__ import annotations

from typing import Any

import pytest

from modegate.core.ids import SessionId
from modegate_acp.messages import jsonrpc
from modegate_acp.render import sessions as render
from support.acp_schema import problems_of

CALL: dict[str, Any] = {"toolCallId": "c", "title": "t"}


def update(**change: Any) -> dict[str, Any]:
    return render.update(SessionId("s"), change)


def answer(**result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "result": result}


def ask(**params: Any) -> dict[str, Any]:
    return jsonrpc.request("p", "session/request_permission", {"sessionId": "s", **params})


@pytest.mark.parametrize(
    ("message", "method", "wrong"),
    [
        (update(sessionUpdate="current_mode_update", modeId="plan"), None, {"v1"}),
        (update(sessionUpdate="config_option_update", configOptions={}), None, {"v1", "v2"}),
        (answer(sessions=[{"sessionId": 1}]), "session/list", {"v1", "v2"}),
        (answer(modes=[]), "session/load", {"v1"}),
        (answer(stopReason="because"), "session/prompt", {"v1"}),
        (ask(title="t", subject={"type": "tool_call", "toolCall": CALL}, options=[]), None, {"v1", "v2"}),
        (ask(toolCall=CALL, options=[{"optionId": "a", "name": "A", "kind": "reject_once"}]), None, {"v2"}),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": "x", "message": "m"}}, None, {"v1", "v2"}),
        ({"jsonrpc": "2.0", "method": "session/updates", "params": {}}, None, {"v1", "v2"}),
        ({"id": 1, "error": {"code": 1, "message": "m"}}, None, {"jsonrpc"}),
    ],
)  # fmt: skip
def test_a_wrong_message_is_found(
    message: dict[str, Any], method: str | None, wrong: set[str]
) -> None:
    assert {problem.split()[0] for problem in problems_of(message, method)} == wrong

"""modegate's errors as JSON-RPC's."""

from __future__ import annotations

from typing import Any

import pytest

from modegate.core.errors import (
    BadRequest,
    Conflict,
    LevelNeeded,
    LogUnavailable,
    NotOpen,
    SessionUnreadable,
    UnknownMode,
)
from modegate_acp.messages.jsonrpc import RpcError, as_rpc

ERRORS: dict[str, tuple[Exception, int, Any]] = {
    "our own": (RpcError(-32002, "no", {"sessionId": "s"}), -32002, {"sessionId": "s"}),
    "a mode": (UnknownMode("x", ("default", "plan")), -32602, {"available": ["default", "plan"]}),
    "A8 a level": (LevelNeeded("this", "full", "phone", "observe"), -32003, {"needed": "full"}),
    "a cursor": (BadRequest("cursor"), -32602, {"code": "bad_request"}),
    "a late answer": (NotOpen("late"), -32602, {"code": "not_open"}),
    "the log": (LogUnavailable("gone"), -32603, {"code": "log_unavailable"}),
    "a session": (SessionUnreadable("new event"), -32603, {"code": "session_unreadable"}),
    "a race": (Conflict("others"), -32603, {"code": "conflict"}),
}


@pytest.mark.parametrize("case", ERRORS.values(), ids=ERRORS)
def test_what_is_known_is_told(case: tuple[Exception, int, Any]) -> None:
    error, code, data = case
    told = as_rpc(error)
    assert (told.code, told.data, str(told)) == (code, data, str(error))


def test_of_a_bug_nothing_is_told() -> None:
    told = as_rpc(KeyError("secret"))
    assert (told.code, told.data) == (-32603, None)
    assert "secret" not in str(told)

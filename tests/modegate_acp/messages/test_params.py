"""Each method's parameters: the command that they are, or the error that answers them."""

from __future__ import annotations

from typing import Any

import pytest

from modegate.core.ids import DEFAULT_MODE, ModeId, SessionId
from modegate.core.policy.model import Mode, Policy
from modegate_acp.messages.clients import Peer
from modegate_acp.messages.commands import (
    Attach,
    Cancel,
    CancelRequest,
    CloseSession,
    Command,
    Ignore,
    Initialize,
    ListSessions,
    NewSession,
    Prompt,
    SetMode,
    mode_named,
)
from modegate_acp.messages.jsonrpc import Notification, Request, RpcError
from modegate_acp.messages.params import read_command

S = SessionId("s-1")
ON = {"sessionId": "s-1"}


def block(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


COMMANDS: dict[str, tuple[str, dict[str, Any], Command]] = {
    "new": ("session/new", {"cwd": "/w", "mcpServers": []}, NewSession("/w")),
    "load": ("session/load", {**ON, "cwd": "/w", "mcpServers": []}, Attach(S, replay=True)),
    "resume": ("session/resume", {**ON, "cwd": "/w"}, Attach(S, replay=False)),
    "list": ("session/list", {}, ListSessions(None, None)),
    "list null": ("session/list", {"cwd": None, "cursor": None}, ListSessions(None, None)),
    "list of a folder": ("session/list", {"cwd": "/w", "cursor": "c"}, ListSessions("/w", "c")),
    "close": ("session/close", ON, CloseSession(S)),
    "set mode": ("session/set_mode", {**ON, "modeId": "plan"}, SetMode(S, "plan")),
    "set mode, seen": (
        "session/set_mode",
        {**ON, "modeId": "plan", "_meta": {"modegate/seq": 4, "modeId": "x"}},
        SetMode(S, "plan", 4),
    ),
    "configId": (
        "session/set_config_option",
        {**ON, "configId": "mode", "value": "plan"},
        SetMode(S, "plan", method="set_config_option"),
    ),
    "id": (
        "session/set_config_option",
        {**ON, "id": "mode", "value": "plan", "type": "id"},
        SetMode(S, "plan", method="set_config_option"),
    ),
    "both ids": (
        "session/set_config_option",
        {**ON, "id": "mode", "configId": "mode", "value": "plan", "type": "select"},
        SetMode(S, "plan", method="set_config_option"),
    ),
    "prompt": (
        "session/prompt",
        {**ON, "prompt": [block("a"), {"type": "image"}, 1, block("b")]},
        Prompt(S, "a\nb"),
    ),
}


@pytest.mark.parametrize("case", COMMANDS.values(), ids=COMMANDS)
def test_commands(case: tuple[str, dict[str, Any], Command]) -> None:
    method, params, expected = case
    assert read_command(Request(1, method, params), initialized=True) == expected


REFUSED: dict[str, tuple[str, dict[str, Any], int]] = {
    "no such method": ("session/fork", ON, -32601),
    "delete": ("session/delete", ON, -32601),
    "authenticate": ("authenticate", {}, -32601),
    "the client's own": ("session/request_permission", ON, -32601),
    "new without a folder": ("session/new", {}, -32602),
    "new in no folder": ("session/new", {"cwd": ""}, -32602),
    "new in a long folder": ("session/new", {"cwd": "/" * 5000}, -32602),
    "new in a number": ("session/new", {"cwd": 1}, -32602),
    "load of nothing": ("session/load", {"cwd": "/"}, -32602),
    "load of a number": ("session/load", {"sessionId": 1}, -32602),
    "load of what is no id": ("session/load", {"sessionId": "../s"}, -32002),
    "a number as cursor": ("session/list", {"cursor": 1}, -32602),
    "set no mode": ("session/set_mode", ON, -32602),
    "set a number": ("session/set_mode", {**ON, "modeId": 1}, -32602),
    "set a mode of another name": ("session/set_mode", {**ON, "mode_id": "plan"}, -32602),
    "set it in meta": ("session/set_mode", {**ON, "_meta": {"modeId": "plan"}}, -32602),
    "a session in meta": ("session/set_mode", {"modeId": "plan", "_meta": ON}, -32602),
    "no option": ("session/set_config_option", {**ON, "value": "plan"}, -32602),
    "another option": ("session/set_config_option", {**ON, "configId": "m", "value": "x"}, -32602),
    "two options": (
        "session/set_config_option",
        {**ON, "configId": "mode", "id": "model", "value": "plan"},
        -32602,
    ),
    "a number as option": ("session/set_config_option", {**ON, "id": 1, "value": "x"}, -32602),
    "true as mode": ("session/set_config_option", {**ON, "id": "mode", "value": True}, -32602),
    "a type that contradicts": (
        "session/set_config_option",
        {**ON, "id": "mode", "value": "plan", "type": "boolean"},
        -32602,
    ),
    "no prompt": ("session/prompt", ON, -32602),
    "a second initialize": ("initialize", {"protocolVersion": 1}, -32600),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refusals(case: tuple[str, dict[str, Any], int]) -> None:
    method, params, code = case
    with pytest.raises(RpcError) as caught:
        read_command(Request(1, method, params), initialized=True)
    assert caught.value.code == code


def test_an_unknown_option_names_those_there_are() -> None:
    params = {**ON, "configId": "model", "value": "x"}
    with pytest.raises(RpcError) as caught:
        read_command(Request(1, "session/set_config_option", params), initialized=True)
    assert caught.value.data == {"configId": "model", "available": ["mode"]}


INFO: dict[str, tuple[dict[str, Any], Peer]] = {
    "without info": ({"protocolVersion": 1}, Peer()),
    "of version 2": ({"protocolVersion": 2, "clientInfo": None}, Peer()),
    "named": (
        {"protocolVersion": 1, "clientInfo": {"name": "Zed", "version": "1"}},
        Peer("Zed", "1"),
    ),
    "malformed": ({"protocolVersion": 1, "clientInfo": {"name": 1, "version": []}}, Peer()),
}


@pytest.mark.parametrize("case", INFO.values(), ids=INFO)
def test_initialize(case: tuple[dict[str, Any], Peer]) -> None:
    params, peer = case
    assert read_command(Request(1, "initialize", params), initialized=False) == Initialize(peer)


@pytest.mark.parametrize("version", [0, 1, 2, 99])
def test_n019_a11_any_number_is_answered(version: int) -> None:
    """The answer names the version that is spoken here, and the client decides."""
    params = {"protocolVersion": version, "clientCapabilities": None}
    assert read_command(Request(1, "initialize", params), initialized=False) == Initialize(Peer())


@pytest.mark.parametrize(
    "params", [{}, *({"protocolVersion": v} for v in (None, "1", "2024-11-05", True, 1.0, [1]))]
)
def test_n019_what_is_no_version_is_refused_by_name(params: dict[str, Any]) -> None:
    with pytest.raises(RpcError, match="protocolVersion") as caught:
        read_command(Request(1, "initialize", params), initialized=False)
    assert caught.value.code == -32602


@pytest.mark.parametrize("cwd", ["src", "./src", "../src", "~/src", "C:src", "\\src"])
@pytest.mark.parametrize("method", ["session/new", "session/list"])
def test_a11_a_relative_folder_is_refused(method: str, cwd: str) -> None:
    with pytest.raises(RpcError, match="absolute") as caught:
        read_command(Request(1, method, {"cwd": cwd}), initialized=True)
    assert caught.value.code == -32602


@pytest.mark.parametrize("cwd", ["/", "/work", "C:\\src", "c:/src", "\\\\host\\share"])
def test_a11_an_absolute_one_is_not(cwd: str) -> None:
    found = read_command(Request(1, "session/new", {"cwd": cwd}), initialized=True)
    assert found == NewSession(cwd)


def test_a11_a_session_can_be_named() -> None:
    params = {"cwd": "/", "_meta": {"modegate/session": "my-session"}}
    found = read_command(Request(1, "session/new", params), initialized=True)
    assert found == NewSession("/", SessionId("my-session"))


@pytest.mark.parametrize("name", ["", "../x", 1, "a b", "x" * 129])
def test_a11_a_name_must_be_a_session_id(name: Any) -> None:
    params = {"cwd": "/", "_meta": {"modegate/session": name}}
    with pytest.raises(RpcError, match="no session id"):
        read_command(Request(1, "session/new", params), initialized=True)


@pytest.mark.parametrize("method", ["session/new", "session/fork", "session/list"])
def test_nothing_comes_before_initialize(method: str) -> None:
    with pytest.raises(RpcError) as caught:
        read_command(Request(1, method, {"cwd": "/"}), initialized=False)
    assert caught.value.code == -32600


NOTIFIED: dict[str, tuple[str, dict[str, Any], Command]] = {
    "cancel": ("session/cancel", ON, Cancel(S)),
    "cancel nothing": ("session/cancel", {}, Ignore()),
    "cancel a request": ("$/cancel_request", {"requestId": 7}, CancelRequest(7)),
    "cancel a named request": ("$/cancel_request", {"requestId": "x"}, CancelRequest("x")),
    "cancel no request": ("$/cancel_request", {"requestId": None}, Ignore()),
    "a request without an id": ("session/set_mode", {**ON, "modeId": "plan"}, Ignore()),
    "unknown": ("$/progress", {}, Ignore()),
}


@pytest.mark.parametrize("case", NOTIFIED.values(), ids=NOTIFIED)
def test_notifications(case: tuple[str, dict[str, Any], Command]) -> None:
    method, params, expected = case
    assert read_command(Notification(method, params), initialized=True) == expected
    assert read_command(Notification(method, params), initialized=False) == Ignore()


PLAN = Mode(ModeId("plan"), "Plan", "", "", (), aliases=("architect",))
POLICY = Policy("p", {PLAN.id: PLAN})


@pytest.mark.parametrize(
    ("name", "mode"), [("plan", "plan"), ("architect", "plan"), ("default", "default")]
)
def test_modes_by_name(name: str, mode: str) -> None:
    assert mode_named(POLICY, SetMode(S, name)) == mode


@pytest.mark.parametrize("name", ["Plan", "", "root", "x" * 5000])
def test_modes_that_are_not_there(name: str) -> None:
    with pytest.raises(RpcError) as caught:
        mode_named(POLICY, SetMode(S, name))
    data = caught.value.data
    assert caught.value.code == -32602
    assert data == {"modeId": name[:200], "available": [DEFAULT_MODE, "plan"]}

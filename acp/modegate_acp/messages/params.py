"""Parameters of each method, as structs, and the command that they are. Pure.

A parameter is read by its own name only. Of `_meta` two keys are looked at: `modegate/seq`, and in a new
session `modegate/session`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType, field

from modegate.core.ids import SessionId, fits_session_id
from modegate_acp.messages import commands, jsonrpc
from modegate_acp.messages.clients import client_named
from modegate_acp.messages.commands import MODE_OPTION, NAMED, SEEN, Command, unknown_session
from modegate_acp.messages.jsonrpc import Incoming, Message, Notification, Reply, Request, RpcError

MAX_CWD = 4096

_ABSOLUTE = re.compile(r"/|[A-Za-z]:[\\/]|\\\\")
"""How a folder begins, also on Windows; the protocol wants no other."""

_FIELD = re.compile(r"field `(\w+)`|\$\.(\w+)")
"""Where msgspec's errors name the parameter."""

_WANTED = {
    # Without a number the client speaks another protocol: MCP's versions are dates.
    "protocolVersion": "protocolVersion must be a number, as 1",
    "prompt": "prompt must be a list of content blocks",
    "configId": "configId must be one string",
    "id": "configId must be one string",
}
"""What a parameter must be that is no string."""


class _Params(msgspec.Struct, rename="camel", kw_only=True):
    meta: object = field(name="_meta", default=None)

    @property
    def seen(self) -> int | None:
        seen = _member(self.meta, SEEN)
        return seen if isinstance(seen, int) and not isinstance(seen, bool) else None


class _OfSession(_Params):
    session_id: str

    @property
    def session(self) -> SessionId:
        if not fits_session_id(self.session_id):
            raise unknown_session(self.session_id)
        return SessionId(self.session_id)


class _Initialize(_Params):
    protocol_version: int
    """Whatever it is, the answer names the version that is spoken here, and the client decides."""
    client_info: object = None


class _New(_Params):
    cwd: str


class _List(_Params):
    cwd: str | None = None
    cursor: str | None = None


class _SetMode(_OfSession):
    mode_id: str


class _SetOption(_OfSession):
    config_id: str | UnsetType = UNSET
    id: str | UnsetType = UNSET
    """What some clients call `configId`."""
    value: object = None
    """Of another option it may be no string."""
    type: object = None


class _Prompt(_OfSession):
    prompt: list[object]


class _CancelRequest(_Params):
    request_id: jsonrpc.Id


def _initialize(params: _Initialize) -> Command:
    info = params.client_info
    return commands.Initialize(
        client_named(_text(info, "name") or "", _text(info, "version") or "")
    )


def _new(params: _New) -> Command:
    name = _member(params.meta, NAMED)
    if name is not None and not (isinstance(name, str) and fits_session_id(name)):
        raise RpcError(jsonrpc.INVALID_PARAMS, f"{NAMED} is no session id")
    return commands.NewSession(_absolute(params.cwd), None if name is None else SessionId(name))


def _list(params: _List) -> Command:
    return commands.ListSessions(
        None if params.cwd is None else _absolute(params.cwd), params.cursor
    )


def _set_option(params: _SetOption) -> Command:
    names = {name for name in (params.config_id, params.id) if name is not UNSET}
    if len(names) != 1:
        raise RpcError(jsonrpc.INVALID_PARAMS, _WANTED["configId"])
    (name,) = names
    if name != MODE_OPTION:
        data: Message = {"configId": name[:100], "available": [MODE_OPTION]}
        raise RpcError(jsonrpc.INVALID_PARAMS, "there is no such option", data)
    if not isinstance(params.value, str):
        raise RpcError(jsonrpc.INVALID_PARAMS, "value must be a string")
    if params.type == "boolean":
        raise RpcError(jsonrpc.INVALID_PARAMS, "type contradicts the value, which is a string")
    return commands.SetMode(params.session, params.value, params.seen, "set_config_option")


def _prompt(params: _Prompt) -> Command:
    texts = [_text(block, "text") for block in params.prompt if _member(block, "type") == "text"]
    return commands.Prompt(
        params.session, "\n".join(t for t in texts if t is not None), params.seen
    )


P = TypeVar("P", bound=_Params)


def _method(kind: type[P], command: Callable[[P], Command]) -> Callable[[object], Command]:
    return lambda params: command(msgspec.convert(params, kind))


_METHODS = {
    "initialize": _method(_Initialize, _initialize),
    "session/new": _method(_New, _new),
    "session/load": _method(_OfSession, lambda its: commands.Attach(its.session, replay=True)),
    "session/resume": _method(_OfSession, lambda its: commands.Attach(its.session, replay=False)),
    "session/list": _method(_List, _list),
    "session/close": _method(_OfSession, lambda its: commands.CloseSession(its.session)),
    "session/set_mode": _method(
        _SetMode, lambda its: commands.SetMode(its.session, its.mode_id, its.seen)
    ),
    "session/set_config_option": _method(_SetOption, _set_option),
    "session/prompt": _method(_Prompt, _prompt),
}
_NOTIFICATIONS = {
    "session/cancel": _method(_OfSession, lambda its: commands.Cancel(SessionId(its.session_id))),
    "$/cancel_request": _method(_CancelRequest, lambda its: commands.CancelRequest(its.request_id)),
}


def read_command(message: Request | Notification, *, initialized: bool) -> Command:
    """Return what a message asks for.

    Raises:
        RpcError: it cannot be done, and why.
    """
    if isinstance(message, Notification):
        return _notified(message) if initialized else commands.Ignore()
    if initialized and message.method == "initialize":
        raise RpcError(jsonrpc.INVALID_REQUEST, "this connection is initialized already")
    if not initialized and message.method != "initialize":
        raise RpcError(jsonrpc.INVALID_REQUEST, "the first request must be initialize")
    method = _METHODS.get(message.method)
    if method is None:
        data = {"method": message.method[:100]}
        raise RpcError(jsonrpc.METHOD_NOT_FOUND, "there is no such method here", data)
    try:
        return method(message.params)
    except msgspec.ValidationError as error:
        found = _FIELD.search(str(error))
        name = found[1] or found[2] if found else "params"
        text = _WANTED.get(name, f"{name} must be a string")
        raise RpcError(jsonrpc.INVALID_PARAMS, text) from error


def _notified(message: Notification) -> Command:
    try:
        return _NOTIFICATIONS[message.method](message.params)
    except (KeyError, msgspec.ValidationError):
        return commands.Ignore()


def session_named(message: Incoming) -> SessionId | None:
    """Return the session that a message is about, whether or not there is one of this name."""
    name = None if isinstance(message, Reply) else message.params.get("sessionId")
    return SessionId(name) if isinstance(name, str) else None


def _member(value: object, name: str) -> object:
    """Return a member of what should be an object, and need not be."""
    return value.get(name) if isinstance(value, dict) else None


def _text(value: object, name: str) -> str | None:
    found = _member(value, name)
    return found if isinstance(found, str) else None


def _absolute(cwd: str) -> str:
    if not 0 < len(cwd) <= MAX_CWD:
        raise RpcError(jsonrpc.INVALID_PARAMS, f"cwd must have 1 to {MAX_CWD} characters")
    if not _ABSOLUTE.match(cwd):
        raise RpcError(jsonrpc.INVALID_PARAMS, "cwd must be an absolute path")
    return cwd

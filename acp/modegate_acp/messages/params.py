"""Parameters of each method, as structs, and the command that they are. Pure.

A parameter is read by its own name only. Of `_meta` two keys are looked at: `modegate/seq`, and in a new
session `modegate/session`.
"""

from __future__ import annotations

import re

import msgspec
from msgspec import UNSET, UnsetType, field

from modegate.core.ids import SessionId, fits_session_id
from modegate_acp.messages.clients import client_named
from modegate_acp.messages.commands import (
    MODE_OPTION,
    NAMED,
    SEEN,
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
    unknown_session,
)
from modegate_acp.messages.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Id,
    Incoming,
    Message,
    Notification,
    Reply,
    Request,
    RpcError,
)

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

    def command(self) -> Command:
        """Return the command that these parameters are.

        Raises:
            RpcError: there is no such command.
        """
        raise NotImplementedError

    @property
    def seen(self) -> int | None:
        seen = _member(self.meta, SEEN)
        return seen if isinstance(seen, int) and not isinstance(seen, bool) else None


class _Initialize(_Params):
    protocol_version: int
    """Whatever it is, the answer names the version that is spoken here, and the client decides."""
    client_info: object = None

    def command(self) -> Command:
        name, version = (_member(self.client_info, key) for key in ("name", "version"))
        return Initialize(
            client_named(
                name if isinstance(name, str) else "", version if isinstance(version, str) else ""
            )
        )


class _New(_Params):
    cwd: str

    def command(self) -> Command:
        name = _member(self.meta, NAMED)
        if name is not None and not (isinstance(name, str) and fits_session_id(name)):
            raise RpcError(INVALID_PARAMS, f"{NAMED} is no session id")
        return NewSession(_absolute(self.cwd), None if name is None else SessionId(name))


class _List(_Params):
    cwd: str | None = None
    cursor: str | None = None

    def command(self) -> Command:
        return ListSessions(None if self.cwd is None else _absolute(self.cwd), self.cursor)


class _OfSession(_Params):
    session_id: str

    @property
    def session(self) -> SessionId:
        if not fits_session_id(self.session_id):
            raise unknown_session(self.session_id)
        return SessionId(self.session_id)


class _Load(_OfSession):
    def command(self) -> Command:
        return Attach(self.session, replay=True)


class _Resume(_OfSession):
    def command(self) -> Command:
        return Attach(self.session, replay=False)


class _Close(_OfSession):
    def command(self) -> Command:
        return CloseSession(self.session)


class _SetMode(_OfSession):
    mode_id: str

    def command(self) -> Command:
        return SetMode(self.session, self.mode_id, self.seen)


class _SetOption(_OfSession):
    value: object = None
    """Of another option it may be no string."""
    config_id: str | UnsetType = UNSET
    id: str | UnsetType = UNSET
    """What some clients call `configId`."""
    type: object = None

    def command(self) -> Command:
        names = {name for name in (self.config_id, self.id) if name is not UNSET}
        if len(names) != 1:
            raise RpcError(INVALID_PARAMS, _WANTED["configId"])
        (name,) = names
        if name != MODE_OPTION:
            data: Message = {"configId": name[:100], "available": [MODE_OPTION]}
            raise RpcError(INVALID_PARAMS, "there is no such option", data)
        if not isinstance(self.value, str):
            raise RpcError(INVALID_PARAMS, "value must be a string")
        if self.type == "boolean":
            raise RpcError(INVALID_PARAMS, "type contradicts the value, which is a string")
        return SetMode(self.session, self.value, self.seen, as_option=True)


class _Prompt(_OfSession):
    prompt: list[object]

    def command(self) -> Command:
        texts = (
            _member(block, "text") for block in self.prompt if _member(block, "type") == "text"
        )
        text = "\n".join(text for text in texts if isinstance(text, str))
        return Prompt(self.session, text, self.seen)


class _Cancel(_Params):
    session_id: str

    def command(self) -> Command:
        return Cancel(SessionId(self.session_id))


class _CancelRequest(_Params):
    request_id: Id

    def command(self) -> Command:
        return CancelRequest(self.request_id)


_METHODS: dict[str, type[_Params]] = {
    "initialize": _Initialize,
    "session/new": _New,
    "session/load": _Load,
    "session/resume": _Resume,
    "session/list": _List,
    "session/close": _Close,
    "session/set_mode": _SetMode,
    "session/set_config_option": _SetOption,
    "session/prompt": _Prompt,
}
_NOTIFICATIONS: dict[str, type[_Params]] = {
    "session/cancel": _Cancel,
    "$/cancel_request": _CancelRequest,
}


def read_command(message: Request | Notification, *, initialized: bool) -> Command:
    """Return what a message asks for.

    Raises:
        RpcError: it cannot be done, and why.
    """
    if isinstance(message, Notification):
        return _notified(message) if initialized else Ignore()
    if initialized and message.method == "initialize":
        raise RpcError(INVALID_REQUEST, "this connection is initialized already")
    if not initialized and message.method != "initialize":
        raise RpcError(INVALID_REQUEST, "the first request must be initialize")
    params = _METHODS.get(message.method)
    if params is None:
        data = {"method": message.method[:100]}
        raise RpcError(METHOD_NOT_FOUND, "there is no such method here", data)
    try:
        return msgspec.convert(message.params, params).command()
    except msgspec.ValidationError as error:
        found = _FIELD.search(str(error))
        name = found[1] or found[2] if found else "params"
        text = _WANTED.get(name, f"{name} must be a string")
        raise RpcError(INVALID_PARAMS, text) from error


def _notified(message: Notification) -> Command:
    try:
        return msgspec.convert(message.params, _NOTIFICATIONS[message.method]).command()
    except (KeyError, msgspec.ValidationError):
        return Ignore()


def session_named(message: Incoming) -> SessionId | None:
    """Return the session that a message is about, whether or not there is one of this name."""
    name = None if isinstance(message, Reply) else message.params.get("sessionId")
    return SessionId(name) if isinstance(name, str) else None


def _member(value: object, name: str) -> object:
    """Return a member of what should be an object, and need not be."""
    return value.get(name) if isinstance(value, dict) else None


def _absolute(cwd: str) -> str:
    if not 0 < len(cwd) <= MAX_CWD:
        raise RpcError(INVALID_PARAMS, f"cwd must have 1 to {MAX_CWD} characters")
    if not _ABSOLUTE.match(cwd):
        raise RpcError(INVALID_PARAMS, "cwd must be an absolute path")
    return cwd

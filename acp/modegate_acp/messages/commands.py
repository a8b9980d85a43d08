"""What a client's message asks for: a typed command, or the error that it is answered with. Pure.

Parameters are read by their own names only; `_meta` is looked at for `modegate/seq` and, in a new session,
`modegate/session`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from modegate.core.ids import DEFAULT_MODE, ModeId, SessionId, fits_session_id
from modegate.core.policy.model import Policy
from modegate_acp.messages.clients import Peer, peer
from modegate_acp.messages.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    UNKNOWN_SESSION,
    Id,
    Message,
    Notification,
    Request,
    RpcError,
)

MODE_OPTION = "mode"
"""Id of the one config option."""

SEEN = "modegate/seq"
"""Where `_meta` of a request says which seq of the session its sender has seen."""

NAMED = "modegate/session"
"""Where `_meta` of `session/new` says which id the session is to have."""

MAX_CWD = 4096

_ABSOLUTE = re.compile(r"/|[A-Za-z]:[\\/]|\\\\")
"""How a folder begins, also on Windows; the protocol wants no other."""


@dataclass(frozen=True, slots=True)
class Initialize:
    """`initialize`."""

    peer: Peer


@dataclass(frozen=True, slots=True)
class NewSession:
    """`session/new`."""

    cwd: str
    name: SessionId | None = None
    """The id that the session is to have; None for a new one."""


@dataclass(frozen=True, slots=True)
class Attach:
    """`session/load`, which replays the history first, or `session/resume`, which does not."""

    session: SessionId
    replay: bool


@dataclass(frozen=True, slots=True)
class ListSessions:
    """`session/list`."""

    cwd: str | None
    cursor: str | None


@dataclass(frozen=True, slots=True)
class CloseSession:
    """`session/close`."""

    session: SessionId


@dataclass(frozen=True, slots=True)
class SetMode:
    """`session/set_mode`, or `session/set_config_option` of the mode."""

    session: SessionId
    wanted: str
    seen: int | None = None
    """The seq that the sender says it has seen."""
    as_option: bool = False

    @property
    def method(self) -> str:
        """The method's last part, for the log."""
        return "set_config_option" if self.as_option else "set_mode"


@dataclass(frozen=True, slots=True)
class Prompt:
    """`session/prompt`: the text blocks, joined."""

    session: SessionId
    text: str
    seen: int | None = None


@dataclass(frozen=True, slots=True)
class Cancel:
    """`session/cancel`."""

    session: SessionId


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """`$/cancel_request`."""

    request: Id


@dataclass(frozen=True, slots=True)
class Ignore:
    """A notification that means nothing here."""


Command = (
    Initialize
    | NewSession
    | Attach
    | ListSessions
    | CloseSession
    | SetMode
    | Prompt
    | Cancel
    | CancelRequest
    | Ignore
)


def command(message: Request | Notification, *, initialized: bool) -> Command:
    """Return what a message asks for.

    Raises:
        RpcError: it cannot be done, and why.
    """
    if isinstance(message, Notification):
        return _notified(message) if initialized else Ignore()
    if message.method == "initialize":
        if initialized:
            raise RpcError(INVALID_REQUEST, "this connection is initialized already")
        return Initialize(_peer(message.params))
    if not initialized:
        raise RpcError(INVALID_REQUEST, "the first request must be initialize")
    reader = _METHODS.get(message.method)
    if reader is None:
        data = {"method": message.method[:100]}
        raise RpcError(METHOD_NOT_FOUND, "there is no such method here", data)
    return reader(message.params)


def _notified(message: Notification) -> Command:
    params = message.params
    if message.method == "session/cancel":
        session = params.get("sessionId")
        return Cancel(SessionId(session)) if isinstance(session, str) else Ignore()
    if message.method == "$/cancel_request":
        request = params.get("requestId")
        return CancelRequest(request) if isinstance(request, str | int) else Ignore()
    return Ignore()


def _peer(params: Mapping[str, Any]) -> Peer:
    # Whatever number it asks for, the answer names the one that is spoken here, and the client decides.
    # Without a number it speaks another protocol: MCP's versions are dates.
    version = params.get("protocolVersion")
    if not isinstance(version, int) or isinstance(version, bool):
        raise RpcError(INVALID_PARAMS, "protocolVersion must be a number, as 1")
    info = params.get("clientInfo")
    told = info if isinstance(info, dict) else {}
    name, release = told.get("name"), told.get("version")
    return peer(name if isinstance(name, str) else "", release if isinstance(release, str) else "")


def _new(params: Mapping[str, Any]) -> Command:
    meta = params.get("_meta")
    name = meta.get(NAMED) if isinstance(meta, dict) else None
    if name is not None and not (isinstance(name, str) and fits_session_id(name)):
        raise RpcError(INVALID_PARAMS, f"{NAMED} is no session id")
    return NewSession(_cwd(params), None if name is None else SessionId(name))


def _load(params: Mapping[str, Any]) -> Command:
    return Attach(session_of(params), replay=True)


def _resume(params: Mapping[str, Any]) -> Command:
    return Attach(session_of(params), replay=False)


def _list(params: Mapping[str, Any]) -> Command:
    cwd = None if params.get("cwd") is None else _cwd(params)
    return ListSessions(cwd, _optional(params, "cursor"))


def _close(params: Mapping[str, Any]) -> Command:
    return CloseSession(session_of(params))


def _set_mode(params: Mapping[str, Any]) -> Command:
    return SetMode(session_of(params), _text(params, "modeId"), _seen(params))


def _set_option(params: Mapping[str, Any]) -> Command:
    session = session_of(params)
    names = [params[key] for key in ("configId", "id") if key in params]
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) > 1:
        raise RpcError(INVALID_PARAMS, "configId must be one string")
    if names[0] != MODE_OPTION:
        data: Message = {"configId": names[0][:100], "available": [MODE_OPTION]}
        raise RpcError(INVALID_PARAMS, "there is no such option", data)
    value = _text(params, "value")
    if params.get("type") == "boolean":
        raise RpcError(INVALID_PARAMS, "type contradicts the value, which is a string")
    return SetMode(session, value, _seen(params), as_option=True)


def _prompt(params: Mapping[str, Any]) -> Command:
    blocks = params.get("prompt")
    if not isinstance(blocks, list):
        raise RpcError(INVALID_PARAMS, "prompt must be a list of content blocks")
    texts = (b.get("text") for b in blocks if isinstance(b, dict) and b.get("type") == "text")
    text = "\n".join(text for text in texts if isinstance(text, str))
    return Prompt(session_of(params), text, _seen(params))


_METHODS: dict[str, Callable[[Mapping[str, Any]], Command]] = {
    "session/new": _new,
    "session/load": _load,
    "session/resume": _resume,
    "session/list": _list,
    "session/close": _close,
    "session/set_mode": _set_mode,
    "session/set_config_option": _set_option,
    "session/prompt": _prompt,
}


def session_of(params: Mapping[str, Any]) -> SessionId:
    """Return the session that a request names.

    Raises:
        RpcError: none is named, or no session can have this id.
    """
    name = _text(params, "sessionId")
    if not fits_session_id(name):
        raise unknown_session(name)
    return SessionId(name)


def unknown_session(name: str) -> RpcError:
    """Return the error for a session that is not there, or not for the caller: the same."""
    return RpcError(UNKNOWN_SESSION, "there is no such session", {"sessionId": name[:200]})


def mode_named(policy: Policy, wanted: SetMode) -> ModeId:
    """Return the mode that a client means, by its id or an alias.

    Raises:
        RpcError: the policy has none of that name; says which there are.
    """
    found = policy.mode_named(wanted.wanted)
    if found is not None:
        return found
    named = {"configId": MODE_OPTION} if wanted.as_option else {"modeId": wanted.wanted[:200]}
    available = [DEFAULT_MODE, *policy.modes]
    raise RpcError(INVALID_PARAMS, "there is no such mode", {**named, "available": available})


def _text(params: Mapping[str, Any], name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise RpcError(INVALID_PARAMS, f"{name} must be a string")
    return value


def _optional(params: Mapping[str, Any], name: str) -> str | None:
    return None if params.get(name) is None else _text(params, name)


def _cwd(params: Mapping[str, Any]) -> str:
    cwd = _text(params, "cwd")
    if not 0 < len(cwd) <= MAX_CWD:
        raise RpcError(INVALID_PARAMS, f"cwd must have 1 to {MAX_CWD} characters")
    if not _ABSOLUTE.match(cwd):
        raise RpcError(INVALID_PARAMS, "cwd must be an absolute path")
    return cwd


def _seen(params: Mapping[str, Any]) -> int | None:
    meta = params.get("_meta")
    seen = meta.get(SEEN) if isinstance(meta, dict) else None
    return seen if isinstance(seen, int) and not isinstance(seen, bool) else None

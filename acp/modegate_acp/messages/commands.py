"""The commands that a client can give, whichever method says them. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from modegate.core.ids import DEFAULT_MODE, ModeId, SessionId
from modegate.core.policy.model import Policy
from modegate_acp.messages.clients import Peer
from modegate_acp.messages.jsonrpc import INVALID_PARAMS, UNKNOWN_SESSION, Id, RpcError

MODE_OPTION = "mode"
"""Id of the one config option."""

SEEN = "modegate/seq"
"""Key of `_meta`: the number of the newest event that the sender of a request has seen."""

NAMED = "modegate/session"
"""Key of `_meta` in `session/new`: the id that the session is to have."""


@dataclass(frozen=True, slots=True)
class Initialize:
    peer: Peer


@dataclass(frozen=True, slots=True)
class NewSession:
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
    cwd: str | None
    cursor: str | None


@dataclass(frozen=True, slots=True)
class CloseSession:
    session: SessionId


@dataclass(frozen=True, slots=True)
class SetMode:
    """`session/set_mode`, `session/set_config_option` of the mode, or `/mode NAME`."""

    session: SessionId
    wanted: str
    seen: int | None = None
    """The number of the newest event that the sender has seen."""
    method: str = "set_mode"
    """What set it, for the log: the method's last part, or `prompt`."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """`session/prompt`: the text blocks, joined."""

    session: SessionId
    text: str
    seen: int | None = None


@dataclass(frozen=True, slots=True)
class Cancel:
    session: SessionId


@dataclass(frozen=True, slots=True)
class CancelRequest:
    request: Id


@dataclass(frozen=True, slots=True)
class Ignore:
    """A notification that means nothing here."""


Command = (
    Initialize | NewSession | Attach | ListSessions | CloseSession
    | SetMode | Prompt | Cancel | CancelRequest | Ignore
)  # fmt: skip


def unknown_session(name: str) -> RpcError:
    """Return the error for a session that does not exist, which one of another tenant gets too."""
    return RpcError(UNKNOWN_SESSION, "there is no such session", {"sessionId": name[:200]})


def mode_named(policy: Policy, wanted: SetMode) -> ModeId:
    """Return the mode that a client means, by its id or an alias.

    Raises:
        RpcError: the policy has none of that name; says which there are.
    """
    found = policy.mode_named(wanted.wanted)
    if found is not None:
        return found
    named = (
        {"configId": MODE_OPTION}
        if wanted.method == "set_config_option"
        else {"modeId": wanted.wanted[:200]}
    )
    available = [DEFAULT_MODE, *policy.modes]
    raise RpcError(INVALID_PARAMS, "there is no such mode", {**named, "available": available})

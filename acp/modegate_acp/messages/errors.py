"""modegate's own errors as JSON-RPC's. Pure."""

from __future__ import annotations

from modegate.core.errors import (
    BadRequest,
    BadSession,
    LevelNeeded,
    ModegateError,
    NotOpen,
    UnknownMode,
)
from modegate_acp.messages.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    NOT_ALLOWED,
    RpcError,
)


def as_rpc(error: Exception) -> RpcError:
    """Return what a client is told of an error; of one that is a bug, only that there is one."""
    match error:
        case RpcError():
            return error
        case UnknownMode():
            return RpcError(INVALID_PARAMS, str(error), {"available": list(error.available)})
        case LevelNeeded():
            return RpcError(NOT_ALLOWED, str(error), {"needed": error.needed})
        case BadRequest() | BadSession() | NotOpen():
            return RpcError(INVALID_PARAMS, str(error), {"code": error.code})
        case ModegateError():
            return RpcError(INTERNAL_ERROR, str(error), {"code": error.code})
        case _:
            return RpcError(INTERNAL_ERROR, "an error of modegate itself; see its log")

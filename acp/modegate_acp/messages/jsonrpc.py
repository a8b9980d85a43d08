"""JSON-RPC 2.0 as ACP uses it: one message from its text, one message to its text, and the errors.

Pure. If two readers could understand a message differently (a key twice, a number that is none), it is
refused. `_meta` is left where it stands: nothing in it ever becomes a parameter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from modegate.core.errors import (
    BadRequest,
    BadSession,
    LevelNeeded,
    ModegateError,
    NotOpen,
    UnknownMode,
)
from modegate.core.wire.weight import is_dense

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
AUTH_REQUIRED = -32000
"""On this, clients offer to log in, so it is used for nothing else."""
NOT_ALLOWED = -32003
"""The token is good, but its level is too low; from the range that JSON-RPC leaves to servers."""
UNKNOWN_SESSION = -32002
CANCELLED = -32800

MAX_MESSAGE = 4 * 1024 * 1024
"""Bytes of one message that a client sends; prompts with pictures stay below."""

MAX_VALUES = 20_000
"""Characters that separate values (`{`, `[`, `,`) in one message. Reading more would hold everybody up. A
prompt with hundreds of content blocks has some 3,000."""

MAX_DIGITS = 64

MAX_ID = 256
"""Characters of a request's id."""

Id = str | int
Message = dict[str, Any]
"""One JSON object, as it goes out."""


class RpcError(Exception):
    """What a request is answered with instead of a result."""

    def __init__(
        self, code: int, message: str, data: Message | None = None, *, request: Id | None = None
    ) -> None:
        """Keep what the answer holds; `request` is the id, where only the reader of the message knows it."""
        super().__init__(message)
        self.code = code
        self.data = data
        self.request = request


class Batch(RpcError):
    """An array of messages, which ACP does not have."""


@dataclass(frozen=True, slots=True)
class Request:
    """A message that wants an answer."""

    id: Id
    method: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Notification:
    """A message that wants none."""

    method: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """The client's answer to a request of ours."""

    id: Id
    result: Any = None
    error: Any = None
    """Anything but None is an error, also beside a result."""


Incoming = Request | Notification | Reply


def read(text: str | bytes) -> Incoming:
    """Return the message in a text.

    Raises:
        Batch: it is an array.
        RpcError: it is no message.
    """
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if is_dense(raw, MAX_VALUES):
        raise RpcError(INVALID_REQUEST, "a message may hold some thousand values at most")
    message = _parse(raw)
    if isinstance(message, list):
        raise Batch(INVALID_REQUEST, "batches are not supported: send one message at a time")
    if not isinstance(message, dict):
        raise RpcError(INVALID_REQUEST, "a message must be a JSON object")
    return _message(message)


def _parse(text: bytes) -> Any:
    try:
        return json.loads(
            text, object_pairs_hook=_object, parse_constant=_constant, parse_int=_integer
        )
    except (ValueError, RecursionError) as error:
        # The text itself may hold anything, so it is not repeated.
        why = str(error).partition(":")[0] if isinstance(error, ValueError) else "nested too deeply"
        raise RpcError(PARSE_ERROR, f"not JSON: {why[:200]}") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a key twice")
    return found


def _integer(digits: str) -> int:
    # Reading thousands of digits takes its time, and nothing here has a number over 64 bits.
    if len(digits) > MAX_DIGITS:
        raise ValueError("a number has too many digits")
    return int(digits)


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


def _message(message: dict[str, Any]) -> Incoming:
    known = message.get("id")
    request = known if _is_id(known) else None
    if message.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, 'a message needs "jsonrpc": "2.0"', request=request)
    if "id" in message and request is None:
        raise RpcError(
            INVALID_REQUEST, f"an id must be a string up to {MAX_ID} characters or an integer"
        )
    if "method" not in message:
        if request is None or not ("result" in message or "error" in message):
            raise RpcError(INVALID_REQUEST, "neither a request nor an answer", request=request)
        error = message.get("error", {} if "result" not in message else None)
        return Reply(request, message.get("result"), error)
    method, params = message["method"], message.get("params", {})
    if not isinstance(method, str):
        raise RpcError(INVALID_REQUEST, "method must be a string", request=request)
    if not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, "params must be an object", request=request)
    return Notification(method, params) if request is None else Request(request, method, params)


def _is_id(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_ID
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def result(request: Id, value: Message) -> Message:
    return {"jsonrpc": "2.0", "id": request, "result": value}


def failure(request: Id | None, error: RpcError) -> Message:
    """Return the error answer to a request; `data` is left out where there is none."""
    body: Message = {"code": error.code, "message": str(error)}
    if error.data:
        body["data"] = error.data
    return {"jsonrpc": "2.0", "id": request, "error": body}


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


def request(name: Id, method: str, params: Message) -> Message:
    return {"jsonrpc": "2.0", "id": name, "method": method, "params": params}


def notification(method: str, params: Message) -> Message:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def write(message: Message) -> str:
    """Return a message's text, on one line and in ASCII, so that no half of a surrogate pair can break it."""
    return json.dumps(message, separators=(",", ":"), allow_nan=False)

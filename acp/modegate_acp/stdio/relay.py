"""Between an editor that only starts processes and a proxy's `/acp`: what goes where when either end speaks.

Pure: messages in, messages out; `bridge` reads and writes. What either end says is passed on as it is. The
relay adds only what a broken connection makes necessary. Each request that can no longer be answered gets an
error. The next connection begins with the `initialize` and the `session/resume` of the last one, so the
editor need not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from modegate_acp.messages.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, MAX_MESSAGE, PARSE_ERROR

OWN = "modegate-acp-stdio:"
"""What the ids of our own requests begin with; an editor's are passed on as they are."""

ATTACHING = frozenset({"session/new", "session/load", "session/resume"})


@dataclass(frozen=True, slots=True)
class ToEditor:
    message: bytes


@dataclass(frozen=True, slots=True)
class ToProxy:
    message: bytes


@dataclass(frozen=True, slots=True)
class Tell:
    text: str


Out = ToEditor | ToProxy | Tell


@dataclass(frozen=True, slots=True)
class _Asked:
    id: Any
    method: str
    params: Any


class Relay:
    """One editor's side of the talk, over as many connections as it takes."""

    def __init__(self) -> None:
        self._connected = False
        self._why = "not connected yet"
        self._waiting: dict[bytes, _Asked] = {}
        self._questions: dict[bytes, Any] = {}
        """Ids of the proxy's requests that the editor has not answered."""
        self._initialize: Any = None
        """Parameters of the `initialize` that was answered."""
        self._attached: dict[str, str] = {}
        """Sessions that the editor hears of, and their `cwd`."""
        self._own: dict[str, str] = {}
        """Our own requests under way, and the session that each is about."""
        self._count = 0
        self._ended = False
        """The editor has closed its end, so that nobody answers a question there."""

    @property
    def busy(self) -> bool:
        return bool(self._waiting)

    def connected(self) -> list[Out]:
        self._connected = True
        if self._initialize is None:
            return []
        out: list[Out] = [Tell("connected again"), self._ask("initialize", self._initialize, "")]
        for session, cwd in self._attached.items():
            params = {"sessionId": session, "cwd": cwd, "mcpServers": []}
            out.append(self._ask("session/resume", params, session))
        return out

    def lost(self, why: str) -> list[Out]:
        """Note that there is no connection, or no new one; whoever waits is told why."""
        out: list[Out] = [Tell(why)] if why != self._why else []
        self._connected, self._why = False, why
        out += [ToEditor(_error(asked.id, INTERNAL_ERROR, why)) for asked in self._waiting.values()]
        out += [
            # The proxy asks again, with another id, as soon as the session is attached again.
            ToEditor(_notification("$/cancel_request", {"requestId": question}))
            for question in self._questions.values()
        ]
        self._waiting.clear()
        self._questions.clear()
        self._own.clear()
        return out

    def ended(self) -> list[Out]:
        """Note that the editor says nothing more: what it was asked is left to others."""
        self._ended = True
        out: list[Out] = [ToProxy(_unanswered(question)) for question in self._questions.values()]
        self._questions.clear()
        return out

    def from_editor(self, line: bytes) -> list[Out]:
        """Pass on what the editor wrote: one message a line, without its line end."""
        if not line.strip():
            return []
        try:
            message = msgspec.json.decode(line)
        except msgspec.DecodeError:
            return [ToEditor(_error(None, PARSE_ERROR, "this line is not JSON"))]
        known = message if isinstance(message, dict) else {}
        asks = "id" in known and "method" in known
        if len(line) > MAX_MESSAGE:
            text = f"a message may have {MAX_MESSAGE} bytes; this one has {len(line)}"
            return [ToEditor(_error(known["id"], INVALID_REQUEST, text))] if asks else [Tell(text)]
        if "id" in known and not asks:
            # An answer to a question of an earlier connection goes nowhere.
            open_ = self._questions.pop(_key(known["id"]), None)
            return [ToProxy(line)] if open_ is not None else []
        if not self._connected:
            error = ToEditor(_error(known.get("id"), INTERNAL_ERROR, self._why))
            return [error] if asks or not known else []
        if asks:
            asked = _Asked(known["id"], str(known["method"]), known.get("params"))
            self._waiting[_key(known["id"])] = asked
        return [ToProxy(line)]

    def from_proxy(self, message: bytes) -> list[Out]:
        """Pass on what the proxy sent, except the answers to our own requests."""
        try:
            read = msgspec.json.decode(message)
        except msgspec.DecodeError:
            return [Tell("the proxy sent something that is not JSON")]
        known = read if isinstance(read, dict) else {}
        if "method" in known:
            if "id" in known and self._ended:
                return [ToProxy(_unanswered(known["id"]))]
            if "id" in known:
                self._questions[_key(known["id"])] = known["id"]
            elif known["method"] == "$/cancel_request":
                self._questions.pop(_key(_get(known, "params", "requestId")), None)
        elif "id" in known:
            if isinstance(known["id"], str) and known["id"] in self._own:
                return self._answered(self._own.pop(known["id"]), known)
            asked = self._waiting.pop(_key(known["id"]), None)
            if asked is not None and isinstance(known.get("result"), dict):
                self._learn(asked, known["result"])
        # White space between the parts of a message may hold line ends; strings cannot.
        return [ToEditor(message.replace(b"\r", b" ").replace(b"\n", b" "))]

    def _learn(self, asked: _Asked, result: dict[str, Any]) -> None:
        if asked.method == "initialize":
            self._initialize = asked.params
        elif asked.method in ATTACHING:
            session = result.get("sessionId") or _get(asked.params, "sessionId")
            if isinstance(session, str):
                self._attached[session] = str(_get(asked.params, "cwd") or "/")
        elif asked.method == "session/close":
            self._attached.pop(str(_get(asked.params, "sessionId")), None)

    def _answered(self, session: str, answer: dict[str, Any]) -> list[Out]:
        """Take the answer to an own request: the editor learns what may have changed meanwhile."""
        result = answer.get("result")
        if not isinstance(result, dict):
            self._attached.pop(session, None)
            reason = _get(answer, "error", "message")
            return [Tell(f"not attached again to {session or 'the proxy'}: {reason}")]
        updates: list[Any] = []
        mode = _get(result, "modes", "currentModeId")
        if session and mode is not None:
            updates.append(
                {"sessionUpdate": "current_mode_update", "currentModeId": mode, "modeId": mode}
            )
        if session and "configOptions" in result:
            options = result["configOptions"]
            updates.append({"sessionUpdate": "config_option_update", "configOptions": options})
        told = {"_meta": result["_meta"]} if "_meta" in result else {}
        return [
            ToEditor(
                _notification("session/update", {"sessionId": session, "update": update, **told})
            )
            for update in updates
        ]

    def _ask(self, method: str, params: Any, session: str) -> ToProxy:
        self._count += 1
        name = f"{OWN}{self._count}"
        self._own[name] = session
        request = {"jsonrpc": "2.0", "id": name, "method": method, "params": params}
        return ToProxy(msgspec.json.encode(request))


class Lines:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes | None]:
        """Return the lines that are complete now, without their ends; None for one that was too long."""
        *ended, rest = data.split(b"\n")
        lines: list[bytes | None] = []
        for piece in ended:
            self._add(piece)
            lines.append(self._take())
        self._add(rest)
        return lines

    def end(self) -> list[bytes | None]:
        return [self._take()] if self._size else []

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            self._parts.clear()
        elif piece:
            self._parts.append(piece)

    def _take(self) -> bytes | None:
        line = b"".join(self._parts) if self._size <= self._limit else None
        self._parts, self._size = [], 0
        return line


def too_long(limit: int) -> ToEditor:
    """Return the answer to a line over the limit, of which nobody knows what it asked."""
    return ToEditor(_error(None, INVALID_REQUEST, f"a line may have {limit} bytes at most"))


def _error(request: Any, code: int, text: str) -> bytes:
    error = {"code": code, "message": text}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": request, "error": error})


def _unanswered(question: Any) -> bytes:
    # An error is no decision: the person may answer elsewhere.
    return _error(question, INTERNAL_ERROR, "the editor has closed its end")


def _notification(method: str, params: Any) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "method": method, "params": params})


def _key(request: Any) -> bytes:
    """Tell ids apart as JSON does: 1 and "1" are two."""
    return msgspec.json.encode(request)


def _get(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value

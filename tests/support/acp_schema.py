"""The official schemas of ACP, as the npm package carries them, as judges of what the endpoint emits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from modegate_acp.connection.connection import Connection
from modegate_acp.messages import jsonrpc
from modegate_acp.messages.jsonrpc import Request
from modegate_acp.transport import streamable, websocket
from support.acp_clients import FOLDER

SCHEMAS = FOLDER / "node_modules" / "@agentclientprotocol" / "sdk" / "schema"

Found = list[str]


class Schema:
    """One version's schema."""

    def __init__(self, version: str) -> None:
        """Read `v1` or `v2`."""
        text = (SCHEMAS / version / "schema.json").read_text(encoding="utf-8")
        self.version = version
        self._defs: dict[str, Any] = json.loads(text)["$defs"]
        self._validators: dict[str, Draft202012Validator] = {}

    def definition(self, method: str, ending: str) -> str | None:
        """Return the definition of a method's `Request`, `Response` or `Notification`, or None."""
        for name, one in self._defs.items():
            if one.get("x-method") == method and name.endswith(ending):
                return name
        return None

    def problems(self, name: str, value: Any) -> Found:
        """Say what is wrong with a value of this definition."""
        if name not in self._validators:
            schema = {"$ref": f"#/$defs/{name}", "$defs": self._defs}
            self._validators[name] = Draft202012Validator(schema)
        errors = self._validators[name].iter_errors(value)
        return [f"{self.version} {name} {e.json_path}: {e.message[:300]}" for e in errors]


@cache
def schema(version: str) -> Schema:
    """Return a version's schema, read once."""
    return Schema(version)


ONLY_V1 = frozenset(
    {
        # The version that was negotiated is 1, and v2's answer has another shape.
        ("initialize", "Response"),
        # v2 has no modes: they are a config option there.
        ("session/set_mode", "Response"),
        # It was taken into session/resume.
        ("session/load", "Response"),
        # v2 answers when the prompt is accepted, and tells of the end by an update.
        ("session/prompt", "Response"),
    }
)
ONLY_V1_UPDATES = frozenset({"agent_message_chunk"})
"""Kinds of update that v2 has otherwise; those that it does not have at all, it lets pass."""


def problems_of(message: dict[str, Any], method: str | None = None) -> Found:
    """Say what is wrong with a message of ours; `method` is that of the request which it answers."""
    found = [] if message.get("jsonrpc") == "2.0" else ["jsonrpc is not 2.0"]
    for version in ("v1", "v2"):
        found += _problems(schema(version), message, method)
    return found


def _problems(one: Schema, message: dict[str, Any], method: str | None) -> Found:
    if "error" in message:
        return one.problems("Error", message["error"])
    if "result" in message:
        value, ending = message["result"], "Response"
    else:
        method, value = message["method"], message["params"]
        ending = "Request" if "id" in message else "Notification"
    if method is None:
        return []
    if one.version == "v2" and not _is_in_v2(method, ending, value):
        return []
    name = one.definition(method, ending)
    return (
        [f"{one.version} has no {ending} {method}"] if name is None else one.problems(name, value)
    )


def _is_in_v2(method: str, ending: str, value: Any) -> bool:
    update = value.get("update", {}) if ending == "Notification" else {}
    return (method, ending) not in ONLY_V1 and update.get("sessionUpdate") not in ONLY_V1_UPDATES


@contextmanager
def judged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Note every message that endpoints in this process emit; fail at the end for those that are wrong."""
    found: dict[str, Found] = {}

    def judge(message: dict[str, Any], method: str | None = None) -> None:
        # The same message again is judged already; it takes a millisecond.
        about = str(message) if method is None else f"{method} {message['result']}"
        if about not in found:
            found[about] = problems_of(message, method)

    def write(message: dict[str, Any]) -> str:
        judge(message)
        return written(message)

    def answer(self: Connection, request: Request, session: Any, result: dict[str, Any]) -> None:
        judge(jsonrpc.result(request.id, result), request.method)
        answered(self, request, session, result)

    written, answered = jsonrpc.write, Connection.answer
    for transport in (streamable, websocket):
        judging = SimpleNamespace(**{**vars(jsonrpc), "write": write})
        monkeypatch.setattr(transport, "jsonrpc", judging)
    monkeypatch.setattr(Connection, "answer", answer)
    yield
    if wrong := [f"{one}\n  of {about[:500]}" for about, all_ in found.items() for one in all_]:
        pytest.fail("\n".join(wrong), pytrace=False)

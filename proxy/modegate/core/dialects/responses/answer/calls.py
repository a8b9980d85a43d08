"""The items of an answer: text that is shown, calls that the client runs, things that the provider ran.

An item comes up to four times: announced, in pieces, whole at its end, and in the response at the end of
the answer. Clients differ in which they take, so all of them must say the same of a call; one that they
do not agree on is refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from modegate.core.dialects.common.call_members import BESIDE, ambiguity, inherits
from modegate.core.dialects.common.texts import dicts_in
from modegate.core.dialects.responses.answer.parsing import (
    CLIENT_RUNS,
    INERT,
    PARTS,
    check_keys,
    text_in,
)
from modegate.core.dialects.responses.request.tools import mcp_name, policy_name
from modegate.core.errors import AnswerUnreadable
from modegate.core.ids import ToolName
from modegate.core.policy.judge import ToolCall
from modegate.core.step.answer.calls import Gathered, canonical
from modegate.core.step.reasons import Reason

CALLS = frozenset({"function_call", "custom_tool_call"})
"""Calls of the agent's own tools."""

_MCP = frozenset({"mcp_call", "mcp_approval_request"})
_SOURCES = {
    "apply_patch_call": ("operation",),
    "code_interpreter_call": ("code",),
    "computer_call": ("action", "actions"),
    "custom_tool_call": ("input",),
    "function_call": ("arguments",),
    "image_generation_call": ("action",),
    "local_shell_call": ("action",),
    "mcp_approval_request": ("arguments",),
    "mcp_call": ("arguments",),
    "shell_call": ("action",),
    "tool_search_call": ("arguments",),
    "web_search_call": ("action",),
}
"""For a type of item: under which keys stands what it is made with, of which only one may be filled."""
_ANY = ("arguments", "input", "action", "actions", "operation", "code")
"""The same of a type that is not known."""
_OWN = frozenset({"type", "id", "call_id", "status", "name", "namespace", "server_label"})
_UNKNOWN = _OWN.union(_ANY)
_MEMBERS = {kind: _OWN.union(keys) for kind, keys in _SOURCES.items()}
_BESIDE = BESIDE | {
    *("acknowledged_safety_checks", "environment", "pending_safety_checks"),
    *("agent", "agent_reference", "created_by"),  # Azure
}
_RUN_BY_PROVIDER = frozenset({"file_search_call", "program", "program_output", "shell_call_output"})
"""The provider's own, beside those with a source."""
_CAME_OF_IT = ("output", "outputs", "result", "results", "error")
_ENDINGS = ("_call_output", "_output", "_call")


@dataclass(eq=False, slots=True)
class ItemCall(Gathered):
    """A call, or something that the provider ran, as one item of an answer."""

    type: str = ""
    plain: str = ""
    """The name without its namespace."""
    listed: tuple[str, ...] = ()
    """For `mcp_list_tools`: every tool that it lists."""
    checks: tuple[Any, ...] = ()
    """For `computer_call`: what the provider wants acknowledged before anything follows it."""

    def readings(self, declared: frozenset[str]) -> list[ToolCall]:
        if self.doubt:
            return []
        names = [*(self.names or ())]
        if self.plain and self.plain in declared:
            # A client that knows no namespaces would take it for that tool.
            names.append(self.plain)
        if self.type == "web_search_call":
            # The tool has had several names; the item's type tells of none.
            names = [one for one in sorted(declared) if one.startswith("web_search")] or names
        names = list(self.listed) or names
        given = [None] if self.restarts else self._parsed()
        calls = ((name, one) for name in dict.fromkeys(names) for one in given)
        return [ToolCall(ToolName(name), one, declared) for name, one in calls]


def type_of(item: dict[str, Any]) -> str:
    """Return an item's type. Raises `AnswerUnreadable` if it has none."""
    check_keys(item)
    kind = text_in(item, "type")
    if not kind:
        raise AnswerUnreadable("the upstream sent an item without a type")
    if kind in INERT:
        _check_inert(item)
    return kind


def _check_inert(item: dict[str, Any]) -> None:
    if text_in(item, "role") not in ("", "assistant"):
        raise AnswerUnreadable("the upstream sent a message that is not the assistant's")
    for key in ("content", "summary"):
        parts = item.get(key)
        if parts is None:
            continue
        if not isinstance(parts, list):
            raise AnswerUnreadable(f"the upstream's {key!r} of an item is not a list")
        for part in parts:
            check_part(part)


def check_part(part: Any) -> None:
    """Refuse a part of content that is not text. Raises `AnswerUnreadable` if it is of another type."""
    if not isinstance(part, dict) or text_in(part, "type") not in PARTS:
        raise AnswerUnreadable("the upstream sent content that is not text")
    check_keys(part)


def call_of(item: dict[str, Any], exact: dict[str, Any] | None = None) -> ItemCall | None:
    """Read an item as the call that it is; None for one of which nothing runs.

    Its arguments are those that stand in it, in `exact` with halves of characters as they are; what cannot
    be read makes it odd.
    """
    kind = type_of(item)
    if kind in INERT:
        return None
    call = ItemCall(0, "custom" if kind == "custom_tool_call" else "function", type=kind)
    call.ran = kind not in CLIENT_RUNS or ran(item)
    call.has_run = call.ran and _has_run(item)
    checks = item.get("pending_safety_checks") if kind == "computer_call" else None
    call.checks = tuple(checks) if isinstance(checks, list) else ()
    _read_ids(call, item)
    _read_names(call, item)
    arguments = arguments_of(exact or item)
    if isinstance(arguments, str):
        call.pieces = [arguments] if arguments else []
    elif arguments is not None:
        call.pieces = [json.dumps(arguments)]
    if kind in CALLS and not isinstance(arguments, str | None):
        call.odd = Reason.ARGUMENTS_NO_STRING
    call.odd = call.odd or _doubt(item, client_runs=not call.ran)
    return call


def _doubt(item: dict[str, Any], *, client_runs: bool) -> str:
    """Say why clients could make two calls of an item; empty if they cannot."""
    own = _SOURCES.get(item["type"], _ANY)
    if len([key for key in own if item.get(key) not in (None, "", [], {})]) > 1:
        return Reason.ARGUMENTS_UNDER_TWO_KEYS
    if inherits(item.values()):
        return Reason.INHERITED_KEY
    # What the provider ran comes with what came of it.
    return ambiguity(
        item, _MEMBERS.get(item["type"], _UNKNOWN), beside=_BESIDE if client_runs else None
    )


def ran(item: dict[str, Any]) -> bool:
    """Return whether the provider ran what a client could also run."""
    if item.get("type") == "tool_search_call":
        return item.get("execution") != "client"
    environment = item.get("environment")
    kind = environment.get("type") if isinstance(environment, dict) else None
    return item.get("type") == "shell_call" and kind not in (None, "local")


def _has_run(item: dict[str, Any]) -> bool:
    """Return whether what came of it is there, for an item of which the provider is known to run it."""
    known = item["type"] in _SOURCES or item["type"] in _RUN_BY_PROVIDER
    done = item.get("status") in ("completed", "failed")
    return known and (done or any(item.get(key) for key in _CAME_OF_IT))


def _read_ids(call: ItemCall, item: dict[str, Any]) -> None:
    key = "id" if call.type == "mcp_approval_request" else "call_id"
    name = item.get(key, item.get("id"))
    if isinstance(name, str):
        call.id = name
    elif call.type in CLIENT_RUNS and name is not None:
        call.odd = Reason.ID_NO_STRING
    if call.type in CALLS and not isinstance(item.get("call_id"), str):
        call.odd = Reason.NO_CALL_ID


def _read_names(call: ItemCall, item: dict[str, Any]) -> None:
    kind = call.type
    name, namespace, label = (item.get(key) for key in ("name", "namespace", "server_label"))
    if not all(isinstance(one, str | None) for one in (name, namespace, label)):
        call.odd = Reason.NAME_NO_STRING
    elif kind in CALLS:
        call.plain = str(name or "")
        if name:
            call.names = [policy_name(namespace, name)]
    elif kind in _MCP:
        if name and label:
            call.names = [mcp_name(label, name)]
    elif kind == "mcp_list_tools":
        _read_listed(call, item, str(label or ""))
    else:
        # A client that looks for a name alone would run what bears one.
        call.names = [_tool_of(kind), *([policy_name(namespace, name)] if name else [])]


def _read_listed(call: ItemCall, item: dict[str, Any], label: str) -> None:
    tools = dicts_in(item.get("tools"))
    call.listed = tuple(mcp_name(label, str(tool.get("name"))) for tool in tools)
    call.names = [f"mcp__{label}"]


def _tool_of(kind: str) -> str:
    """Return the tool of which an item of this type is a call or a result: `web_search` for its call."""
    for ending in _ENDINGS:
        if kind.endswith(ending):
            return kind.removesuffix(ending)
    return kind


def is_gone(call: ItemCall | None) -> bool:
    """Return whether an item does not go to the client."""
    return call is not None and not call.released


def arguments_of(item: dict[str, Any]) -> Any:
    """Return what a call is made with, under the key under which its type has it."""
    for key in _SOURCES.get(str(item.get("type")), _ANY):
        if item.get(key) not in (None, "", [], {}):
            wrapped = key in ("actions", "code")
            return {key: item[key]} if wrapped else item[key]
    return None


def agree(call: ItemCall, other: ItemCall) -> bool:
    """Return whether two forms of one item are the same call."""
    return (
        (call.type, call.id, call.names, call.plain)
        == (other.type, other.id, other.names, other.plain)
        and not (call.odd or other.odd)
        and same_arguments(call, call.arguments, other.arguments)
    )


def same_arguments(call: ItemCall, one: str, other: str) -> bool:
    """Return whether two texts are the same arguments."""
    return one == other or (call.kind != "custom" and canonical(one) == canonical(other))

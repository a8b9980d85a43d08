"""What in the history of a Responses request makes the provider act, or declares tools where none belong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NoReturn

from modegate.core.dialects.common.hosted import ELSEWHERE
from modegate.core.dialects.common.tool_filter import inner
from modegate.core.dialects.responses.request.parsing import CARRIES_TOOLS, Item, ResponsesRequest
from modegate.core.dialects.responses.request.tools import MCP, mcp_name
from modegate.core.errors import BadRequest
from modegate.core.ids import ToolName
from modegate.core.policy.in_force import ModesInForce
from modegate.core.wire.arguments import spelling

APPROVES = "mcp_approval_response"
ASKED = "mcp_approval_request"

PROGRAMS = ToolName("programmatic_tool_calling")
PROGRAM, PROGRAM_ENDED = "program", "program_output"

_APPROVAL_KEYS = frozenset({"type", "id", "approve", "approval_request_id", "reason"})
_DECLARE = ELSEWHERE | {"tools"}


def refuse(request: ResponsesRequest, in_force: ModesInForce) -> None:
    """Raise `BadRequest` for what cannot be taken out without asking for something else."""
    # Found once: a history may hold thousands of them, and of answers to them.
    asked = cache(lambda: _asked(request))
    for number, item in enumerate(request.items):
        _refuse_tools(number, item, in_force)
        if item.kind == APPROVES:
            _refuse_approval(request, number, item, in_force, asked)
    if not in_force.may_run(PROGRAMS) and (left := _unended(request)):
        raise BadRequest(
            f"the history holds a program of the model's ({min(left)!r}) that the provider would now go on "
            f"with, which mode {in_force.label!r} does not allow; leave it out, or allow the tool "
            f"{PROGRAMS!r} in policies.yaml"
        )


def _unended(request: ResponsesRequest) -> set[str]:
    """Return the programs that have begun, here or in what the provider holds, and not ended."""
    begun: set[str] = set()
    ended: set[str] = set()
    for item in request.items:
        if item.kind in (PROGRAM, PROGRAM_ENDED):
            call = request.member_of(item.span, "call_id")
            name = "" if call is None else str(request.decode(call))
            (begun if item.kind == PROGRAM else ended).add(name)
        elif "caller" in item.keys and item.kind.endswith("_output"):
            begun |= _caller(request, item)
    return begun - ended


def _caller(request: ResponsesRequest, item: Item) -> set[str]:
    span = request.member_of(item.span, "caller")
    caller = None if span is None else request.decode(span)
    if caller is None or caller == {"type": "direct"}:
        return set()
    return {str(inner(caller, "caller_id"))}


def _refuse_tools(number: int, item: Item, in_force: ModesInForce) -> None:
    for key in item.keys:
        if (key != "tools" or item.kind not in CARRIES_TOOLS) and spelling(key) in _DECLARE:
            raise BadRequest(
                f"input[{number}] declares tools in {key!r}; in mode {in_force.label!r} they must stand in "
                "the request's own 'tools' or in an 'additional_tools' item"
            )


def _refuse_approval(
    request: ResponsesRequest,
    number: int,
    item: Item,
    in_force: ModesInForce,
    asked: Callable[[], Mapping[str, Sequence[tuple[Any, Any]]]],
) -> None:
    """Let an agent approve a call of a remote MCP server only where it needs nobody's approval."""
    approve, which = (
        request.member_of(item.span, key) for key in ("approve", "approval_request_id")
    )
    declined = approve is not None and request.text(approve) == b"false"
    if in_force.may_run(MCP) or (declined and item.keys <= _APPROVAL_KEYS):
        return
    wanted = None if which is None else request.decode(which)
    found = asked().get(wanted, ()) if isinstance(wanted, str) else ()
    if len(found) == 1:
        label, called = found[0]
        name = mcp_name(str(label), str(called))
        if isinstance(label, str) and isinstance(called, str) and in_force.may_run(name):
            return
        _refuse(number, name, in_force)
    _refuse(number, MCP, in_force)


def _asked(request: ResponsesRequest) -> dict[str, list[tuple[Any, Any]]]:
    """Return the server's label and the tool's name of each approval that was asked for, by its id."""
    found: dict[str, list[tuple[Any, Any]]] = {}
    for item in request.items:
        if item.kind == ASKED:
            spans = (request.member_of(item.span, key) for key in ("id", "server_label", "name"))
            name, label, called = (None if span is None else request.decode(span) for span in spans)
            if isinstance(name, str):
                found.setdefault(name, []).append((label, called))
    return found


def _refuse(number: int, name: str, in_force: ModesInForce) -> NoReturn:
    raise BadRequest(
        f"input[{number}] lets the provider run a tool of an MCP server, which mode {in_force.label!r} does "
        f"not allow; decline it, or allow the tool {name!r} in policies.yaml"
    )

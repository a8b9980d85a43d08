"""What of uvicorn is used beyond its documented API, by name: a version without one of them is not let in."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap

import pytest
from uvicorn import Server as UvicornServer
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from modegate.server.process.http11 import Http11Protocol
from modegate.server.process.serving import Server

PROTOCOL = {
    "_should_upgrade",
    "_unset_keepalive_if_required",
    "connection_lost",
    "connection_made",
    "cycle",
    "flow",
    "handle_websocket_upgrade",
    "headers",
    "loop",
    "on_body",
    "on_header",
    "on_headers_complete",
    "on_message_begin",
    "on_message_complete",
    "on_response_complete",
    "parser",
    "pipeline",
    "scope",
    "send_400_response",
    "shutdown",
    "transport",
    "url",
}
SERVER = {"handle_exit", "on_tick", "server_state", "shutdown", "startup"}
INSIDE: dict[str, tuple[type, set[str]]] = {
    "cycle": (RequestResponseCycle, {"keep_alive", "response_complete", "response_started"}),
    "flow": (FlowControl, {"read_paused", "write_paused"}),
    "server_state": (ServerState, {"connections", "tasks"}),
}
"""What is used of objects that those attributes hold."""


def used(ours: type) -> set[str]:
    """Return what a class of ours takes from the one it extends, and `X.Y` for what it takes from its X."""
    own = set(vars(ours)) | set(ours.__annotations__)
    tree = ast.parse(textwrap.dedent(inspect.getsource(ours)))
    found: set[str] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute):
            continue
        match node.value:
            case ast.Name(id="self"):
                found |= {node.attr} - own
            case ast.Call(func=ast.Name(id="super")):
                found.add(node.attr)
            case ast.Attribute(value=ast.Name(id="self"), attr=held) if held in INSIDE:
                found.add(f"{held}.{node.attr}")
    made = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    return {name for name in found if name not in made - PROTOCOL} - {"__init__"}


@pytest.mark.parametrize(
    ("ours", "names"), [(Http11Protocol, PROTOCOL), (Server, SERVER)], ids=["protocol", "server"]
)
def test_nothing_else_of_uvicorn_is_used(ours: type, names: set[str]) -> None:
    inside = {
        f"{held}.{name}" for held, (_, more) in INSIDE.items() if held in names for name in more
    }
    assert used(ours) == names | inside


@pytest.mark.parametrize(
    ("theirs", "names"),
    [(HttpToolsProtocol, PROTOCOL), (UvicornServer, SERVER), *INSIDE.values()],
    ids=["protocol", "server", *INSIDE],
)
def test_uvicorn_has_it(theirs: type, names: set[str]) -> None:
    set_there = set(re.findall(r"self\.(\w+)\b", inspect.getsource(theirs)))
    assert names <= set(dir(theirs)) | set_there

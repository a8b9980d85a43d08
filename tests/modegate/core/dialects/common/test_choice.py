"""A choice of tools stays where all that it names stays, and is relaxed to `auto` otherwise."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.playbook import Session, request, said


def sent(body: dict[str, Any]) -> Any:
    return Session().step(body, [said()]).upstream


def named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def listed(*entries: Any, mode_: str = "required") -> dict[str, Any]:
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode_, "tools": list(entries)}}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        *((same, same) for same in ("auto", "none", "required", "any", "read", None)),
        *((same, same) for same in ({"type": "none"}, {"type": "auto"}, {"type": "any"})),
        *((same, same) for same in (named("read"), {"type": "custom", "custom": {"name": "read"}})),
        *((same, same) for same in ({"type": "custom", "name": "read"}, {"name": "read"})),
        (named("write"), "auto"),
        ({"type": "custom", "custom": {"name": "write"}}, "auto"),
        ({"type": "function", "name": "write"}, "auto"),
        ({"type": "function", "name": "read", "function": {"name": "write"}}, "auto"),
        ({"type": "mcp", "server_label": "x", "name": "read"}, "auto"),
        ({"type": "web_search_preview"}, "auto"),
        ({"type": "function"}, "auto"),
        ({}, "auto"),
        ("write", "auto"),
        (["write"], "auto"),
        (True, "auto"),
        (listed(named("read")), listed(named("read"))),
        (listed(named("write"), named("read")), listed(named("read"))),
        (listed(named("read"), {"type": "mcp"}, "write"), listed(named("read"))),
        (listed(named("write")), "auto"),
        (listed(), "auto"),
        ({"type": "allowed_tools"}, "auto"),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [named("write"), named("read")]},
            {"type": "allowed_tools", "mode": "auto", "tools": [named("read")]},
        ),
    ],
)
def test_a_choice_that_is_not_there_is_relaxed(choice: Any, expected: Any) -> None:
    assert sent(request("read", "write", tool_choice=choice))["tool_choice"] == expected


@pytest.mark.parametrize("choice", ["required", "any", named("read"), {"type": "web_search"}])
def test_a_choice_without_tools_forces_none(choice: Any) -> None:
    assert sent(request(tool_choice=choice))["tool_choice"] == "auto"


@pytest.mark.parametrize(
    "choice",
    [
        '{"type":"allowed_tools","allowed_tools":{"tools":[]},"allowed_tools":{"tools":[]}}',
        '{"type":"allowed_tools","allowed_tools":{"tools":[],"tools":[]}}',
        '{"type":"allowed_tools","allowed_tools":"read"}',
        '{"type":"allowed_tools","allowed_tools":{"tools":"read"}}',
    ],
)
def test_a_list_of_allowed_tools_that_cannot_be_read_is_refused(choice: str) -> None:
    body = json.dumps(request("read", tool_choice=0)).replace(
        '"tool_choice": 0', f'"tool_choice":{choice}'
    )
    got = Session().step(body.encode(), [said()])
    assert got.requests == []
    assert got.head is not None
    assert got.head.status == 400

"""A choice of tools keeps to what is left, and the rest of it stays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.messages import LEAVE, refused, request, rules, sent

AUTO = {"type": "auto"}
ONE = {"disable_parallel_tool_use": True}

# What the agent sends, and what the model gets where `read` stays and `write` goes.
CHOICES: dict[str, tuple[Any, Any]] = {
    "auto": ({"type": "auto"}, {"type": "auto"}),
    "auto, one call": ({"type": "auto", **ONE}, {"type": "auto", **ONE}),
    "none": ({"type": "none"}, {"type": "none"}),
    "any": ({"type": "any", **ONE}, {"type": "any", **ONE}),
    "a tool that stays": (
        {"type": "tool", "name": "read", **ONE},
        {"type": "tool", "name": "read", **ONE},
    ),
    "one that goes": ({"type": "tool", "name": "write"}, AUTO),
    "one that goes, one call": ({"type": "tool", "name": "write", **ONE}, {**AUTO, **ONE}),
    "two names": ({"type": "tool", "name": "read", "Name": "write"}, AUTO),
    "no name": ({"type": "tool"}, AUTO),
    "a type that nobody knows": ({"type": "server", "name": "write"}, AUTO),
    "text": ("write", AUTO),
    "null": (None, None),
}


@pytest.mark.parametrize(("choice", "expected"), CHOICES.values(), ids=CHOICES)
def test_a_choice(choice: Any, expected: Any) -> None:
    for policy_ in (rules("read"), LEAVE):
        got = sent(request("read", "write", tool_choice=choice), policy_)
        assert got["tool_choice"] == expected


def test_any_of_the_exit_tool_alone_is_none_at_all() -> None:
    got = sent(request("write", tool_choice={"type": "any", **ONE}), LEAVE)
    assert got["tool_choice"] == {**AUTO, **ONE}


def test_a_choice_without_tools_is_between_the_agent_and_the_api() -> None:
    body = request(tool_choice={"type": "any"})
    assert sent(body, LEAVE) == body


@pytest.mark.parametrize("key", ["type", "name", "disable_parallel_tool_use"])
def test_l4_a_key_that_stands_twice_is_refused(key: str) -> None:
    body = json.dumps(request("read", tool_choice={"type": "tool", "name": "read"}))
    twice = body.replace('"tool_choice": {', f'"tool_choice": {{"{key}": true, "{key}": false, ')
    assert "twice" in refused(twice.encode())


def test_no_choice_stays_none() -> None:
    assert "tool_choice" not in sent(request("read", "write"), LEAVE)

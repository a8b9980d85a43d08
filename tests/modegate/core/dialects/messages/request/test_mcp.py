"""MCP servers that the provider calls stay only where the policy allows all that they may be asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.policy.model import Policy
from support.messages import USER, names, request, rules, sent

ONLY = {"default_config": {"enabled": False}}


def server(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "url", "name": name, "url": f"https://{name}", **more}


def toolset(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "mcp_toolset", "mcp_server_name": name, **more}


def tools(**more: Any) -> dict[str, Any]:
    return {"tool_configuration": more}


EVERY = rules("read", "mcp")
FIND = rules("read", "mcp__docs__find", "mcp__docs__list")

# The server's entry, its toolset, and whether both stay where `find` and `list` are allowed.
KNOWN: dict[str, tuple[dict[str, Any], dict[str, Any] | None, bool]] = {
    "any tool": (server("docs"), None, False),
    "any tool of a toolset": (server("docs"), toolset("docs"), False),
    "one tool": (
        server("docs"),
        toolset("docs", **ONLY, configs={"find": {"enabled": True}}),
        True,
    ),
    "two": (server("docs"), toolset("docs", **ONLY, configs={"find": {}, "list": {}}), True),
    "one that is off": (
        server("docs"),
        toolset("docs", **ONLY, configs={"find": {}, "delete": {"enabled": False}}),
        True,
    ),
    "one that is not allowed": (
        server("docs"),
        toolset("docs", **ONLY, configs={"find": {}, "delete": {}}),
        False,
    ),
    "none": (server("docs"), toolset("docs", **ONLY), True),
    "configs that are no object": (
        server("docs"),
        toolset("docs", **ONLY, configs=["find"]),
        False,
    ),
    "all but one": (server("docs"), toolset("docs", configs={"delete": {"enabled": False}}), False),
    "a pinned list": (server("docs"), toolset("docs", tools=[{"name": "find"}]), True),
    "a pinned list with another": (
        server("docs"),
        toolset("docs", tools=[{"name": "find"}, {"name": "delete"}]),
        False,
    ),
    "a pinned list of no names": (server("docs"), toolset("docs", tools=["find"]), False),
    "the older list": (server("docs", **tools(allowed_tools=["find"])), None, True),
    "the older list with another": (
        server("docs", **tools(allowed_tools=["find", "x"])),
        None,
        False,
    ),
    "the older list without names": (server("docs", **tools(allowed_tools=None)), None, False),
    "off": (server("docs", **tools(enabled=False)), None, True),
    "both lists": (
        server("docs", **tools(allowed_tools=["x"])),
        toolset("docs", **ONLY, configs={"find": {}}),
        False,
    ),
    "another server's list": (server("docs"), toolset("other", **ONLY), False),
    "no name": ({"type": "url", "url": "https://docs"}, None, False),
    "a name that is no text": ({"type": "url", "name": 5, **tools(enabled=False)}, None, False),
}


@pytest.mark.parametrize(("entry", "its_tools", "stays"), KNOWN.values(), ids=KNOWN)
def test_a_server(entry: dict[str, Any], its_tools: dict[str, Any] | None, stays: bool) -> None:
    listed = ["read", its_tools] if its_tools else ["read"]
    body = request(*listed, mcp_servers=[entry])
    got = sent(body, FIND)
    assert ("mcp_servers" in got) is stays
    assert names(got) == (names(body) if stays else ["read"])
    assert sent(body, EVERY) == {**body, "system": "PLAN-SECTION"}


@pytest.mark.parametrize(
    ("key", "value"), [("name", '"docs"'), ("mcp_server_name", '"docs"'), ("enabled", "false")]
)
def test_l4_keys_that_stand_twice_say_nothing_for_sure(key: str, value: str) -> None:
    off = server("docs", **tools(enabled=False))
    listed = toolset("docs", **ONLY, configs={"find": {}})
    body = json.dumps(request("read", listed, mcp_servers=[off]))
    assert names(sent(body.encode(), FIND)) == ["read", "mcp_toolset"]
    twice = body.replace(f'"{key}": {value}', f'"{key}": {value}, "{key}": {value}')
    assert names(sent(twice.encode(), FIND)) == ["read"]


def test_of_several_some_stay() -> None:
    entries = [server("a"), server("docs", **tools(allowed_tools=["find"])), server("b")]
    got = sent(request("read", toolset("a"), mcp_servers=entries), FIND)
    assert got["mcp_servers"] == entries[1:2]
    assert names(got) == ["read"]


def test_of_two_by_one_name_both_must_be_known() -> None:
    entries = [
        server("docs", **tools(allowed_tools=["find"])),
        server("docs", **tools(allowed_tools=["x"])),
    ]
    assert "mcp_servers" not in sent(request("read", mcp_servers=entries), FIND)


def test_a_toolset_without_its_server_goes() -> None:
    body = request("read", toolset("docs", **ONLY, configs={"find": {}}))
    assert names(sent(body, FIND)) == ["read"]
    assert names(sent(body, EVERY)) == ["read", "mcp_toolset"]


@pytest.mark.parametrize("policy_", [FIND, rules("read")])
def test_without_servers_and_tools_nothing_is_left_to_choose(policy_: Policy) -> None:
    body = request(mcp_servers=[server("docs")], tool_choice={"type": "any"})
    assert sent(body, policy_) == request()


def test_changes_of_a_server_that_stays_stay() -> None:
    reference = {"type": "mcp_toolset_reference", "server_name": "docs"}
    messages = [USER, {"role": "system", "content": [{"type": "tool_removal", "tool": reference}]}]
    listed = toolset("docs", **ONLY, configs={"find": {}})
    body = request("read", listed, mcp_servers=[server("docs")], messages=messages)
    assert sent(body, FIND)["messages"] == messages


def test_the_list_of_its_tools_goes_with_a_server() -> None:
    """The API refuses a list without its server."""
    entries = [server("docs", **tools(allowed_tools=["find"])), server("b")]
    lists: list[Any] = [
        {"type": "mcp_tool_listing", "mcp_server_name": name, "tools": []} for name in ("docs", "b")
    ]
    said = {"type": "text", "text": "so"}
    messages = [USER, {"role": "assistant", "content": [*lists, said]}]
    got = sent(request("read", mcp_servers=entries, messages=messages), FIND)
    assert got["messages"] == [USER, {"role": "assistant", "content": [lists[0], said]}]

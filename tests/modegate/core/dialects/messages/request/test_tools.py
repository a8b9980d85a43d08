"""A definition declares every name in it, and what its type means."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.dialects.messages.request.parsing import MessagesRequest
from modegate.core.dialects.messages.request.tools import Tool, names_in_choice
from modegate.core.policy.conditions import Equals
from modegate.core.policy.model import Effect
from modegate.core.policy.when import When
from modegate.core.wire.json_spans import Span
from modegate.core.wire.request_body import RequestBody
from support.messages import names, request, rules, sent, tool
from support.playbook import rule


def read(definition: dict[str, Any] | str) -> Tool:
    text = definition if isinstance(definition, str) else json.dumps(definition)
    return MessagesRequest(RequestBody(b'{"messages":[],"tools":[%b]}' % text.encode())).tools[0]


# A definition, its names, and whether the provider runs it.
DECLARES: dict[str, tuple[dict[str, Any] | str, str, bool]] = {
    "plain": (tool("read", description="d", cache_control=None), "read", False),
    "custom": (tool("read", type="custom"), "read", False),
    "type null": (tool("read", type=None), "read", False),
    "type null beside another tool": (
        tool("read", type=None, codeExecution={}),
        "read codeExecution",
        True,
    ),
    "type null twice": ('{"type":null,"type":null,"name":"read"}', "read null", True),
    "all plain fields": (
        tool(
            "read",
            defer_loading=True,
            eager_input_streaming=True,
            allowed_callers=["direct"],
            input_examples=[],
            strict=True,
        ),
        "read",
        False,
    ),
    "chat's shape": ({"type": "function", "function": {"name": "read"}}, "read", False),
    "two names": ({"name": "read", "function": {"name": "write"}}, "read write", False),
    "name twice": ('{"name":"read","name":"write"}', "read write", False),
    "name in another case": ({"name": "read", "Name": "write"}, "read write", False),
    "escaped name": ('{"name":"re\\u0061d"}', "read", False),
    "a tool in an unknown field": (tool("read", googleSearch={}), "read googleSearch", True),
    "an unknown field that is off": (tool("read", beta=False), "read", False),
    "bash": ({"type": "bash_20250124", "name": "bash"}, "bash", False),
    "bash under another name": ({"type": "bash_20250124", "name": "read"}, "read bash", True),
    "old editor": (
        {"type": "text_editor_20250124", "name": "str_replace_editor"},
        "str_replace_editor",
        False,
    ),
    "editor": (
        {
            "type": "text_editor_20250728",
            "name": "str_replace_based_edit_tool",
            "max_characters": 9,
        },
        "str_replace_based_edit_tool",
        False,
    ),
    "editor of tomorrow": (
        {"type": "text_editor_20270101", "name": "edit"},
        "edit text_editor",
        True,
    ),
    "memory": ({"type": "memory_20250818", "name": "memory"}, "memory", False),
    "computer": (
        {
            "type": "computer_20251124",
            "name": "computer",
            "display_width_px": 9,
            "display_height_px": 9,
            "display_number": 1,
            "enable_zoom": True,
        },
        "computer",
        False,
    ),
    "browser": ({"type": "browser_toolset_20260801", "configs": {}}, "browser", False),
    "search": (
        {
            "type": "web_search_20250305",
            "name": "web_search",
            "max_uses": 5,
            "allowed_domains": ["a"],
            "blocked_domains": None,
            "user_location": {},
            "response_inclusion": "full",
        },
        "web_search",
        True,
    ),
    "fetch": (
        {
            "type": "web_fetch_20260318",
            "name": "web_fetch",
            "citations": {},
            "max_content_tokens": 9,
            "url_sources": {},
            "use_cache": True,
        },
        "web_fetch",
        True,
    ),
    "search as read": ({"type": "web_search_20250305", "name": "read"}, "read web_search", True),
    "code": ({"type": "code_execution_20260521", "name": "code_execution"}, "code_execution", True),
    "advisor": (
        {
            "type": "advisor_20260301",
            "name": "advisor",
            "model": "m",
            "max_tokens": 9,
            "caching": {},
        },
        "advisor",
        True,
    ),
    "tool search": (
        {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
        "tool_search_tool_regex",
        True,
    ),
    "tool search without its date": (
        {"type": "tool_search_tool_bm25", "name": "tool_search_tool_bm25"},
        "tool_search_tool_bm25",
        True,
    ),
    "toolset": (
        {"type": "mcp_toolset", "mcp_server_name": "s", "default_config": {}, "tools": []},
        "mcp",
        True,
    ),
    "a field of toolsets elsewhere": (
        {"type": "bash_20250124", "name": "bash", "tools": [{"name": "write"}]},
        "bash tools",
        True,
    ),
    "a type that nobody knows": ({"type": "read_20270101", "name": "read"}, "read", True),
    "two types": (
        '{"type":"custom","type":"web_search_20250305","name":"read"}',
        "web_search read",
        True,
    ),
    "a type that is no text": ({"type": 5, "name": "read"}, "5 read", True),
    "nothing": ({}, "", False),
    "a null name": ({"name": None}, "", False),
}


@pytest.mark.parametrize(("definition", "declares", "hosted"), DECLARES.values(), ids=DECLARES)
def test_a_definition(definition: dict[str, Any] | str, declares: str, hosted: bool) -> None:
    found = read(definition)
    assert set(found.names) == set(declares.split())
    assert found.hosted is hosted


@pytest.mark.parametrize(("definition", "declares", "_hosted"), DECLARES.values(), ids=DECLARES)
def test_b015_b017_it_is_kept_only_if_each_of_its_names_is_allowed(
    definition: dict[str, Any] | str, declares: str, _hosted: bool
) -> None:
    text = definition if isinstance(definition, str) else json.dumps(definition)
    body = json.dumps(request("zzz", "%")).replace(json.dumps(tool("%")), text).encode()
    wanted = set(declares.split())
    own = {*wanted, "mcp__s__*"}
    kept = json.loads(text) in sent(body, rules("zzz", *own))["tools"]
    assert kept is bool(wanted)
    for name in wanted:
        left = sent(body, rules("zzz", *own - {name, "mcp__s__*"}))
        assert names(left) == ["zzz"]


ASKED = rule("web_search", effect=Effect.ASK)
SOMETIMES = rule("web_search", When({"query": Equals("a")}))
NEVER_SOME = rule("web_search", When({"query": Equals("a")}), Effect.DENY)


@pytest.mark.parametrize("rule_", [ASKED, SOMETIMES, NEVER_SOME], ids=["ask", "when", "deny when"])
def test_l6_what_the_provider_runs_can_wait_for_nobody_and_its_arguments_are_not_seen(
    rule_: Any,
) -> None:
    hosted = {"type": "web_search_20250305", "name": "web_search"}
    policy_ = rules("read", rule_, *(["web_search"] if rule_ is NEVER_SOME else []))
    assert names(sent(request("read", hosted), policy_)) == ["read"]
    # A tool of the agent's own by that name passes the gate, and is shown.
    assert names(sent(request("read", "web_search"), policy_)) == ["read", "web_search"]


@pytest.mark.parametrize("name", ["DeferredToolPlaceholder", "__pi_deferred_placeholder__"])
def test_a_placeholder_stays_as_it_can_do_nothing(name: str) -> None:
    inert = tool(name, defer_loading=True)
    assert read(inert).placeholder
    assert sent(request("read", inert, "write"))["tools"] == [tool("read"), inert]
    # By itself it is no tool.
    assert "tools" not in sent(request(inert, "write"))


@pytest.mark.parametrize(
    "definition",
    [
        tool("DeferredToolPlaceholder"),
        tool("DeferredToolPlaceholder", defer_loading=False),
        tool("DeferredToolPlaceholder", defer_loading=True, type="web_search_20250305"),
        tool("DeferredToolPlaceholder", defer_loading=True, function={"name": "write"}),
        tool("deferredtoolplaceholder", defer_loading=True),
    ],
)
def test_what_only_looks_like_a_placeholder_does_not(definition: dict[str, Any]) -> None:
    assert names(sent(request("read", definition))) == ["read"]


def test_a_choice_names_tools_by_name_and_not_by_its_type() -> None:
    body = b'{"type":"tool","name":"read","disable_parallel_tool_use":true,"Name":"write"}'
    assert names_in_choice(body, Span(0, len(body))) == ("read", "write")

"""Every name that a server could take from a definition or a choice of the Responses API is found."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.dialects.responses.request.parsing import ResponsesRequest
from modegate.core.dialects.responses.request.tools import Tool, policy_name
from modegate.core.wire.request_body import RequestBody
from support.asked import function, namespace, server


def read(definition: str | dict[str, Any]) -> Tool:
    text = definition if isinstance(definition, str) else json.dumps(definition)
    return ResponsesRequest(RequestBody(b'{"tools":[%s]}' % text.encode())).tools[0]


@pytest.mark.parametrize(
    ("space", "name", "expected"),
    [
        (None, "read", "read"),
        ("", "read", "read"),
        ("functions", "read", "read"),
        ("functions", "functions__read", "functions__read"),
        ("fs", "read", "fs__read"),
        ("fs", "fs__read", "fs__read"),
        ("fs__", "read", "fs__read"),
        ("mcp__fs", "read", "mcp__fs__read"),
        ("mcp__fs", "mcp__fs__read", "mcp__fs__read"),
        # It begins with the name of the namespace and is another's all the same.
        ("mcp__fs", "mcp__fsx__write", "mcp__fs__mcp__fsx__write"),
        ("fs", "fsread", "fs__fsread"),
        ("Functions", "read", "Functions__read"),
    ],
)
def test_what_a_policy_calls_a_tool_in_a_namespace(
    space: str | None, name: str, expected: str
) -> None:
    assert policy_name(space, name) == expected


@pytest.mark.parametrize(
    ("definition", "names", "hosted"),
    [
        (function("read"), {"read"}, False),
        ({"type": "function", "function": {"name": "read"}}, {"read"}, False),
        ({"name": "read", "parameters": {}}, {"read"}, False),
        ({"type": "custom", "name": "read", "format": {}}, {"read"}, False),
        (function("read", defer_loading=True, output_schema={}), {"read"}, False),
        (function("read", allowed_callers=["programmatic"]), {"read"}, False),
        ('{"type":"function","name":"read","async":true}', {"read"}, False),
        # B015, B017: two names; another's field; a type that nobody knows
        ('{"type":"function","name":"read","function":{"name":"write"}}', {"read", "write"}, False),
        ('{"type":"function","name":"read","name":"write"}', {"read", "write"}, False),
        ('{"type":"function","name":"read","NAME":"write"}', {"read", "write"}, False),
        ('{"type":"custom","name":"read","tools":[]}', {"read", "tools"}, True),
        ('{"type":"FUNCTION","name":"read"}', {"FUNCTION", "read"}, True),
        ('{"type":"function","type":"web_search","name":"read"}', {"web_search", "read"}, True),
        (
            '{"type":"function","Type":"namespace","name":"a","tools":[]}',
            {"namespace", "a", "tools"},
            True,
        ),
        ('{"google_search":{}}', {"google_search"}, True),
        ('{"type":"local_shell","google_search":{}}', {"local_shell", "google_search"}, True),
        # B100: what runs at the provider, with its options
        ({"type": "web_search", "filters": {}, "search_context_size": "low"}, {"web_search"}, True),
        ({"type": "web_search_preview"}, {"web_search_preview"}, True),
        ({"type": "file_search", "vector_store_ids": ["vs"]}, {"file_search"}, True),
        ({"type": "code_interpreter", "container": {"type": "auto"}}, {"code_interpreter"}, True),
        ({"type": "image_generation", "model": "m", "size": "auto"}, {"image_generation"}, True),
        ({"type": "programmatic_tool_calling"}, {"programmatic_tool_calling"}, True),
        ({"type": "web_search", "tools": [{}]}, {"web_search", "tools"}, True),
        ({"type": "web_search", "name": "write"}, {"web_search", "write"}, True),
        ({"type": "bash_20250124", "name": "bash"}, {"bash_20250124", "bash"}, True),
        ({"type": "orq:anything"}, {"orq:anything"}, True),
        # what the agent runs though its type is not its own
        ({"type": "local_shell"}, {"local_shell"}, False),
        ({"type": "apply_patch"}, {"apply_patch"}, False),
        ({"type": "computer_use_preview", "display_width": 1}, {"computer_use_preview"}, False),
        ({"type": "shell", "environment": {"type": "local"}}, {"shell"}, False),
        ({"type": "shell", "environment": {"type": "container_auto"}}, {"shell"}, True),
        ({"type": "shell", "environment": "local"}, {"shell"}, True),
        ({"type": "shell"}, {"shell"}, True),
        (
            '{"type":"shell","environment":{"type":"local"},"environment":{"type":"container_auto"}}',
            {"shell"},
            True,
        ),
        (
            '{"type":"shell","environment":{"type":"local"},"Environment":{"type":"container_auto"}}',
            {"shell"},
            True,
        ),
        ({"type": "tool_search", "execution": "client", "parameters": {}}, {"tool_search"}, False),
        ({"type": "tool_search", "execution": "server"}, {"tool_search"}, True),
        ({"type": "tool_search"}, {"tool_search"}, True),
    ],
)
def test_every_name_in_a_definition_counts(
    definition: str | dict[str, Any], names: set[str], hosted: bool
) -> None:
    tool = read(definition)
    assert set(tool.names) == names
    assert tool.hosted == hosted
    assert tool.inner == ()


def inside(definition: str | dict[str, Any]) -> list[tuple[str, ...]]:
    return [tool.names for tool in read(definition).inner]


@pytest.mark.parametrize(
    ("definition", "found"),
    [
        (namespace("fs", "read", "write"), [("fs__read",), ("fs__write",)]),
        (namespace("functions", "read"), [("read",)]),
        (namespace("fs", {"type": "custom", "name": "patch"}), [("fs__patch",)]),
        (namespace("fs"), []),
        # Two names: both count.
        (
            namespace("fs", function("read", function={"name": "write"})),
            [("fs__read", "fs__write")],
        ),
        # What could be more than a tool of the agent's has no name that a policy could allow.
        (namespace("fs", namespace("inner", "read")), [()]),
        (namespace("fs", {"type": "web_search"}), [()]),
        (namespace("fs", server("docs", "search")), [()]),
        (namespace("fs", function("read", google_search={})), [()]),
        ({"type": "namespace", "name": "fs", "tools": ["read", None, 1]}, [(), (), ()]),
        (server("docs", "search", "fetch"), [("mcp__docs__search",), ("mcp__docs__fetch",)]),
        (
            server("docs", allowed_tools={"tool_names": ["a"], "read_only": True}),
            [("mcp__docs__a",)],
        ),
        (server("docs", allowed_tools={"read_only": True}), []),
        (server("docs", allowed_tools=["a", 1, "", None]), [("mcp__docs__a",), (), (), ()]),
        (server("docs", allowed_tools=["*", "a*", "?"]), [(), (), ()]),
        (server("docs", allowed_tools="a"), []),
        (server("docs", allowed_tools=None), []),
    ],
)
def test_what_holds_others_is_looked_into(
    definition: dict[str, Any], found: list[tuple[str, ...]]
) -> None:
    assert inside(definition) == found


@pytest.mark.parametrize(
    "definition",
    [
        '{"type":"namespace","tools":[{"type":"function","name":"read"}]}',
        '{"type":"namespace","name":"","tools":[{"type":"function","name":"read"}]}',
        '{"type":"namespace","name":null,"tools":[{"type":"function","name":"read"}]}',
        '{"type":"namespace","name":"fs","tools":{}}',
        '{"type":"namespace","name":"fs"}',
        '{"type":"namespace","name":"fs","tools":[],"tools":[{"type":"function","name":"read"}]}',
        '{"type":"namespace","name":"fs","name":"functions","tools":[{"type":"function","name":"read"}]}',
        '{"type":"namespace","name":"fs","Tools":[],"tools":[{"type":"function","name":"read"}]}',
        '{"type":"namespace","name":"fs","functions":[],"tools":[]}',
        '{"type":"mcp","server_url":"https://x","allowed_tools":["read"]}',
        '{"type":"mcp","server_label":1,"allowed_tools":["read"]}',
        '{"type":"mcp","server_label":"a","server_label":"b","allowed_tools":["read"]}',
        '{"type":"mcp","server_label":"a","allowed_tools":["read"],"Allowed_Tools":["write"]}',
        '{"type":"mcp","server_label":"a","allowed_tools":["read"],"tools":[]}',
    ],
)
def test_what_could_be_read_in_two_ways_has_no_name(definition: str) -> None:
    tool = read(definition)
    assert tool.names == ()
    assert tool.inner == ()


@pytest.mark.parametrize(
    "definition",
    [
        '{"type":"mcp","server_label":"a","allowed_tools":{"tool_names":["a"],"tool_names":["b"]}}',
        '{"type":"mcp","server_label":"a","allowed_tools":{"tool_names":["a"],"more":["b"]}}',
    ],
)
def test_a_list_that_could_be_read_in_two_ways_is_none(definition: str) -> None:
    """Then only a rule for all servers keeps it."""
    tool = read(definition)
    assert tool.names == ("mcp",)
    assert tool.inner == ()

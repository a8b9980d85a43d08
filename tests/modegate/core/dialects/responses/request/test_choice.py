"""Every name in a choice of tools of the Responses API is found."""

from __future__ import annotations

import json
from typing import Any

import pytest

from modegate.core.dialects.responses.request.edit import choice_names
from modegate.core.wire.json_spans import Span


def chosen(choice: str | dict[str, Any], *open_labels: str) -> set[str]:
    text = (choice if isinstance(choice, str) else json.dumps(choice)).encode()
    return set(choice_names(text, Span(0, len(text)), frozenset(open_labels)))


@pytest.mark.parametrize(
    ("choice", "found"),
    [
        ({"type": "function", "name": "read"}, {"read"}),
        ({"type": "custom", "name": "read"}, {"read"}),
        ({"name": "read"}, {"read"}),
        ({"type": "function", "function": {"name": "read"}}, {"read", "function"}),
        ({"type": "function", "namespace": "fs", "name": "read"}, {"fs__read"}),
        ({"type": "function", "namespace": None, "name": "read"}, {"read"}),
        ({"type": "namespace", "name": "fs"}, {"namespace:fs"}),
        ({"type": "mcp", "server_label": "docs"}, {"mcp:docs"}),
        ({"type": "mcp", "server_label": "docs", "name": None}, {"mcp:docs"}),
        ({"type": "mcp", "server_label": "docs", "name": "a"}, {"mcp:docs", "mcp__docs__a"}),
        ({"type": "mcp", "server_label": "all", "name": "a"}, {"mcp:all"}),
        ({"type": "web_search_preview"}, {"web_search_preview"}),
        ({"type": "shell", "name": "x"}, {"shell", "x"}),
        ({"type": "mcp"}, {"mcp"}),
        ({"type": "namespace"}, {"namespace"}),
        ({"type": "function"}, {"function"}),
        ({}, {"function"}),
        ('{"type":"function","name":"read","name":"write"}', {"read", "write"}),
        ('{"type":"function","type":"custom","name":"read"}', {"read"}),
        ('{"type":"function","type":"shell","name":"read"}', {"read", "shell"}),
        ('{"type":"function","name":["read"]}', {'["read"]'}),
        ('{"type":"function","name":"read","Name":"write"}', {"read", "write"}),
        ('{"type":"function","name":"read","more":[]}', {"read", "more"}),
        (
            '{"type":"mcp","server_label":"docs","server_label":"x","name":"a"}',
            {"mcp:docs", "mcp:x", "mcp__docs__a", "mcp__x__a"},
        ),
    ],
)
def test_every_name_in_a_choice_counts(choice: str | dict[str, Any], found: set[str]) -> None:
    assert chosen(choice, "all") == found

"""Every name that some server could take from a tool definition is found."""

from __future__ import annotations

import json

import pytest

from modegate.core.dialects.common.tools import tool_names
from modegate.core.wire.json_spans import Span
from support.playbook import tool


def names(definition: str) -> tuple[str, ...]:
    body = definition.encode()
    return tool_names(body, Span(0, len(body)))


@pytest.mark.parametrize(
    ("definition", "found"),
    [
        ('{"type":"function","function":{"name":"read"}}', {"read"}),
        ('{"type":"function","name":"read"}', {"read"}),
        ('{"name":"read","input_schema":{}}', {"read"}),
        ('{"name":"read","parameters":{}}', {"read"}),
        ('{"type":"custom","custom":{"name":"read","format":{}}}', {"read"}),
        ('{"type":"custom","name":"read"}', {"read"}),
        ('{"type":"function","custom":null,"function":{"name":"read"},"name":null}', {"read"}),
        (
            '{"type":"function","function":{"name":"read"},"cache_control":{},"strict":true}',
            {"read"},
        ),
        # B015: two names, of which a server may take either
        ('{"type":"function","name":"read","function":{"name":"write"}}', {"read", "write"}),
        ('{"name":"read","function":{"name":"write"},"input_schema":{}}', {"read", "write"}),
        (
            '{"type":"function","function":{"name":"read"},"function":{"name":"write"}}',
            {"read", "write"},
        ),
        ('{"function":{"name":"read","name":"write"}}', {"read", "write"}),
        ('{"function":{"name":"read"},"custom":{"name":"write"}}', {"read", "write"}),
        ('{"function":{"name":"read"},"Function":{"name":"write"}}', {"read", "write"}),
        ('{"function":{"name":"read","NAME":"write"}}', {"read", "write"}),
        ('{"function":{"name":"read"},"\\u006eame":"write"}', {"read", "write"}),
        ('{"function":{"name":"read"},"f\\u0075nction":{"name":"wr\\u0069te"}}', {"read", "write"}),
        ('{"name":"read","function":"write"}', {"read", "write"}),
        # B017, B100: what the provider runs is known by its type
        ('{"type":"web_search"}', {"web_search"}),
        ('{"type":"mcp","server_label":"x"}', {"mcp", "server_label"}),
        ('{"type":"bash_20250124","name":"bash"}', {"bash_20250124", "bash"}),
        (
            '{"type":"function","type":"web_search","function":{"name":"read"}}',
            {"web_search", "read"},
        ),
        ('{"type":"FUNCTION","function":{"name":"read"}}', {"FUNCTION", "read"}),
        ('{"type":null,"function":{"name":"read"}}', {"null", "read"}),
        ('{"type":["function"],"function":{"name":"read"}}', {'["function"]', "read"}),
        (
            '{"type":"builtin_function","function":{"name":"$web_search"}}',
            {"builtin_function", "$web_search"},
        ),
        # what hides others inside, or beside the agent's own
        (
            '{"type":"namespace","name":"ns","tools":[{"name":"write"}]}',
            {"namespace", "ns", "tools"},
        ),
        ('{"google_search":{}}', {"google_search"}),
        ('{"functionDeclarations":[{"name":"write"}]}', {"functionDeclarations"}),
        ('{"function":{"name":"read"},"codeExecution":{}}', {"read", "codeExecution"}),
        ('{"function":{"name":"read"},"codeExecution":null,"x":false}', {"read"}),
        # S7: what agents and gateways add declares nothing; what could be a second name or tool does
        *(
            (f'{{"type":"function","function":{{"name":"read"}},{more}}}', {"read"})
            for more in (
                '"version":"1.0"',
                '"version":{"major":1}',
                '"index":0',
                '"_meta":{"a":1}',
                '"strict":true',
                '"x-source":"github"',
                '"priority":-1',
                '"displayName":"Read"',
                '"category":"files","cost":0.5',
            )
        ),
        *(
            (f'{{"type":"function","function":{{"name":"read"}},{more}}}', {"read", name})
            for more, name in (
                ('"toolName":"write"', "toolName"),
                ('"function_name":"write"', "function_name"),
                ('"googleSearch":"on"', "googleSearch"),
                ('"web_search":true', "web_search"),
                ('"server_url":"https://x"', "server_url"),
                ('"x":{"name":"write"}', "x"),
                ('"x":[1]', "x"),
                ('"x":true', "x"),
            )
        ),
        ('{"name":"read","input_schema":{},"version":2,"_meta":{}}', {"read"}),
        # not a name that a policy could hold
        ('{"function":{"name":["write"]}}', {'["write"]'}),
        ('{"function":{"name":{"a":"write"}}}', {'{"a":"write"}'}),
        ('{"function":{"name":null}}', set()),
        ('{"function":{}}', set()),
        ("{}", set()),
    ],
)
def test_every_name_in_a_definition_counts(definition: str, found: set[str]) -> None:
    assert set(names(definition)) == found


@pytest.mark.parametrize(
    "name",
    [
        "Read",
        " read",
        "read\n",
        "functions.read",
        "read\u200b",
        "ｒｅａｄ",
        "read",
        "rea\ud83d\ude00",
    ],
)
def test_b019_a_name_is_its_code_points(name: str) -> None:
    spelled = name.encode("utf-16", "surrogatepass").decode("utf-16")
    assert names(json.dumps(tool(name))) == (spelled,)

"""The members of a call: what could be a second source of its name or its arguments."""

from __future__ import annotations

from typing import Any

import pytest

from modegate.core.dialects.common.call_members import (
    MAX_INDEX,
    ambiguity,
    inherits,
    is_index,
    misspelt,
)

OWN = frozenset({"type", "name", "arguments"})


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, ""),
        ({"name": "a", "arguments": {"x": [1]}}, ""),
        ({"status": "completed", "weight": 0.5, "note": None}, ""),
        ({"input": None, "args": {}, "parameters": [], "tool": ""}, ""),
        ({"extra_content": {"google": {"thought_signature": "s"}}}, ""),
        ({"input": "x"}, "could be another call"),
        ({"toolName": "x"}, "could be another call"),
        ({"function": {"name": "x"}}, "could be another call"),
        ({"code": 0}, "could be another call"),
        ({"Arguments": None}, "read as another one"),
        ({"NAME": ""}, "read as another one"),
        ({"argument\u017f": 1}, "read as another one"),
        ({"arg-uments": 1}, "read as another one"),
        ({"__proto__": None}, "read as another one"),
        ({"constructor": 1}, "read as another one"),
        ({"thing": {"a": 1}}, "unknown member"),
        ({"things": [1]}, "unknown member"),
    ],
)
def test_a_second_source(more: dict[str, Any], why: str) -> None:
    said = ambiguity({"type": "function", **more}, OWN)
    assert bool(said) is bool(why)
    assert why in said


def test_what_may_be_an_object() -> None:
    """Beside a call, a few; beside what the provider ran, all."""
    thing = {"thing": {"a": 1}}
    assert ambiguity(thing, OWN, beside=frozenset({"thing"})) == ""
    assert ambiguity(thing, OWN, beside=None) == ""
    assert ambiguity({"input": {"a": 1}}, OWN, beside=None)


def test_a_key_in_another_spelling() -> None:
    assert misspelt(["name", "type", "other"], OWN) == ""
    assert misspelt(["other", "Type"], OWN) == "Type"
    assert misspelt(["__proto__"], frozenset()) == "__proto__"


def test_what_inherits() -> None:
    deep: Any = {"prototype": 1}
    assert inherits([deep])
    for _ in range(5000):
        deep = [{"a": deep}]
    assert inherits([deep])
    assert not inherits([{"proto": ["__proto__"]}, "__proto__", None])


@pytest.mark.parametrize("value", [-1, MAX_INDEX + 1, 0.0, True, "0", None, [0]])
def test_what_is_no_index(value: Any) -> None:
    assert not is_index(value)
    assert is_index(0)
    assert is_index(MAX_INDEX)

"""What the scripted model's dialects share."""

from __future__ import annotations

from typing import Any

import pytest

from modegate.core.errors import BadRequest
from modegate.scripted.model import ScriptedCall, Turn
from modegate.scripted.parts import (
    dicts,
    event,
    fragments,
    key_of,
    pieces,
    request_of,
    spent,
    text_of,
    usage_words,
)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_what_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest, match="the scripted model cannot read"):
        request_of(body)


def test_a_request_is_an_object() -> None:
    assert request_of(b'{"a":1}') == {"a": 1}


def test_equal_bodies_have_equal_keys() -> None:
    assert key_of(b"a") == key_of(b"a") != key_of(b"b")


@pytest.mark.parametrize(
    ("value", "expected"), [(None, []), ({"a": 1}, []), ([1, {"a": 1}, "x"], [{"a": 1}])]
)
def test_objects_of_a_list(value: Any, expected: list[Any]) -> None:
    assert dicts(value) == expected


@pytest.mark.parametrize(
    ("content", "text"),
    [("a", "a"), (None, ""), ([{"text": "a"}, {"type": "image"}, {"text": "b"}], "a\nb")],
)
def test_the_text_of_content(content: Any, text: str) -> None:
    assert text_of(content) == text


@pytest.mark.parametrize(("text", "size", "expected"), [("abc", 2, ["ab", "c"]), ("", 0, [])])
def test_pieces(text: str, size: int, expected: list[str]) -> None:
    assert pieces(text, size) == expected


@pytest.mark.parametrize(
    ("count", "expected"), [(1, ["abc"]), (2, ["ab", "c"]), (9, ["a", "b", "c"])]
)
def test_fragments(count: int, expected: list[str]) -> None:
    assert fragments("abc", count) == expected


def test_an_event_is_named_by_its_type() -> None:
    assert event({"type": "ping"}) == b'event: ping\ndata: {"type":"ping"}\n\n'


def test_tokens_are_estimated() -> None:
    assert spent(Turn("a" * 8, "b" * 4, (ScriptedCall("c", "{}  "),)), 41) == (10, 5)


def test_usage_in_a_dialects_words() -> None:
    assert usage_words(Turn(), {}) is None
    assert usage_words(Turn(usage={"a": 1, "b": 2}), {"a": "x"}) == {"x": 1, "b": 2}

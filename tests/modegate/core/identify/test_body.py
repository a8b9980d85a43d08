"""What is read of a body: a few fields and the user's first words, in each dialect, and never an error."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.errors import DialectName
from modegate.core.identify.body import BodyFields, body_fields
from modegate.core.wire.request_body import RequestBody
from support.dialect_facts import api

HI = {"role": "user", "content": "hi"}
PARTS = [{"type": "image"}, {"type": "text", "text": "fix"}, {"type": "text", "text": "it"}, 1]
INPUT = [{**part, "type": "input_text"} for part in PARTS if isinstance(part, dict)]
DEVELOPER = {"role": "developer", "content": "x"}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(b'{"messages": [{"role": "user", "content": "hi"}]}', "hi", id="text"),
        pytest.param(b'{"messages": [{"role": "system", "content": "x"}]}', "", id="no-user"),
        pytest.param(b'{"messages": {"role": "user"}}', "", id="not-a-list"),
        pytest.param(b'{"messages": [1, null, {"role": "user"}]}', "", id="no-content"),
        pytest.param(
            b'{"messages": [{"role": "user", "content": [1, {"type": "image_url"}, {"text": 2}]}]}',
            "",
            id="no-text",
        ),
        pytest.param(b"{}", "", id="no-messages"),
        pytest.param(
            b'{"messages": [{"role": "user", "content": "hi"}, {"role": "tool", "content": "\\ud83d"}]}',
            "hi",
            id="half-a-surrogate-pair",
        ),
        pytest.param(
            b'{"temperature": NaN, "messages": [{"role": "user", "content": "hi"}]}', "hi", id="nan"
        ),
    ],
)
def test_a_readable_body(body: bytes, text: str) -> None:
    fields = body_fields(RequestBody(body))
    assert (fields.first_user_text, fields.unread) == (text, "")


@pytest.mark.parametrize(
    ("dialect", "body", "text"),
    [
        pytest.param("responses", {"input": "hi"}, "hi", id="responses-text"),
        pytest.param("responses", {"input": '"hi"'}, "hi", id="responses-quoted"),
        pytest.param("responses", {"input": [DEVELOPER, HI]}, "hi", id="responses-items"),
        pytest.param(
            "responses",
            {
                "input": [
                    {"type": "additional_tools", "role": "developer", "tools": []},
                    {"type": "message", "role": "user", "content": INPUT},
                ]
            },
            "fix\nit",
            id="responses-parts",
        ),
        pytest.param(
            "responses",
            {"input": [{"type": "function_call_output", "output": "o"}], "messages": [HI]},
            "",
            id="responses-continued",
        ),
        pytest.param("responses", {"instructions": "x"}, "", id="responses-none"),
        pytest.param("messages", {"system": "x", "messages": [HI]}, "hi", id="messages-text"),
        pytest.param(
            "messages", {"messages": [{"role": "user", "content": PARTS}]}, "fix\nit", id="blocks"
        ),
        pytest.param(
            "messages",
            {"messages": [{"role": "system", "content": "x"}, HI], "input": "other"},
            "hi",
            id="messages-system-in-the-history",
        ),
    ],
)
@pytest.mark.parametrize("odd", [False, True], ids=["", "with-half-a-pair"])
def test_the_first_words_of_the_user_in_each_dialect(
    dialect: DialectName, body: dict[str, Any], text: str, odd: bool
) -> None:
    more = {"x": "\ud83d", "user": "\ud83d"} if odd else {}
    fields = body_fields(
        RequestBody(json.dumps({**body, **more}).encode()),
        frozenset({"user"}),
        api(dialect).history,
    )
    assert fields == BodyFields({"user": "\ud83d"} if odd else {}, text)


def test_a_reminder_that_is_not_closed_is_text() -> None:
    text = "a <system-reminder> b" * 1000
    body = {"messages": [{"role": "user", "content": text}]}
    assert body_fields(RequestBody(json.dumps(body).encode())).first_user_text == text


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b'{"messages": [',
        b'{"metadata": "\xff"}',
        b'{"a": ' + b"[" * 100_000 + b"}",
        b"\x28\xb5\x2f\xfd",
        b'{"n": ' + b"1" * 5_000 + b', "messages": NaN}',
    ],
    ids=["empty", "list", "null", "cut", "utf-8", "deep", "zstd", "long-number"],
)
def test_an_unreadable_body_is_told_by_its_hash(body: bytes) -> None:
    assert body_fields(RequestBody(body)) == BodyFields(unread=sha256(body).hexdigest())


def test_only_the_fields_that_a_source_names_are_decoded() -> None:
    body = (
        b'{"metadata": {"a": 1}, "prompt_cache_key": "k", "previous_response_id": "r", '
        b'"client_metadata": {}, "user": "u", "tools": []}'
    )
    assert body_fields(RequestBody(body)).top == {
        "metadata": {"a": 1},
        "prompt_cache_key": "k",
        "previous_response_id": "r",
        "client_metadata": {},
    }
    assert body_fields(RequestBody(body), frozenset({"user"})).top == {"user": "u"}


_items: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "text"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from(["messages", "input", "metadata"]), _items),
    st.sampled_from(["chat", "responses", "messages"]),
)
def test_anything_is_read_in_either_way_alike(body: dict[str, Any], dialect: DialectName) -> None:
    plain = body_fields(
        RequestBody(json.dumps(body).encode()), frozenset({"x"}), api(dialect).history
    )
    odd = body_fields(
        RequestBody(json.dumps({**body, "y": "\ud83d"}).encode()),
        frozenset({"x"}),
        api(dialect).history,
    )
    assert (plain.first_user_text, plain.unread) == (odd.first_user_text, "")

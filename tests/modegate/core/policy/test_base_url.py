"""The table of `modegate.core.policy.upstreams.Base`, and what cannot be a base URL or a target."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.errors import BadRequest
from modegate.core.policy.upstreams import Base


@pytest.mark.parametrize(
    ("base", "target", "expected"),
    [
        ("https://h/v1", "/v1/chat/completions", "/v1/chat/completions"),
        ("https://h/v1", "/chat/completions", "/v1/chat/completions"),
        ("https://h/v1", "//v1/messages", "/v1//v1/messages"),
        ("https://h/v1", "/v10/x", "/v1/v10/x"),
        ("https://h/v1", "/v1", "/v1"),
        ("https://h/v1", "/v1?a=b", "/v1?a=b"),
        ("https://h/v1", "/v1/", "/v1/"),
        ("https://h/v1", "/v1/v1/x", "/v1/v1/x"),
        ("https://h/v1/", "/v1/chat/completions", "/v1/chat/completions"),
        ("https://h/v1/", "/chat/completions", "/v1/chat/completions"),
        ("https://h/v1/", "//v1/messages", "/v1//v1/messages"),
        ("https://h/v1/", "/v10/x", "/v1/v10/x"),
        ("https://h/api/v1", "/v1/chat/completions", "/api/v1/chat/completions"),
        ("https://h/api/v1", "/chat/completions", "/api/v1/chat/completions"),
        ("https://h/api/v1", "//v1/messages", "/api/v1//v1/messages"),
        ("https://h/api/v1", "/v10/x", "/api/v1/v10/x"),
        ("https://h/api/xv1", "/v1/x", "/api/xv1/v1/x"),
        ("https://h", "/v1/chat/completions", "/v1/chat/completions"),
        ("https://h", "/chat/completions", "/chat/completions"),
        ("https://h", "//v1/messages", "//v1/messages"),
        ("https://h", "/v10/x", "/v10/x"),
        ("https://h/", "/", "/"),
        ("https://h/api/v4", "/v1/chat/completions", "/api/v4/chat/completions"),
        ("https://h/v1beta", "/v1/models", "/v1beta/models"),
        ("https://h/v1beta/openai", "/v1/models", "/v1beta/openai/v1/models"),
        ("https://h/v1x", "/v1/models", "/v1x/v1/models"),
    ],
)
def test_b122_base_and_path_are_joined_by_the_table(base: str, target: str, expected: str) -> None:
    assert Base.parse(base).join(target.encode()) == expected


@pytest.mark.parametrize(
    ("base", "target", "expected"),
    [
        ("https://h/x", "/v1/chat/completions", "/x/chat/completions"),
        ("https://h/x", "/chat/completions", "/x/chat/completions"),
        ("https://h/x", "/v10/y", "/x/v10/y"),
        ("https://h/v1/acme/gw/openai", "/v1/models", "/v1/acme/gw/openai/models"),
        ("https://h", "/v1/chat/completions?a", "/chat/completions?a"),
        ("https://h", "/v1", "/"),
        ("https://h", "/v1?a", "/?a"),
        ("https://h/v1", "/v1/v1", "/v1/v1"),
    ],
)
def test_v1_is_dropped_where_that_is_asked_for(base: str, target: str, expected: str) -> None:
    assert Base.parse(base, strip_v1=True).join(target.encode()) == expected


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/v1/x", "/v1/x?api-version=2024-10-21&a%20b=c%26d"),
        ("/v1/x?", "/v1/x?&api-version=2024-10-21&a%20b=c%26d"),
        ("/v1/x?api-version=1", "/v1/x?api-version=1&a%20b=c%26d"),
        ("/v1/x?my-api-version=1", "/v1/x?my-api-version=1&api-version=2024-10-21&a%20b=c%26d"),
        ("/v1/x?b=%zz&a%20b=", "/v1/x?b=%zz&a%20b=&api-version=2024-10-21"),
    ],
)
def test_parameters_are_added_that_the_client_did_not_give(target: str, expected: str) -> None:
    query = (("api-version", "2024-10-21"), ("a b", "c&d"))
    assert Base.parse("https://h", query=query).join(target.encode()) == expected


DOCS = (Path(__file__).parents[4] / "docs" / "policies.md").read_text(encoding="utf-8")
ROWS = re.findall(r"(?m)^\| `(https?://[^`]+)`([^|]*) \| `(/[^`]*)` \| `(/[^`]*)` \|$", DOCS)


@pytest.mark.parametrize(("url", "more", "target", "expected"), ROWS)
def test_the_documented_table_holds(url: str, more: str, target: str, expected: str) -> None:
    query = tuple((name, value) for name, value in re.findall(r"`([\w-]+)=([\w-]+)`", more))
    base = Base.parse(url, strip_v1="`strip_v1`" in more, query=query)
    assert base.join(target.encode()) == expected


def test_the_documented_table_is_found() -> None:
    assert len(ROWS) == 12


@pytest.mark.parametrize(
    "target",
    [
        "/v1/models/a%2Fb%2fc",
        "/v1/chat/completions?api-version=2024-10-21&x=a%20b&x=c+d&empty=",
        "/v1/messages?beta=true",
        "/v1/models?",
        "/v1/a/../b/./c",
        "/v1/é?é=%zz",
    ],
)
def test_b121_path_and_query_keep_their_bytes(target: str) -> None:
    assert Base.parse("https://h/v1").join(target.encode()) == target


@given(
    st.text(st.characters(min_codepoint=0x21, exclude_categories=["Cs"], exclude_characters="\x7f"))
)
def test_b122_without_v1_in_the_base_nothing_is_dropped(rest: str) -> None:
    assert Base.parse("http://h:1/x").join(b"/" + rest.encode()) == f"/x/{rest}"


@pytest.mark.parametrize(
    "target", [b"*", b"", b"http://other/v1/x", b"/a b", b"/a\r\nHost: x", b"/\xff", b"/\x00"]
)
def test_a_target_that_is_no_path_is_refused(target: bytes) -> None:
    with pytest.raises(BadRequest):
        Base.parse("http://h").join(target)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "h/v1",
        "ftp://h",
        "http://",
        "https://h?key=1",
        "https://h/#x",
        "http://h/a b",
        "http://h:x",
    ],
)
def test_what_is_no_base_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"base URL|[Pp]ort"):
        Base.parse(url)


def test_a_password_in_the_base_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(ValueError, match="no user or password") as caught:
        Base.parse("https://user:geheim@h/v1")
    assert "geheim" not in str(caught.value)


def test_the_authority_is_kept_for_error_messages() -> None:
    assert Base.parse("http://[::1]:8080/v1").authority == "[::1]:8080"

"""Only end-to-end lines pass; lines are read and changed without touching the others."""

from __future__ import annotations

import pytest

from modegate.core.wire.headers import (
    HOP_BY_HOP,
    end_to_end,
    get_all,
    get_one,
    is_upgrade,
    replace,
    request_headers,
)


def test_order_duplicates_and_values_are_kept_and_names_are_lowered() -> None:
    """B109: duplicates stay, in order."""
    lines = [(b"Set-Cookie", b"a=1"), (b"X-A", b"1"), (b"set-cookie", b"b=2 "), (b"X-A", b"1")]
    assert end_to_end(lines) == [
        (b"set-cookie", b"a=1"),
        (b"x-a", b"1"),
        (b"set-cookie", b"b=2 "),
        (b"x-a", b"1"),
    ]


@pytest.mark.parametrize("name", sorted(HOP_BY_HOP), ids=lambda name: name.decode())
def test_b108_hop_by_hop_lines_are_removed(name: bytes) -> None:
    assert end_to_end([(name.title(), b"x"), (b"a", b"b")]) == [(b"a", b"b")]


def test_b108_lines_named_in_connection_are_removed() -> None:
    lines = [(b"Connection", b"close, X-Mine"), (b"x-mine", b"1"), (b"x-kept", b"2")]
    assert end_to_end(lines) == [(b"x-kept", b"2")]


def test_connection_cannot_remove_what_a_message_needs() -> None:
    lines = [(b"connection", b"Content-Length, authorization"), (b"content-length", b"3")]
    assert end_to_end(lines) == [(b"content-length", b"3")]


def test_a_request_loses_host_expect_and_what_is_for_modegate() -> None:
    lines = [
        (b"host", b"127.0.0.1:8484"),
        (b"authorization", b"Bearer x"),
        (b"x-modegate-session", b"s1"),
        (b"expect", b"100-continue"),
        (b"x-modegate-anything", b"1"),
        (b"connection", b"keep-alive"),
        (b"content-length", b"3"),
    ]
    kept = [(b"authorization", b"Bearer x"), (b"content-length", b"3")]
    assert request_headers(lines) == kept
    assert request_headers(lines, content_length=False) == kept[:1]


def test_values_are_read_in_order_and_combined() -> None:
    """A second `content-encoding` line continues the first: RFC 9110 section 5.3."""
    lines = [(b"content-encoding", b"gzip"), (b"a", b""), (b"content-encoding", b"br")]
    assert get_all(lines, b"content-encoding") == [b"gzip", b"br"]
    assert get_one(lines, b"content-encoding") == b"gzip, br"
    assert get_one(lines, b"a") == b""
    assert get_one(lines, b"b") is None


@pytest.mark.parametrize(
    ("name", "value", "changed"),
    [
        pytest.param(b"a", b"9", [(b"a", b"9"), (b"b", b"2")], id="first-place-and-only-once"),
        pytest.param(b"a", None, [(b"b", b"2")], id="removed"),
        pytest.param(
            b"c", b"9", [(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", b"9")], id="new"
        ),
        pytest.param(b"c", None, [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")], id="not-there"),
    ],
)
def test_a_value_is_replaced(
    name: bytes, value: bytes | None, changed: list[tuple[bytes, bytes]]
) -> None:
    lines = [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]
    assert replace(lines, name, value) == changed
    assert lines == [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]


@pytest.mark.parametrize(
    ("lines", "asked"),
    [
        pytest.param([(b"connection", b"Upgrade"), (b"upgrade", b"websocket")], True, id="codex"),
        pytest.param([(b"upgrade", b"h2c, WebSocket")], True, id="in-a-list"),
        pytest.param([(b"connection", b"Upgrade"), (b"upgrade", b"h2c")], False, id="http2"),
        pytest.param([(b"connection", b"keep-alive")], False, id="none"),
    ],
)
def test_b118_only_a_websocket_counts_as_an_upgrade(
    lines: list[tuple[bytes, bytes]], asked: bool
) -> None:
    assert is_upgrade(lines) is asked

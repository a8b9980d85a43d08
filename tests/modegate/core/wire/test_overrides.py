"""A request is what its first line says it is."""

from __future__ import annotations

import pytest

from modegate.core.wire.overrides import override

PATH = b"/s/x/v1/models"


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b"x-http-method-override", b"POST"),
        (b"x-http-method", b"post"),
        (b"x-method-override", b" POST "),
        (b"x_http_method_override", b"POST"),
        (b"x-original-method", b"POST"),
        (b"x-http-method-override", b""),
        (b"x-http-method-override", b"GET, POST"),
        (b"x-original-url", b"/v1/chat/completions"),
        (b"x-rewrite-url", b"/v1/chat/completions?x"),
        (b"x_original_uri", b"http://h/v1/chat/completions"),
        (b"x-original-url", b"http://[/"),
    ],
)
def test_h17_a_line_that_says_otherwise(line: bytes, value: bytes) -> None:
    assert override("GET", PATH, b"", [(b"host", b"h"), (line, value)]) == line.decode()


@pytest.mark.parametrize(
    "query", [b"_method=POST", b"a=1&_METHOD=put", b"_method=", b"%5Fmethod=POST"]
)
def test_h17_a_parameter_that_says_otherwise(query: bytes) -> None:
    assert override("GET", PATH, query, []) in ("?_method=", "?_METHOD=")


def test_h17_what_agrees_with_the_request_line_passes() -> None:
    lines = [
        (b"x-http-method-override", b"get"),
        (b"x-original-url", b"/s/x/v1/models?limit=1"),
        (b"x-forwarded-uri", b"https://h/s/x/v1/models"),
        (b"x-forwarded-for", b"10.0.0.1"),
    ]
    assert override("GET", PATH, b"_method=GET&limit=1", lines) is None

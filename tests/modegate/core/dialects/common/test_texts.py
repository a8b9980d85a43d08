"""The content of a message: a string or parts, read and lengthened without a change to what is there."""

from __future__ import annotations

from typing import Any

import pytest

from modegate.core.dialects.common.body import Body
from modegate.core.dialects.common.texts import content_text, grow
from modegate.core.wire.json_spans import Span, apply
from modegate.core.wire.request_body import RequestBody


class Message(Body):
    """An object."""

    TOOLS = GATED = frozenset()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("a", "a"),
        (
            [{"type": "text", "text": "a"}, {"type": "image"}, {"text": 1}, "x", {"text": "b"}],
            "a\nb",
        ),
        ([], ""),
        (None, ""),
        ({"text": "a"}, ""),
    ],
)
def test_what_a_content_says(content: Any, text: str) -> None:
    assert content_text(content) == text


@pytest.mark.parametrize(
    ("message", "grown"),
    [
        (b'{"content":"a\\u00e9"}', b'{"content":"a\\u00e9\\n\\n\\"S\\""}'),
        (b'{"content":[ ]}', b'{"content":[ {"type":"t","text":"\\"S\\""}]}'),
        (b'{"content":[{"x":1} ]}', b'{"content":[{"x":1} ,{"type":"t","text":"\\"S\\""}]}'),
        (b'{"content":null}', None),
        (b'{"content":{}}', None),
        (b'{"content":"a","content":"b"}', None),
        (b"{}", None),
    ],
)
def test_a_content_grows_at_its_end(message: bytes, grown: bytes | None) -> None:
    edit = grow(Message(RequestBody(message)), Span(0, len(message)), '"S"', part="t")
    assert (edit and apply(message, [edit])) == grown

"""What a text would cost is known before it is read (H23)."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.wire import weight
from modegate.core.wire.weight import cost, is_dense, string_end

VALUES = st.recursive(
    st.none() | st.integers() | st.text() | st.sampled_from(['[{,"', "\\", '\\"', "x" * 50]),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=4), inner, max_size=5)
    ),
)
STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


@given(VALUES, st.integers(0, 40), st.integers(2, 60))
def test_h23_signs_that_part_values_are_counted(value: object, most: int, size: int) -> None:
    """Those in strings are not, wherever a slice of the text ends."""
    text = json.dumps(value).encode()
    bare = STRING.sub(b"", text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weight, "_SLICE", size)
        escapes = text.count(b"\\") > weight.ESCAPES * most
        assert is_dense(text, most) == (sum(map(bare.count, weight._SIGNS)) > most or escapes)


@given(st.binary(), st.integers(2, 9))
def test_h23_what_is_no_json_is_counted_too(text: bytes, size: int) -> None:
    """A string without an end, a backslash at the end: the count ends with the text."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weight, "_SLICE", size)
        assert is_dense(text, len(text)) is False
        is_dense(b'["' + text, 0)


@given(st.text(), st.integers(2, 9))
def test_h23_a_string_ends_where_it_ends(text: str, size: int) -> None:
    quoted = json.dumps(text).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weight, "_SLICE", size)
        assert string_end(b"[" + quoted + b',"x"]', 1) == 1 + len(quoted)
        assert string_end(quoted[:-1], 0) in (len(quoted) - 1, len(quoted))


def test_h23_what_is_dense_costs_more_than_its_bytes() -> None:
    """An object in four bytes takes as long to read as a line of text; what is short is read at once."""
    dense, plain = b'[{"a":1},' * 10_000, b"x" * 90_000
    assert cost(plain) == 90_000
    assert cost(dense) == len(dense) + 64 * 10_000
    assert cost(dense[:60_000]) == 60_000

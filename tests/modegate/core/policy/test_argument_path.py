"""The names of arguments within others: `options.force`, `edits[].file_path`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.policy.argument_path import Mark, parse_path, written


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a", ("a",)),
        ("a.b", ("a", "b")),
        ("a[]", ("a", Mark.EACH)),
        ("a[][].b", ("a", Mark.EACH, Mark.EACH, "b")),
        (r"a\.b", ("a.b",)),
        (r"a\[\]", ("a[]",)),
        (r"a\\.b", ("a\\", "b")),
        (r"\others", ("others",)),
        ("a b-c_d", ("a b-c_d",)),
    ],
)
def test_a_path_is_read(text: str, path: tuple[Any, ...]) -> None:
    assert parse_path(text) == path
    assert parse_path(written(path)) == path


@pytest.mark.parametrize(
    "text", ["", ".a", "a.", "a..b", "[]", "a[0]", "a[", "a]b", "a[]b", "a\\", "[].a"]
)
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no path of an argument"):
        parse_path(text)


@given(st.lists(st.text(min_size=1, max_size=4) | st.just(Mark.EACH), min_size=1, max_size=8))
def test_every_path_can_be_written(path: list[Any]) -> None:
    path[0] = "a"
    assert parse_path(written(path)) == tuple(path)

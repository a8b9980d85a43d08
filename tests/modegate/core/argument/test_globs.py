"""Globs mean what docs/policies.md says, and no pattern is slow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modegate.core.argument.globs import glob_matches


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("read", "read", True),
        ("read", "Read", False),
        ("read", "reads", False),
        ("read", "a read", False),
        ("read", "read\n", False),
        ("read*", "read", True),
        ("read*", "read\nmore\n", True),
        ("*read", "to read", True),
        ("*", "", True),
        ("**", "x", True),
        ("", "", True),
        ("", "x", False),
        ("r?ad", "read", True),
        ("r?ad", "r\nad", True),
        ("r?ad", "rad", False),
        ("a*b*c", "a-b-c", True),
        ("a*b*c", "a-c-b", False),
        ("a*bc*bc", "abc", False),
        ("a*bc*bc", "abcbc", True),
        ("[ab]", "a", False),
        ("[ab]", "[ab]", True),
        ("a.c", "abc", False),
        ("a\\*", "a\\b", True),
        ("mcp__fs__*", "mcp__fsx__read", False),
        ("é", "e\u0301", False),
    ],
)
def test_a_glob_is_anchored_literal_and_exact(pattern: str, text: str, matches: bool) -> None:
    assert glob_matches(pattern, text) is matches


def _slowly(pattern: str, text: str) -> bool:
    """The definition, word for word."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(_slowly(pattern[1:], text[start:]) for start in range(len(text) + 1))
    return bool(text) and pattern[0] in ("?", text[0]) and _slowly(pattern[1:], text[1:])


@given(st.text("ab*?[]!^\\-\n", max_size=7), st.text("ab[]!^\\-\n", max_size=9))
def test_a_glob_matches_as_its_definition(pattern: str, text: str) -> None:
    assert glob_matches(pattern, text) is _slowly(pattern, text)


@pytest.mark.timeout(20)
def test_many_stars_over_a_long_text_come_to_an_end() -> None:
    """Tried with backtracking, this would not end in a lifetime."""
    assert not glob_matches("*a" * 12 + "*b", "a" * 100_000)

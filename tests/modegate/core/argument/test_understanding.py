"""A refusal quotes a line of an argument, and nothing in it that a terminal or a page would follow."""

from __future__ import annotations

import pytest

from modegate.core.argument.understanding import QUOTED, quoted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ls -l", "`ls -l`"),
        ("one\ntwo", "`one`"),
        ("", "``"),
        ("a`b`", "`a'b'`"),
        ("a\x1b[2Jb\u202ec\u2028d\r", "`a?[2Jb?c?d?`"),
        ("a" * QUOTED, f"`{'a' * QUOTED}`"),
        ("a" * (QUOTED + 1), f"`{'a' * QUOTED}…`"),
        ("\ud800", "`?`"),
    ],
)
def test_quoted(text: str, shown: str) -> None:
    assert quoted(text) == shown
